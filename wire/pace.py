# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What each of several servers in one process may have of the processor while another is there.

The interpreter runs one thread at a time. For example, eight requests of one tenant keep an
operation of another waiting eight times. So the turns of a server that has had its part begin one
after the other, at a distance that holds it to RATE, and while nobody else has a request in work.
A server that is alone never waits.

A turn counts when it begins, with what the ones before have taken on the average, and is put right
when it ends. Else many would begin at once. This is the generic cell rate algorithm (ITU-T I.371).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

RATE = 0.2
"""Of one processor, for each server while another is there."""

BURST_SECONDS = 0.05
"""Of a processor, that a server may take at once. Some fifteen operations."""

PRESENT_SECONDS = 30.0
"""A server is there for this long after a turn of its own has begun or ended."""

PATIENCE_SECONDS = 1.0
"""No turn waits longer, so that nobody starves."""

FIRST_COST = 0.002
"""Seconds of a processor for a turn, before any has ended."""

GIVE_WAY_SECONDS = 0.1
"""The longest time for which a turn waits for others' that are in work. Some take minutes."""

LOOK_AWAY_SECONDS = 0.02
"""The longest time for which a server reads nothing."""


class Pace:
    """That of all servers of one process. Thread-safe.

    clock: seconds that do not go back
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._heard: dict[Portion, float] = {}
        self._prompt: Counter[Portion] = Counter()

    def portion(self) -> Portion:
        """One more server's."""
        return Portion(self, self._clock)

    def hear(self, portion: Portion, now: float) -> None:
        """Note that it has work now."""
        with self._lock:
            self._heard[portion] = now

    @contextlib.contextmanager
    def prompt(self, portion: Portion) -> Iterator[None]:
        """Within the block it has a request in work that did not have to wait."""
        with self._lock:
            self._prompt[portion] += 1
        try:
            yield
        finally:
            with self._lock:
                self._prompt -= Counter([portion])
                self._changed.notify_all()

    def give_way(self, portion: Portion) -> None:
        """Return when no other one is in such a block, or after GIVE_WAY_SECONDS."""
        with self._lock:
            self._changed.wait_for(lambda: not self._prompt.keys() - {portion}, GIVE_WAY_SECONDS)

    def crowded(self, portion: Portion, now: float) -> bool:
        """Whether another one has had work lately."""
        with self._lock:
            for other, heard in [*self._heard.items()]:
                if now - heard > PRESENT_SECONDS:
                    del self._heard[other]
            return any(other is not portion for other in self._heard)


class Portion:
    """What one server has. Thread-safe.

    _due: when all that it has taken is paid for, at RATE
    """

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace = pace
        self._clock = clock
        self._lock = threading.Lock()
        self._due = clock()
        self._cost = FIRST_COST

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Within the block a request is in work. It is entered when it may begin."""
        wait, counted = self.begin()
        if wait:
            time.sleep(wait)
            self._pace.give_way(self)
        began = time.thread_time()
        try:
            with contextlib.nullcontext() if wait else self._pace.prompt(self):
                yield
        finally:
            self.end(counted, time.thread_time() - began)

    def begin(self) -> tuple[float, float]:
        """Seconds until a turn may begin, and what was counted for it."""
        self._pace.hear(self, self._clock())
        with self._lock:
            counted = self._cost
            wait = self._wait()
            self._count(counted)
            return wait, counted

    def end(self, counted: float, taken: float) -> None:
        """A turn for which `counted` was counted has taken so many seconds of a processor."""
        self._pace.hear(self, self._clock())
        with self._lock:
            self._cost += (taken - self._cost) / 8
            self._count(taken - counted)

    def read(self, taken: float) -> float:
        """Count what was taken by reading, outside of turns. Seconds for which nothing more is to
        be read."""
        with self._lock:
            self._count(taken)
            return min(self._wait(), LOOK_AWAY_SECONDS)

    def _count(self, taken: float) -> None:
        now = self._clock()
        paid = max(self._due, now) + taken / RATE
        self._due = min(paid, now + BURST_SECONDS / RATE + PATIENCE_SECONDS)

    def _wait(self) -> float:
        now = self._clock()
        if not self._pace.crowded(self, now):
            self._due = now
        return max(0.0, self._due - now - BURST_SECONDS / RATE)
