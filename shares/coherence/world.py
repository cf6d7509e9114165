# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Time, chance and links of the simulator: one queue of events, and what goes over the wire."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random

from shares.coherence.messages import BLOCK, Carrier, Log, Message

HEADER = 33
"""Bytes of a message before what it says of each block: 25, and 8 of the frame that it is in."""


def wire_size(message: Message) -> int:
    """Bytes on the wire, as shares/nodes encodes it."""
    size = HEADER
    for name in ("versions", "refused"):
        size += 8 * len(getattr(message, name, ()))
    for name in ("shared", "used", "kept", "lent"):
        size += len(getattr(message, name, ()))
    for name in ("owned", "copies"):
        size += 16 * len(getattr(message, name, ()))
    if isinstance(message, Carrier):
        size += 4 + (8 + BLOCK) * len(message.fresh)
    return size + (4 + len(message.data) if isinstance(message, Log) else 0)


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


@dataclass
class Traffic:
    """What went over links, by the kind of message."""

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def count(self, message: Message) -> None:
        name = type(message).__name__
        self.messages[name] += 1
        self.bytes[name] += wire_size(message)

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


Delay = Callable[[], float]


class Link:
    """One direction of a connection: FIFO, whatever the delays are. rate: bytes per second."""

    def __init__(self, world: World, delay: Delay, rate: float = inf) -> None:
        self._world = world
        self._delay = delay
        self._rate = rate
        self._free = 0.0
        self._arrival = 0.0
        self.stalled = 0.0
        self.dead = False

    def send(self, size: int, arrive: Callable[[], None]) -> None:
        began = max(self._world.now, self._free)
        self._free = began + size / self._rate
        # What is on the way when a link stalls comes when it goes on.
        at = max(self._free + self._delay(), self._arrival, self.stalled)
        self._arrival = at
        self._world.at(at, lambda: None if self.dead else arrive())
