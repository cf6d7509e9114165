# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Three queues, as in CAFIO (Lee et al.), scored as in LIRS (Jiang and Zhang, SIGMETRICS 2002).

    high     asked for again sooner than any other: the last to go
    normal   asked for once, or again only after long; in the order of the last time
    low      nobody is expected to ask for it again, or somebody only to ask for it some time: what
             was brought ahead; in the order of arrival

What a machine touches comes in loops: the next resume touches again what the one before did, and so
does the next start of a program. Where a loop is longer than the cache, whoever keeps what was
touched last (LRU) has always just given up what comes next. CAFIO scores a file by its hits over
its age, which does not tell the blocks of one loop from those of another. What does is the
distance between the last two times that a block was asked for, in other blocks: `high` has those in
which it is smallest, and a block enters only if its distance is smaller than the time since the
oldest in there was asked for. So a part of a loop stays, and is found the next time round.

The distance is known of chunks that are not here any more, too: of the last GHOSTS times as many as
the cache holds, at most MOST_GHOSTS. What is cold goes through `low`, so that a machine that
touches much once displaces nothing; where that was wrong, it is asked for again soon, and then it
is treated as all others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container

from surrogate.caching.policy import Key, Queue, take

HIGH_PART = 0.99
"""Of the cache. What is new lives in the rest until it is asked for again or goes."""

GHOSTS = 8
MOST_GHOSTS = 1 << 19


class ThreeQueues:
    """See the module.

    _recent has, the oldest first, what was asked for since the oldest of `high` was: all that is
    high, some of what is normal, and ghosts. What is in it when it is asked for again has a smaller
    distance than that oldest one, and takes its place.
    """

    def __init__(self, capacity: int) -> None:
        """capacity: how many chunks there is room for, about."""
        self._high_limit = max(1, int(capacity * HIGH_PART))
        self._ghost_limit = min(GHOSTS * capacity, MOST_GHOSTS)
        self._recent: OrderedDict[Key, None] = OrderedDict()
        self._high: set[Key] = set()
        self._normal: OrderedDict[Key, None] = OrderedDict()
        self._low: OrderedDict[Key, None] = OrderedDict()
        self._ghosts: OrderedDict[Key, None] = OrderedDict()

    def touched(self, key: Key, *, cold: bool = False) -> Queue | None:
        where = self._where(key)
        close = key in self._recent
        cold = cold and not close and where in (None, Queue.LOW)
        if not cold:
            self._low.pop(key, None)
        self._ghosts.pop(key, None)
        self._recent[key] = None
        self._recent.move_to_end(key)
        if where is Queue.HIGH:
            self._trim()
        elif cold:
            self._low.setdefault(key)
        elif close or len(self._high) < self._high_limit:
            self._normal.pop(key, None)
            self._high.add(key)
            self._demote()
        else:
            self._normal[key] = None
            self._normal.move_to_end(key)
        return where

    def brought(self, key: Key) -> None:
        if self._where(key) is None:
            self._low[key] = None

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        found = take(self._low, count, pinned)
        found += take(self._normal, count - len(found), pinned)
        for key in found:
            self._haunt(key)
        oldest = (key for key in self._recent if key in self._high and key not in pinned)
        for key in [key for key, _ in zip(oldest, range(count - len(found)), strict=False)]:
            self._high.remove(key)
            self._haunt(key)
            found.append(key)
        self._trim()
        return found

    def counts(self) -> dict[Queue, int]:
        sizes = len(self._high), len(self._normal), len(self._low)
        return dict(zip((Queue.HIGH, Queue.NORMAL, Queue.LOW), sizes, strict=True))

    def _where(self, key: Key) -> Queue | None:
        if key in self._high:
            return Queue.HIGH
        if key in self._normal:
            return Queue.NORMAL
        return Queue.LOW if key in self._low else None

    def _demote(self) -> None:
        """What is too much in `high`: the oldest of it was not asked for again."""
        while len(self._high) > self._high_limit:
            key, _ = self._recent.popitem(last=False)
            self._ghosts.pop(key, None)
            if key in self._high:
                self._high.remove(key)
                self._normal[key] = None
        self._trim()

    def _trim(self) -> None:
        """The oldest of `_recent` is high, or there is none."""
        while self._recent and (key := next(iter(self._recent))) not in self._high:
            del self._recent[key]
            self._ghosts.pop(key, None)

    def _haunt(self, key: Key) -> None:
        """It is not here any more, and its distance is still known."""
        if key in self._recent:
            self._ghosts[key] = None
            if len(self._ghosts) > self._ghost_limit:
                oldest, _ = self._ghosts.popitem(last=False)
                del self._recent[oldest]


__all__ = ["ThreeQueues"]
