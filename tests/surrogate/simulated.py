# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A schedule against links of numbers: no thread, no clock but the one that is counted here."""

import heapq
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from satchel.ids import ChunkRef
from surrogate.fetching import Dispatch, Key, Prior, Schedule, SourceState
from wire import Priority


def ref(number: int) -> ChunkRef:
    return ChunkRef(number.to_bytes(4, "big") * 13)


def refs(first: int, count: int) -> list[ChunkRef]:
    return [ref(number) for number in range(first, first + count)]


@dataclass(eq=False)
class Link:
    """A source behind a link: answers leave one after the other.

    ends: seconds that 100 KB take at both ends; lacks: what it has not; mute: it takes requests and
    says nothing; broken: it fails at once
    """

    name: str
    round_trip: float
    rate: float
    ends: float = 0.0
    hits: float = 1.0
    lacks: set[Key] = field(default_factory=set)
    mute: bool = False
    broken: bool = False
    free: float = 0.0
    requests: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.standing = SourceState(self.name, Prior(hits=self.hits))


class World:
    """Time, links and one schedule.

    came: when each thing arrived; deepest: how many requests were under way at a source at once
    """

    def __init__(self, *links: Link) -> None:
        self.now = 0.0
        self.links = {link.standing: link for link in links}
        self.schedule = Schedule()
        self.came: dict[Key, float] = {}
        self.sent: list[tuple[float, Dispatch]] = []
        self.deepest = 0
        self._since: dict[Key, float] = {}
        self._events: list[tuple[float, int, Dispatch, Link, bool]] = []
        self._number = itertools.count()

    def want(
        self,
        keys: Iterable[Key],
        priority: Priority = Priority.DEMAND,
        size: int = 2000,
        links: Iterable[Link] | None = None,
    ) -> list[Key]:
        wanted = list(keys)
        standings = [link.standing for link in links] if links else list(self.links)
        for key in wanted:
            self._since.setdefault(key, self.now)
            self.schedule.want(key, size, priority, standings)
        self.take()
        return wanted

    def take(self) -> None:
        for dispatch in self.schedule.take(self.now):
            self.sent.append((self.now, dispatch))
            self.deepest = max(self.deepest, len(dispatch.standing.flying))
            self._carry(dispatch, self.links[dispatch.standing])

    def run(self, until: float = math.inf, *, keys: Iterable[Key] | None = None) -> None:
        """Let time pass until then, or until those have come; at most an hour."""
        wanted = set(keys) if keys is not None else None
        while self.now < min(until, 3600.0):
            if wanted is not None and wanted <= self.came.keys():
                return
            event = self._events[0][0] if self._events else math.inf
            wake = max(self.schedule.wake_at(self.now), self.now + 1e-3)
            if min(event, wake) > until or min(event, wake) == math.inf:
                break
            self.now = max(self.now, min(event, wake))
            while self._events and self._events[0][0] <= self.now:
                self._answer(*heapq.heappop(self._events)[2:])
            self.take()
        if until < math.inf:
            self.now = until

    def seconds(self, keys: Iterable[Key]) -> float:
        """How long the last of these took."""
        return max(self.came[key] - self._since[key] for key in keys)

    def silence_ends(self, link: Link) -> None:
        """What a source was asked for and has not answered has failed."""
        answered = {id(event[2]) for event in self._events}
        for dispatch in list(link.standing.flying.values()):
            if id(dispatch) not in answered:
                self.schedule.failed(dispatch, self.now)

    def _carry(self, dispatch: Dispatch, link: Link) -> None:
        link.requests += 1
        if link.mute:
            return
        size = 0 if link.broken else sum(w.size for w in dispatch.wants if w.key not in link.lacks)
        at_ends = link.ends * size / 100_000
        link.free = max(link.free, self.now + link.round_trip + at_ends) + size / link.rate
        at = self.now + link.round_trip if link.broken else link.free
        heapq.heappush(self._events, (at, next(self._number), dispatch, link, link.broken))

    def _answer(self, dispatch: Dispatch, link: Link, failed: bool) -> None:
        if failed:
            self.schedule.failed(dispatch, self.now)
            return
        got = {key for key in dispatch.keys if key not in link.lacks}
        size = sum(want.size for want in dispatch.wants if want.key in got)
        link.bytes += size
        self.schedule.answered(dispatch, size, got, self.now)
        for key in got:
            self.came.setdefault(key, self.now)
