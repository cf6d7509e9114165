# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When a version was made, beside those that say that they were made later."""

from datetime import UTC, datetime, timedelta, timezone

from satchel.timestamps import format_timestamp, timestamp_after


def test_what_is_made_now_is_made_now() -> None:
    before = format_timestamp(datetime.now(UTC))
    assert (
        before <= timestamp_after(["2005-06-06T12:00:00.000000+00:00"]) <= timestamp_after([before])
    )


def test_what_is_made_after_the_clock_was_put_back_is_the_newest() -> None:
    ahead = datetime.now(UTC) + timedelta(days=9)
    there = [format_timestamp(ahead), format_timestamp(ahead - timedelta(days=1))]
    assert timestamp_after(there) == format_timestamp(ahead + timedelta(microseconds=1))


def test_text_sorts_as_the_moments_do_wherever_they_were_written() -> None:
    noon = datetime(2026, 11, 24, 12, tzinfo=UTC)
    there = timezone(timedelta(hours=-5))
    assert format_timestamp(noon.astimezone(there)) == "2026-11-24T12:00:00.000000+00:00"
