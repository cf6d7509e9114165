# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is counted of fetching: by source and priority, and how long a machine stood still."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from satchel.spans import Spans
from wire import Priority

STALL_BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Seconds: upper bounds of the histogram of stalls; one more class is above the last."""


@dataclass
class Count:
    """Of one source and priority. seconds: of all requests together, which overlap.

    overdue: requests whose chunks were asked for elsewhere before they came
    """

    requests: int = 0
    chunks: int = 0
    bytes: int = 0
    seconds: float = 0.0
    overdue: int = 0


@dataclass
class Stalls:
    """How often and how long a machine waited for blocks; `histogram` by STALL_BOUNDS."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    histogram: list[int] = field(default_factory=lambda: [0] * (len(STALL_BOUNDS) + 1))


class FetchTally:
    """The numbers of one fetcher. Thread-safe.

    spans: its requests and stalls, one by one
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Priority], Count] = defaultdict(Count)
        self._faults: dict[str, int] = defaultdict(int)
        self._complaints: dict[str, str] = {}
        self._stalls = Stalls()
        self._unkept = 0
        self.spans = Spans()

    def answer(
        self,
        source: str,
        priority: Priority,
        size: int,
        chunks: int,
        seconds: float,
        *,
        late: bool,
    ) -> None:
        """A request was answered; late: what it asked for was asked for elsewhere meanwhile."""
        with self._lock:
            count = self._counts[source, priority]
            count.requests += 1
            count.chunks += chunks
            count.bytes += size
            count.seconds += seconds
            count.overdue += late
        now = time.monotonic()
        self.spans.add(f"{chunks} chunks, {size} B: {priority.value}", source, now - seconds, now)

    def fault(self, source: str, error: Exception) -> None:
        """A request without an answer, or a chunk that is not itself."""
        with self._lock:
            self._faults[source] += 1
            self._complaints[source] = str(error)

    def stall(self, seconds: float) -> None:
        """A machine has waited for blocks."""
        with self._lock:
            self._stalls.count += 1
            self._stalls.seconds += seconds
            self._stalls.longest = max(self._stalls.longest, seconds)
            place = sum(seconds > bound for bound in STALL_BOUNDS)
            self._stalls.histogram[place] += 1
        now = time.monotonic()
        self.spans.add("machine waits for blocks", "stalls", now - seconds, now)

    def unkept(self, blocks: int = 0) -> int:
        """How many blocks were handed on without being kept, these included."""
        with self._lock:
            self._unkept += blocks
            return self._unkept

    def counts(self) -> dict[tuple[str, Priority], Count]:
        """By source and priority, where anything was asked."""
        with self._lock:
            return {key: Count(**vars(count)) for key, count in self._counts.items()}

    def stalls(self) -> Stalls:
        with self._lock:
            stalls = self._stalls
            return Stalls(stalls.count, stalls.seconds, stalls.longest, list(stalls.histogram))

    def bytes_by_source(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for (source, _), count in self.counts().items():
            found[source] += count.bytes
        return dict(found)

    def faults(self) -> dict[str, int]:
        """By source, where any."""
        with self._lock:
            return dict(self._faults)

    def complaint(self) -> str:
        """The last fault of each source, for people."""
        with self._lock:
            return "; ".join(f"{name}: {why}" for name, why in self._complaints.items())
