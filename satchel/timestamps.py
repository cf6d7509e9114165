# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When a version of a thing was made, as text: UTC, ISO 8601, with microseconds.

A clock may have jumped, so a counter beside the moment says which of two versions is the newer.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def format_timestamp(moment: datetime) -> str:
    """A moment as that text."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def timestamp_now() -> str:
    """This moment as that text."""
    return format_timestamp(datetime.now(UTC))


def format_unix(seconds: float) -> str:
    """A moment in seconds since 1970 as that text."""
    return format_timestamp(datetime.fromtimestamp(seconds, UTC))


def elapsed() -> float:
    """Return seconds on a clock that counts sleep and never jumps, for differences only."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_time(moment: float) -> datetime:
    """Return the wall clock's time of a moment that `elapsed` gave."""
    return datetime.fromtimestamp(time.time() - (elapsed() - moment), UTC)
