# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The pace of requests of tenants that use the daemon's interpreter at the same time.

One interpreter serves all tenants. If one of them asks without a pause in eight connections, each
request of another waits for eight turns. So while several tenants are active, the starts of each
one's requests are apart: by the average cost of its requests, divided by its share of a processor.
A tenant that uses less than its share never waits. Requests that are refused before they begin,
and bodies on their way, also take the interpreter: the thread that reads them rests by its share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

ACTIVE_SECONDS = 2.0
"""A tenant without a request for so long has no share."""

PART = 0.5
"""Of one processor, for all active tenants together."""

BURST_SECONDS = 0.05
"""A tenant that was idle begins so much earlier."""

LONGEST_SECONDS = 1.0
"""A request waits no longer than this after the one before it of its tenant."""

UNNOTICED_SECONDS = 0.0002
"""Work of a thread that has only looked for requests."""

SWITCH_SECONDS = 0.0005
"""A thread that computes gives the interpreter to another one after this time. By default it is
5 ms, and an operation takes the interpreter several times."""

WEIGHT = 0.1
"""Of the newest request in the average cost."""


@dataclass
class _Lane:
    """waiting: requests that have not begun"""

    next: float = 0.0
    waiting: int = 0
    cost: float = 0.001


class Pacer:
    """The paces of all tenants of a daemon. Thread-safe."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._heard: dict[str, float] = {}
        self._lanes: dict[tuple[str, str], _Lane] = {}

    def begin(self, tenant: str, kind: str) -> None:
        """Wait for the turn of a request. kind: requests of different kinds do not wait for each
        other."""
        now = self._clock()
        with self._lock:
            lane = self._lane(tenant, kind, now)
            if len(self._heard) == 1:
                return
            longest = LONGEST_SECONDS * (lane.waiting + 1)
            lane.next = min(max(lane.next, now - BURST_SECONDS), now + longest)
            wait = lane.next - now
            lane.next += lane.cost * len(self._heard) / PART
            lane.waiting += 1
        if wait > 0:
            self._sleep(wait)
        with self._lock:
            lane.waiting -= 1

    def end(self, tenant: str, kind: str, used: float) -> None:
        """Count a request. used: seconds of a processor"""
        with self._lock:
            lane = self._lanes.get((tenant, kind))
            if lane:
                lane.cost += (used - lane.cost) * WEIGHT

    def rest(self, tenant: str, used: float) -> None:
        """Wait after work that no request was begun for. used: seconds of a processor"""
        if used < UNNOTICED_SECONDS:
            return
        now = self._clock()
        with self._lock:
            lane = self._lane(tenant, "rest", now)
            if len(self._heard) == 1:
                return
            lane.next = max(lane.next, now - BURST_SECONDS) + used * len(self._heard) / PART
            lane.next = min(lane.next, now + LONGEST_SECONDS)
            wait = lane.next - now
        if wait > 0:
            self._sleep(wait)

    def _lane(self, tenant: str, kind: str, now: float) -> _Lane:
        """Note that a tenant is active, forget those that are not, and return its lane. With the
        lock."""
        self._heard[tenant] = now
        for other in [one for one, at in self._heard.items() if now - at > ACTIVE_SECONDS]:
            del self._heard[other]
            for key in [key for key in self._lanes if key[0] == other]:
                del self._lanes[key]
        return self._lanes.setdefault((tenant, kind), _Lane())
