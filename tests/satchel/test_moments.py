# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When a version was made."""

from datetime import UTC, datetime, timedelta, timezone

from satchel.timestamps import format_timestamp, timestamp_now


def test_what_is_made_now_is_made_now() -> None:
    before = format_timestamp(datetime.now(UTC))
    assert before <= timestamp_now() <= format_timestamp(datetime.now(UTC))


def test_text_sorts_as_the_moments_do_wherever_they_were_written() -> None:
    noon = datetime(2026, 11, 24, 12, tzinfo=UTC)
    there = timezone(timedelta(hours=-5))
    assert format_timestamp(noon.astimezone(there)) == "2026-11-24T12:00:00.000000+00:00"
