# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When a version of a thing was made, as text that sorts: UTC, ISO 8601, with microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta


def format_timestamp(moment: datetime) -> str:
    """A moment as that text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def timestamp_now() -> str:
    """This moment as that text."""
    return format_timestamp(datetime.now(UTC))


def timestamp_after(made: Iterable[str]) -> str:
    """Now, but behind all of these moments, which are of versions: the one that is made now is the
    newest also where the clock was put back since."""
    later = [datetime.fromisoformat(text) + timedelta(microseconds=1) for text in made]
    return format_timestamp(max([datetime.now(UTC), *later]))
