# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Time, chance and links of the simulator."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf
from random import Random


class World:
    """The queue of events and the clock, in seconds."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.chance = Random(seed)
        self.steps = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def after(self, delay: float, event: Callable[[], None]) -> None:
        self.at(self.now + delay, event)

    def at(self, time: float, event: Callable[[], None]) -> None:
        """Events of one time happen in the order in which they were asked for."""
        self._number += 1
        heapq.heappush(self._queue, (time, self._number, event))

    def step(self) -> bool:
        """The next event; False where there is none."""
        if not self._queue:
            return False
        self.now, _, event = heapq.heappop(self._queue)
        self.steps += 1
        event()
        return True

    def run(self, until: float = inf) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.step()
        self.now = max(self.now, until) if until < inf else self.now


Delay = Callable[[], float]


class Link:
    """One direction of a connection: FIFO, whatever the delays are."""

    def __init__(self, world: World, delay: Delay) -> None:
        self._world = world
        self._delay = delay
        self._arrival = 0.0
        self.stalled = 0.0
        self.dead = False

    def send(self, arrive: Callable[[], None]) -> None:
        # What is on the way when a link stalls comes when it goes on.
        at = max(self._world.now + self._delay(), self._arrival, self.stalled)
        self._arrival = at
        self._world.at(at, lambda: None if self.dead else arrive())

    def overtake(self, arrive: Callable[[], None]) -> None:
        """As a ping: it goes ahead of what was sent before it."""
        at = max(self._world.now + self._delay(), self.stalled)
        self._world.at(at, lambda: None if self.dead else arrive())


class Process:
    """A node's process, which may stand still, and end. rate: of its clock, against the world's."""

    def __init__(self, world: World, number: int, rate: float = 1.0) -> None:
        self.alive = True
        self.paused_until = 0.0
        self._world = world
        self._rate = rate
        self._ahead = 1000.0 * number
        self._held: list[Callable[[], None]] = []

    @property
    def clock(self) -> float:
        return self._world.now * self._rate + self._ahead

    @property
    def paused(self) -> bool:
        return self._world.now < self.paused_until

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """By its clock."""
        self._world.after(seconds / self._rate, lambda: self.receive(event))

    def pause(self, seconds: float) -> None:
        """It stands still; what arrives waits for it."""
        self.paused_until = max(self.paused_until, self._world.now + seconds)
        self._world.after(seconds, self._resume)

    def _resume(self) -> None:
        if not self.paused:
            held, self._held = self._held, []
            for event in held:
                self.receive(event)

    def receive(self, event: Callable[[], None]) -> None:
        """Something comes to the process."""
        if not self.alive:
            return
        if self.paused:
            self._held.append(event)
        else:
            event()

    def kill(self) -> None:
        self.alive = False
        self._held.clear()
