# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""CAFIO's cache (Lee et al., IEEE Access 2021) as it is printed: Algorithm 1, Tables 1 and 2, the
CHScore of equation (1), and the context-aware cache queue of Section III-E.

A file is what a service's volume has in 16 blocks; an application is a service. `nread` of a file
goes up when it is opened, which is when a life reads it first, and at a read that comes at least
`minwait` after the one before; so does `nwrite` at a write. Both begin anew each week. The third
of an application's files that were read most are read-hot, the next third read-warm, the others
read-cold, and the same by writes.

    high     of read-hot or write-hot files: the file with the lowest CHScore goes first
    normal   of read-warm or write-warm ones: LRU
    low      of files that are cold both ways: FIFO; goes first

    CHScore = rcachehit / max(rcachehit) + wcachehit / max(wcachehit)

Hits are counted of high files. What the paper leaves open: a page goes to the queue of its file's
priority when it is read, and the thirds of an application are told anew every RANK_SECONDS; of a
file with the lowest score, what was read longest ago goes.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

from caching import Key, Queue

MINWAIT_SECONDS = 5.0
WEEK_SECONDS = 7 * 24 * 3600.0
RANK_SECONDS = 5.0

File = tuple[str, str, int]
"""An application, a volume of its, and which run of blocks."""


@dataclass
class FileContext:
    """Table 1, without what readahead needs. lastread, lastwrite: in seconds."""

    nread: int = 0
    nwrite: int = 0
    rcachehit: int = 0
    wcachehit: int = 0
    lastread: float = float("-inf")
    lastwrite: float = float("-inf")


class Cafio:
    """A cache of `capacity` pages. Times never go back."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._week = 0
        self._contexts: dict[str, dict[File, FileContext]] = {}
        self._priorities: dict[File, Queue] = {}
        self._ranked: dict[str, float] = {}
        self._pages: dict[Key, tuple[File, Queue]] = {}
        self._orders: dict[Queue, OrderedDict[Key, None]] = {
            queue: OrderedDict() for queue in (Queue.NORMAL, Queue.LOW)
        }
        self._high: dict[File, OrderedDict[Key, None]] = {}
        self._heap: list[tuple[float, File]] = []
        self._most = [1, 1]

    def __len__(self) -> int:
        return len(self._pages)

    def opened(self, file: File) -> None:
        """collectFileOpen."""
        self._context(file).nread += 1

    def read(self, now: float, file: File, key: Key) -> bool:
        """collectFileRead, and whether the page was there; it is now."""
        self._begin_week(now)
        context = self._context(file)
        if now - context.lastread >= MINWAIT_SECONDS:
            context.nread += 1
        context.lastread = now
        before = self._pages.get(key)
        priority = self._priority(now, file)
        if before is not None and priority is Queue.HIGH:
            context.rcachehit += 1
            self._most[0] = max(self._most[0], context.rcachehit)
        self._place(key, file, before, priority)
        while len(self._pages) > self._capacity:
            self._evict(key)
        return before is not None

    def write(self, now: float, file: File, key: Key) -> None:
        """collectFileWrite. key: of the page that is written."""
        self._begin_week(now)
        context = self._context(file)
        if now - context.lastwrite >= MINWAIT_SECONDS:
            context.nwrite += 1
        context.lastwrite = now
        if key in self._pages and self._priority(now, file) is Queue.HIGH:
            context.wcachehit += 1
            self._most[1] = max(self._most[1], context.wcachehit)

    def score(self, file: File) -> float:
        """CHScore: from 0 to 2."""
        context = self._context(file)
        return context.rcachehit / self._most[0] + context.wcachehit / self._most[1]

    def priority(self, file: File) -> Queue:
        """Of a file, as it was told last; low of one that was not."""
        return self._priorities.get(file, Queue.LOW)

    def _context(self, file: File) -> FileContext:
        return self._contexts.setdefault(file[0], {}).setdefault(file, FileContext())

    def _begin_week(self, now: float) -> None:
        week = int(now // WEEK_SECONDS)
        if week > self._week:
            self._week = week
            for files in self._contexts.values():
                for context in files.values():
                    context.nread = context.nwrite = 0

    def _priority(self, now: float, file: File) -> Queue:
        app = file[0]
        if now - self._ranked.get(app, float("-inf")) >= RANK_SECONDS:
            self._ranked[app] = now
            self._priorities.update(_by_thirds(self._contexts[app]))
        return self.priority(file)

    def _place(
        self, key: Key, file: File, before: tuple[File, Queue] | None, priority: Queue
    ) -> None:
        if before == (file, Queue.LOW) == (file, priority):
            return  # first in, first out
        if before is not None:
            self._take_out(key, *before)
        self._pages[key] = file, priority
        if priority is Queue.HIGH:
            if file not in self._high:
                self._high[file] = OrderedDict()
                heapq.heappush(self._heap, (self.score(file), file))
            self._high[file][key] = None
        else:
            self._orders[priority][key] = None

    def _take_out(self, key: Key, file: File, queue: Queue) -> None:
        if queue is not Queue.HIGH:
            del self._orders[queue][key]
            return
        del self._high[file][key]
        if not self._high[file]:
            del self._high[file]

    def _evict(self, spared: Key) -> None:
        """Never what was just read: it is being used."""
        for queue in (Queue.LOW, Queue.NORMAL):
            for key in self._orders[queue]:
                if key != spared:
                    self._take_out(key, *self._pages.pop(key))
                    return
        key = next(k for k in self._high[self._least(spared)] if k != spared)
        self._take_out(key, *self._pages.pop(key))

    def _least(self, spared: Key) -> File:
        """The high file with the lowest score. Scores of the heap are of when a file was put there:
        one that has another now is put there anew."""
        passed: list[tuple[float, File]] = []
        try:
            while True:
                told, file = heapq.heappop(self._heap)
                pages = self._high.get(file)
                if pages is None:
                    continue
                score = self.score(file)
                passed.append((score, file))
                if score > told and self._heap and score > self._heap[0][0]:
                    heapq.heappush(self._heap, passed.pop())
                elif len(pages) > 1 or spared not in pages:
                    return file
        finally:
            for one in passed:
                heapq.heappush(self._heap, one)


def _by_thirds(files: dict[File, FileContext]) -> dict[File, Queue]:
    """Table 2, of one application's files. One that was never written is write-cold."""
    found = dict.fromkeys(files, Queue.LOW)
    for count in ("nread", "nwrite"):
        used = [file for file, context in files.items() if getattr(context, count)]
        used.sort(key=lambda file: -getattr(files[file], count))
        third = -(-len(used) // 3)
        for place, file in enumerate(used[: 2 * third]):
            if place < third:
                found[file] = Queue.HIGH
            elif found[file] is Queue.LOW:
                found[file] = Queue.NORMAL
    return found
