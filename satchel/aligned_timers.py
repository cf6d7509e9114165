# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Moments that all programs of a host have in common, for what is said again and again.

Each message wakes a mobile's radio for a while, so beats of several programs had better fall
together. They do without a word between the programs: a beat with a period of p seconds is said
when the monotonic clock, which the host's programs share, is at a multiple of p, and periods are
multiples of TICK_SECONDS.
"""

from __future__ import annotations

import math
import time

TICK_SECONDS = 3.0


def period_within(seconds: float) -> float:
    """The longest period of whole ticks that is no longer than that; a shorter one than a tick
    stays what it is."""
    ticks = math.floor(seconds / TICK_SECONDS)
    return ticks * TICK_SECONDS if ticks else seconds


def next_tick(period: float, now: float | None = None) -> float:
    """When, of time.monotonic(), the next beat with this period is due; never `now` itself."""
    now = time.monotonic() if now is None else now
    return (math.floor(now / period) + 1) * period
