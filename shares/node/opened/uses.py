# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who uses the files that a node has open: handles of programs, and calls that are under way.

A handle lasts from its open to its release. A call uses the file for as long as it takes, by a
handle that was counted or by one of another node's, which is as good: those share one count, so
the release of one of them says nothing about calls by the others. A file rests when there is
neither, and is given up then at the earliest.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from shares.node.content.access import OpenFile
from shares.protocol import FileId

IDLE_FILES = 128
"""How many files rest at most."""


@dataclass(slots=True)
class FileUse:
    """One file's. lock: an open, and a last close, of one file at a time. file: also while it
    rests, for the next program; since: when that began, monotonic. leaves: it is not to rest, but
    to be given up as soon as nobody uses it. writes, locked: whether this node has it open to
    write, and has had locks. said: when home was told last that it is closed or written no more, as
    a number of the node's."""

    lock: threading.Lock
    file: OpenFile | None = None
    handles: int = 0
    calls: int = 0
    since: float = 0.0
    leaves: bool = False
    writes: bool = False
    locked: bool = False
    said: int = 0

    @property
    def wanted(self) -> bool:
        return self.handles > 0 or self.calls > 0

    def idle(self) -> float:
        """For how many seconds it rests; inf: it is not to."""
        if self.wanted:
            return 0.0
        return inf if self.leaves else time.monotonic() - self.since


class FileUses:
    """Of one node. Thread-safe. What makes a file wanted is done with its use's lock held.

    look: set where a file is to be given up soon
    """

    def __init__(self) -> None:
        self.look = threading.Event()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._uses: defaultdict[FileId, FileUse] = defaultdict(lambda: FileUse(threading.Lock()))
        self._resting: OrderedDict[FileId, None] = OrderedDict()

    def of(self, file: FileId) -> FileUse:
        with self._lock:
            return self._uses[file]

    @contextmanager
    def locked(self, file: FileId) -> Iterator[FileUse]:
        """The file's, with its lock held. Of one that was never opened here, because there is no
        such file, perhaps, nothing stays."""
        while True:
            use = self.of(file)
            with use.lock:
                if self._uses.get(file) is not use:
                    continue
                try:
                    yield use
                finally:
                    self._tidy(file, use)
                return

    @contextmanager
    def locked_now(self, file: FileId) -> Iterator[FileUse | None]:
        """As `locked`; None where somebody has the lock. Never waits."""
        use = self.of(file)
        if not use.lock.acquire(blocking=False):
            yield None
            return
        try:
            yield use if self._uses.get(file) is use else None
        finally:
            self._tidy(file, use)
            use.lock.release()

    def _tidy(self, file: FileId, use: FileUse) -> None:
        """With the use's lock held: forget it where there is nothing to it."""
        idle = not (use.file or use.wanted or use.said or use.locked)
        with self._lock:
            if idle and self._uses.get(file) is use:
                del self._uses[file]

    def known(self, file: FileId) -> FileUse | None:
        return self._uses.get(file)

    def is_open(self, file: FileId) -> bool:
        """Whether this node has it open: then home does not know all of its attributes."""
        use = self._uses.get(file)
        return use is not None and use.file is not None

    def number(self) -> int:
        """Greater than every one before: by these it is known what home was told after what."""
        return next(self._numbers)

    def say(self, use: FileUse) -> None:
        """Home was just told that the file is closed, or written no more."""
        use.said = self.number()

    def leave(self, use: FileUse) -> None:
        """The file is not to rest, but to be given up as soon as nobody uses it."""
        use.leaves = True
        self.look.set()

    def engaged(self, file: FileId, kept: bool) -> None:
        """Another node opens a file. If no program here has it open any more that wrote it, it is
        to be that node's alone, also where the last close is still under way."""
        use = self._uses.get(file)
        if use is not None and (kept or (use.writes and use.handles == 0)):
            self.leave(use)

    def all(self) -> list[tuple[FileId, FileUse]]:
        with self._lock:
            return list(self._uses.items())

    def opened(self, file: FileId, use: FileUse) -> None:
        """One handle more."""
        with self._lock:
            use.handles += 1
            self._resting.pop(file, None)

    def released(self, use: FileUse) -> bool:
        """One handle less, if there is any; whether nobody uses the file any more."""
        with self._lock:
            use.handles = max(0, use.handles - 1)
            return not use.wanted

    def begun(self, use: FileUse) -> None:
        """One call more."""
        with self._lock:
            use.calls += 1

    def ended(self, use: FileUse) -> bool:
        """One call less; whether nobody uses the file any more."""
        with self._lock:
            use.calls -= 1
            return not use.wanted

    def rests(self, file: FileId, use: FileUse) -> None:
        """Nobody uses it any more; a call about a file that rests changes nothing in that."""
        with self._lock:
            if file not in self._resting:
                use.since, self._resting[file] = time.monotonic(), None

    def closed(self, file: FileId, use: FileUse) -> None:
        with self._lock:
            use.file, use.leaves, use.locked, use.writes = None, False, False, False
            self._resting.pop(file, None)

    def surplus(self) -> list[FileId]:
        """Those that rest although there are too many, the longest ones."""
        with self._lock:
            return list(self._resting)[: max(0, len(self._resting) - IDLE_FILES)]
