# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a replica takes for an operation, from what it took of late."""

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
