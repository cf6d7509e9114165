# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Three queues, as in CAFIO (Lee et al.), by how often a chunk was asked for.

    high     asked for again: the last to go, and of it first what was asked for only twice
    normal   asked for once
    low      nobody has asked for it: what was brought ahead; goes first, in the order of arrival

How often is also known of chunks that are not here any more: of the last GHOSTS times as many as
the cache holds, at most MOST_GHOSTS. CAFIO forgets it, and so takes each round of a loop that is
longer than the cache for the first.

Of chunks that were asked for equally often, most of them once or twice, either end of a queue may
be the right one to take from. Of a loop that is longer than the cache a part has to stay, so what
was asked for last goes; where what is used changes, what was asked for longest ago. That is decided
by trial, as in set duelling (Qureshi et al., ISCA 2007): two small caches see a sample of the
chunks, each takes from one end always, and what had more hits lately is done.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Container

from surrogate.caching.policy import Key, Queue, take

OFTEN = 3
"""Being asked for more often than that counts no more."""

GHOSTS = 8
MOST_GHOSTS = 1 << 19

LASTING = 8
"""What was not asked for while so many times what the cache holds was, is as if asked for once."""

SAMPLE_PART = 8
"""One of so many chunks takes part in the trials, or fewer: a trial's cache has MOST_TRIED."""

MOST_TRIED = 4096

MEMORY = 4
"""A trial's hits fade as it sees so many times what it holds."""

ADVANCE = 0.05
"""Hits that the newest end begins with, as a part of what a trial holds."""

_QUEUES = (Queue.LOW, Queue.NORMAL, Queue.HIGH, Queue.HIGH)
"""By how often a chunk was asked for."""


class End(enum.Enum):
    """Of a queue: what was asked for last, or longest ago."""

    NEWEST = "newest"
    OLDEST = "oldest"


class ThreeQueues:
    """See the module."""

    def __init__(self, capacity: int) -> None:
        """capacity: how many chunks there is room for, about."""
        self._queues = _Queues(capacity)
        self._part = max(SAMPLE_PART, capacity // MOST_TRIED)
        tried = max(1, capacity // self._part)
        self._trials = [_Trial(End.NEWEST, tried, ADVANCE * tried), _Trial(End.OLDEST, tried, 0.0)]
        self._better = self._trials[0]

    def touched(self, key: Key) -> Queue | None:
        # The multiplier mixes numbers that follow each other (Knuth).
        if (hash(key) * 2654435761 >> 7) % self._part == 0:
            for trial in self._trials:
                trial.touched(key)
            self._better = max(self._better, *self._trials, key=lambda trial: trial.score)
        return self._queues.touched(key)

    def brought(self, key: Key) -> None:
        self._queues.brought(key)

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        return self._queues.victims(count, self._better.end, pinned)

    def counts(self) -> dict[Queue, int]:
        return self._queues.counts()


class _Queues:
    """_asked: how often, of what is here. _when: the last time, counted in touches. _orders: by how
    often, in the order of the last time."""

    def __init__(self, capacity: int) -> None:
        self._ghost_limit = min(GHOSTS * capacity, MOST_GHOSTS)
        self._lasting = LASTING * capacity
        self._now = 0
        self._asked: dict[Key, int] = {}
        self._when: dict[Key, int] = {}
        self._orders: tuple[OrderedDict[Key, None], ...] = tuple(OrderedDict() for _ in _QUEUES)
        self._ghosts: OrderedDict[Key, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asked)

    def touched(self, key: Key) -> Queue | None:
        before = self._asked.get(key)
        if before is not None:
            del self._orders[before][key]
        often = min(OFTEN, (self._ghosts.pop(key, 0) if before is None else before) + 1)
        self._asked[key] = often
        self._orders[often][key] = None
        self._now += 1
        self._when[key] = self._now
        self._forget()
        return None if before is None else _QUEUES[before]

    def brought(self, key: Key) -> None:
        if key not in self._asked:
            self._asked[key] = 0
            self._orders[0][key] = None

    def victims(self, count: int, end: End, pinned: Container[Key] = ()) -> list[Key]:
        found: list[Key] = []
        for often, order in enumerate(self._orders):
            newest = often > 0 and end is End.NEWEST
            spared = int(often == 1)  # it is often asked for once more at once
            for key in take(order, count - len(found), pinned, newest=newest, spared=spared):
                del self._asked[key]
                if often:
                    del self._when[key]
                    self._ghosts[key] = often
                found.append(key)
        while len(self._ghosts) > self._ghost_limit:
            self._ghosts.popitem(last=False)
        return found

    def _forget(self) -> None:
        """See LASTING."""
        for often in range(OFTEN, 1, -1):
            order = self._orders[often]
            while order and self._when[key := next(iter(order))] + self._lasting < self._now:
                del order[key]
                self._asked[key] = 1
                self._orders[1][key] = None
                self._orders[1].move_to_end(key, last=False)

    def counts(self) -> dict[Queue, int]:
        found = dict.fromkeys(Queue, 0)
        for queue, order in zip(_QUEUES, self._orders, strict=True):
            found[queue] += len(order)
        return found


class _Trial:
    """What a small cache would have had that always takes from one end.

    score: its hits, those of late more
    """

    def __init__(self, end: End, capacity: int, score: float) -> None:
        self.end = end
        self.score = score
        self._capacity = capacity
        self._fading = 1 - 1 / (MEMORY * capacity)
        self._queues = _Queues(capacity)

    def touched(self, key: Key) -> None:
        hit = self._queues.touched(key) is not None
        self.score = self.score * self._fading + hit
        if len(self._queues) > self._capacity:
            self._queues.victims(1, self.end)


__all__ = ["ThreeQueues"]
