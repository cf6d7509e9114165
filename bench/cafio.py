# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The three queues of CAFIO (Lee et al.) with its own score, to compare with."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Container

from caching import Key, Queue, take

HIGH_PART = 1 / 3
SAMPLE = 64
"""Of the high ones, the lowest score is looked for among so many, those longest not asked for."""


class Cafio:
    """What is new is in the low queue (FIFO); asked for again it goes to the normal one (LRU), and
    a third of the cache is high: what has the highest score, hits over the time since it came."""

    def __init__(self, capacity: int) -> None:
        self._high_limit = max(1, int(capacity * HIGH_PART))
        self._now = 0
        self._came: dict[Key, int] = {}
        self._hits: dict[Key, int] = {}
        self._queues: dict[Queue, OrderedDict[Key, None]] = {q: OrderedDict() for q in Queue}

    def touched(self, key: Key) -> Queue | None:
        self._now += 1
        if key not in self._came:
            self.brought(key)
            return None
        self._hits[key] += 1
        where = next(queue for queue in Queue if key in self._queues[queue])
        del self._queues[where][key]
        to = Queue.NORMAL if where is Queue.LOW else Queue.HIGH
        self._queues[to][key] = None
        high = self._queues[Queue.HIGH]
        if len(high) > self._high_limit:
            least = min(itertools.islice(high, SAMPLE), key=self._score)
            del high[least]
            self._queues[Queue.NORMAL][least] = None
        return where

    def brought(self, key: Key) -> None:
        if key not in self._came:
            self._came[key], self._hits[key] = self._now, 0
            self._queues[Queue.LOW][key] = None

    def removed(self, key: Key) -> None:
        if self._came.pop(key, None) is not None:
            del self._hits[key]
            for queue in self._queues.values():
                queue.pop(key, None)

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        found: list[Key] = []
        for queue in (Queue.LOW, Queue.NORMAL, Queue.HIGH):
            for key in take(self._queues[queue], count - len(found), pinned):
                del self._came[key], self._hits[key]
                found.append(key)
        return found

    def counts(self) -> dict[Queue, int]:
        return {queue: len(keys) for queue, keys in self._queues.items()}

    def _score(self, key: Key) -> float:
        return self._hits[key] / (self._now - self._came[key] + 1)
