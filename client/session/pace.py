# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a replica takes for an operation, from what it took of late, and how many it is sent at
once, so that nobody waits long for the first of them."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque

KEPT = 64
"""Observations that are looked at."""

FRESH_SECONDS = 60.0
"""Older ones say nothing: a replica whose blocks had yet to come is fast now."""

ENOUGH = 8
"""Observations without which the 95th percentile is the largest one."""


SEEN = 512
"""Answers whose moments are kept while a replica catches up."""

ENOUGH_ANSWERS = 4
"""In the second half of a catch-up, for saying how long an operation takes."""

BATCH = 32
"""Operations sent at once to a replica that lags."""

BATCH_SECONDS = 0.08
"""How long a batch may take beyond its first operation where reads go apart: a read waits until
the batch is over."""


class Portion:
    """How many operations a replica is sent at once, by how long each took. Of one thread."""

    def __init__(self) -> None:
        self._quickest = float("inf")
        self._each = 0.0

    def note(self, count: int, seconds: float) -> None:
        """So many were answered after so long, the way there and back included."""
        self._quickest = min(self._quickest, seconds)
        each = (seconds - self._quickest) / max(1, count - 1)
        self._each = (self._each + each) / 2

    @property
    def size(self) -> int:
        """1 to BATCH."""
        return BATCH if self._each * BATCH < BATCH_SECONDS else 1 + int(BATCH_SECONDS / self._each)


class CatchUp:
    """How fast a replica that lags executes, by when its answers came. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[tuple[float, int]] = []

    def note(self, count: int) -> None:
        """It has answered so many by now."""
        with self._lock:
            self._seen.append((time.monotonic(), count))
            if len(self._seen) > SEEN:
                del self._seen[1::2]

    def seconds_each(self) -> float | None:
        """Of an operation in the second half; None where there were too few. In the first half a
        machine waits for blocks that it touches for the first time."""
        with self._lock:
            ends = self._seen[0][1] + self._seen[-1][1] if self._seen else 0
            half = [(moment, count) for moment, count in self._seen if 2 * count >= ends]
        if len(half) < ENOUGH_ANSWERS:
            return None
        (began, before), (ended, after) = half[0], half[-1]
        return (ended - began) / (after - before)


class Pace:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: deque[tuple[float, float]] = deque(maxlen=KEPT)

    def note(self, seconds: float) -> None:
        """An operation took so long."""
        with self._lock:
            self._seen.append((time.monotonic(), seconds))

    def median(self) -> float | None:
        """Seconds, or None where nothing was seen of late."""
        seen = self._fresh()
        return statistics.median(seen) if seen else None

    def percentile95(self) -> float | None:
        """Seconds that 19 of 20 operations do not exceed, or None."""
        seen = sorted(self._fresh())
        if len(seen) < ENOUGH:
            return seen[-1] if seen else None
        return seen[max(0, -(-len(seen) * 19 // 20) - 1)]

    def _fresh(self) -> list[float]:
        since = time.monotonic() - FRESH_SECONDS
        with self._lock:
            return [seconds for moment, seconds in self._seen if moment >= since]
