# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Three queues, as in CAFIO (Lee et al.), by how often something was asked for.

    high     asked for again: the last to go, and of it first what was asked for only twice, then
             three times
    normal   asked for once
    low      nobody has asked for it: what was brought ahead; goes first, in the order of arrival

How often is also known of keys that are not here any more: of the last GHOSTS times as many as
the cache holds, at most MOST_GHOSTS. CAFIO forgets it, and so takes each round of a loop that is
longer than the cache for the first.

Of keys that were asked for equally often, most of them once or twice, either end of a queue may
be the right one to take from. Of a loop that is longer than the cache a part has to stay, so what
was asked for last goes; where what is used changes, what was asked for longest ago; where it moves
on steadily, also what was asked for often before that. That is decided by trial, as in set duelling
(Qureshi et al., ISCA 2007): three small caches see a sample of the keys, each goes one of the
WAYS always, and what had more hits lately is done.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from typing import NamedTuple

from caching.policy import Key, Queue, take

OFTEN = 4
"""Being asked for more often than that counts no more."""

GHOSTS = 8
MOST_GHOSTS = 1 << 19

SAMPLE_PART = 8
"""One of so many keys takes part in the trials, or fewer: a trial's cache has MOST_TRIED."""

MOST_TRIED = 4096

MEMORY = 4
"""A trial's hits fade as it sees so many times what it holds."""


class QueueRule(NamedTuple):
    """What goes of a queue: what was asked for last (newest), or longest ago.

    lasting: what was not asked for while so many times what the cache holds was, is as if asked for
    once. advance: hits that its trial begins with, as a part of what that holds. worth: of a hit.
    """

    newest: bool
    lasting: int
    advance: float = 0.0
    worth: float = 1.0


WAYS = (
    QueueRule(newest=True, lasting=24, advance=0.1),
    QueueRule(newest=False, lasting=12),
    QueueRule(newest=False, lasting=2, worth=0.9),
)
"""The last one has to be clearly better: it gives up what comes again after a while."""

_QUEUES = (Queue.LOW, Queue.NORMAL, *[Queue.HIGH] * (OFTEN - 1))
"""By how often something was asked for."""


class ThreeQueues:
    """See the module."""

    def __init__(self, capacity: int) -> None:
        """capacity: how many keys there is room for, about."""
        self._queues = _Queues(capacity)
        self._part = max(SAMPLE_PART, capacity // MOST_TRIED)
        tried = max(1, capacity // self._part)
        self._trials = [_Trial(way, tried) for way in WAYS]
        self._best = self._trials[0]

    def touched(self, key: Key) -> Queue | None:
        # The multiplier mixes numbers that follow each other (Knuth).
        if (hash(key) * 2654435761 >> 7) % self._part == 0:
            for trial in self._trials:
                trial.touched(key)
            self._best = max(self._best, *self._trials, key=lambda trial: trial.score)
        return self._queues.touched(key, self._best.way)

    def brought(self, key: Key) -> None:
        self._queues.brought(key)

    def removed(self, key: Key) -> None:
        self._queues.removed(key)

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        return self._queues.victims(count, self._best.way, pinned)

    def counts(self) -> dict[Queue, int]:
        return self._queues.counts()


class _Queues:
    """_asked: how often, of what is here. _when: the last time, counted in touches. _orders: by how
    often, in the order of the last time."""

    def __init__(self, capacity: int) -> None:
        self._ghost_limit = min(GHOSTS * capacity, MOST_GHOSTS)
        self._capacity = capacity
        self._now = 0
        self._asked: dict[Key, int] = {}
        self._when: dict[Key, int] = {}
        self._orders: tuple[OrderedDict[Key, None], ...] = tuple(OrderedDict() for _ in _QUEUES)
        self._ghosts: OrderedDict[Key, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asked)

    def touched(self, key: Key, way: QueueRule) -> Queue | None:
        before = self._asked.get(key)
        if before is not None:
            del self._orders[before][key]
        often = min(OFTEN, (self._ghosts.pop(key, 0) if before is None else before) + 1)
        self._asked[key] = often
        self._orders[often][key] = None
        self._now += 1
        self._when[key] = self._now
        self._forget(self._now - way.lasting * self._capacity)
        return None if before is None else _QUEUES[before]

    def brought(self, key: Key) -> None:
        if key not in self._asked:
            self._asked[key] = 0
            self._orders[0][key] = None

    def removed(self, key: Key) -> None:
        often = self._asked.pop(key, None)
        if often is not None:
            del self._orders[often][key]
            self._when.pop(key, None)

    def victims(self, count: int, way: QueueRule, pinned: Container[Key] = ()) -> list[Key]:
        found: list[Key] = []
        for often, order in enumerate(self._orders):
            newest = often > 0 and way.newest
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

    def _forget(self, then: int) -> None:
        """What was not asked for since then is as if asked for once."""
        for often in range(OFTEN, 1, -1):
            order = self._orders[often]
            while order and self._when[key := next(iter(order))] < then:
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
    """What a small cache would have had that always goes one way.

    score: what its hits are worth, those of late more
    """

    def __init__(self, way: QueueRule, capacity: int) -> None:
        self.way = way
        self.score = way.advance * capacity
        self._capacity = capacity
        self._fading = 1 - 1 / (MEMORY * capacity)
        self._queues = _Queues(capacity)

    def touched(self, key: Key) -> None:
        hit = self._queues.touched(key, self.way) is not None
        self.score = self.score * self._fading + hit * self.way.worth
        if len(self._queues) > self._capacity:
            self._queues.victims(1, self.way)


__all__ = ["ThreeQueues"]
