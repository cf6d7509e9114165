# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The pace of requests of tenants that use the daemon's interpreter at the same time.

One interpreter serves all tenants. If one of them asks without a pause in eight connections, each
request of another waits for eight turns. So while several tenants are active, the starts of each
one's requests are apart: by the average cost of its requests, divided by its share of a processor.
A tenant that uses less than its share never waits.
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
"""No request waits longer."""

WEIGHT = 0.1
"""Of the newest request in the average cost."""


@dataclass
class _Lane:
    next: float = 0.0
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
            self._heard[tenant] = now
            self._forget(now)
            lane = self._lanes.setdefault((tenant, kind), _Lane())
            if len(self._heard) == 1:
                return
            lane.next = min(max(lane.next, now - BURST_SECONDS), now + LONGEST_SECONDS)
            wait = lane.next - now
            lane.next += lane.cost * len(self._heard) / PART
        if wait > 0:
            self._sleep(wait)

    def end(self, tenant: str, kind: str, used: float) -> None:
        """Count a request. used: seconds of a processor"""
        with self._lock:
            lane = self._lanes.get((tenant, kind))
            if lane:
                lane.cost += (used - lane.cost) * WEIGHT

    def _forget(self, now: float) -> None:
        """With the lock."""
        for tenant in [one for one, at in self._heard.items() if now - at > ACTIVE_SECONDS]:
            del self._heard[tenant]
            for key in [key for key in self._lanes if key[0] == tenant]:
                del self._lanes[key]
