# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Time and links of a replay: events in order, and lines that take time for each byte.

Time is simulated, in seconds; events of one time happen in the order in which they were asked for.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from shares.node import encode
from shares.protocol import Carrier, FileId, Message

Event = Callable[[], None]

Held = Callable[[FileId, int], int]
"""Bytes of a block up to its last one that is not zero."""

FRAME = 17
"""Bytes that `wire.conversation.duplex` adds to a message."""


class Clock:
    """What happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Event]] = []
        self._asked = 0

    def at(self, time: float, event: Event) -> None:
        self._asked += 1
        heapq.heappush(self._events, (max(time, self.now), self._asked, event))

    def run(self, until: float = inf) -> None:
        """Until nothing is left to happen by that time."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()


@dataclass(frozen=True)
class Link:
    """round_trip: seconds, of an empty message and its reply. rate: bytes a second, in each
    direction."""

    round_trip: float
    rate: float


@dataclass
class Traffic:
    """messages and bytes by kind of message, both directions together. closes: the bytes of those
    that take home what was written to a file that is closed. blocks: how often the content of a
    block went over the link."""

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    closes: int = 0
    blocks: int = 0

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


class Line:
    """One direction of a link: what is sent comes in that order, after all that was sent before it.
    traffic: None where nobody counts."""

    def __init__(self, clock: Clock, link: Link, traffic: Traffic | None, held: Held) -> None:
        self._clock = clock
        self._link = link
        self._held = held
        self._traffic = traffic
        self._free = 0.0

    def follow(self, arrived: Event) -> None:
        """Something that has no size to speak of, behind what was sent before."""
        self._clock.at(max(self._free, self._clock.now) + self._link.round_trip / 2, arrived)

    def send(self, message: Message, arrived: Event, *, closes: bool = False) -> None:
        size = size_of(message, self._held)
        if self._traffic is not None:
            kind = type(message).__name__
            self._traffic.messages[kind] += 1
            self._traffic.bytes[kind] += size
            self._traffic.closes += size if closes else 0
            self._traffic.blocks += len(message.fresh) if isinstance(message, Carrier) else 0
        self._free = max(self._free, self._clock.now) + size / self._link.rate
        self._clock.at(self._free + self._link.round_trip / 2, arrived)


def size_of(message: Message, held: Held) -> int:
    """Bytes of a message as it goes over a stream, its frame included, where nothing of it can be
    compressed. TCP's and SSH's own bytes are not in it."""
    size = FRAME + len(encode(message))
    if isinstance(message, Carrier) and message.fresh:
        size += 1 + sum(2 + held(message.file, number) for number in message.fresh)
    return size


__all__ = ["Clock", "Held", "Line", "Link", "Traffic", "size_of"]
