# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Relaxation that an application asks for itself: copies that another node has taken from this one,
kept for the reads that may be some seconds old (OFS, Section 3.3.1).

Home knows nothing of it. A block whose content changes elsewhere is taken from this node first, so
its content here was the latest until then. That content is kept beside the buffer, with the time.
A relaxed read takes the latest copy where there is one, and else the kept one, if it is not older
than the reader allows. All other reads at the same node see the latest content as ever.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from math import inf

from shares.node import clock
from shares.node.content.access import OpenFile
from shares.node.content.copies import Copies
from shares.node.content.windows import Windows
from shares.node.extent import Extent
from shares.protocol import ATTRIBUTES, BLOCK, FileId, Invalidate, Message, NodeMachine, Recall

OLD_BLOCKS = 4096
"""How many blocks are kept at most; those that were taken first go first."""


@dataclass(frozen=True)
class OldCopy:
    """content: of a block; latest: until when it was the latest, seconds on the node's clock"""

    content: bytes
    latest: float


class OldCopies:
    """Of one node. Thread-safe, but for what says "with the lock", which is the content's. Only
    files that somebody watches have any."""

    def __init__(
        self,
        changed: threading.Condition,
        machine: NodeMachine,
        copies: Copies,
        windows: Windows,
        limit: int = OLD_BLOCKS,
    ) -> None:
        """changed: the content's lock"""
        self._changed, self._windows = changed, windows
        self._machine, self._copies, self._limit = machine, copies, limit
        self._watched: Counter[FileId] = Counter()
        self._old: OrderedDict[tuple[FileId, int], OldCopy] = OrderedDict()

    def watch(self, file: FileId, watched: bool) -> None:
        """Somebody may read old content of the file; or, once for each time, does so no more."""
        with self._changed:
            self._watched[file] += 1 if watched else -1
            if self._watched[file] <= 0:
                del self._watched[file]
                self.forget(file)

    def cut(self, file: FileId) -> None:
        """A program here has cut the file, or made a hole in it."""
        with self._changed:
            self.forget(file)

    def forget(self, file: FileId) -> None:
        """With the lock. A program here has cut the file, or nobody watches it."""
        for key in [key for key in self._old if key[0] == file]:
            del self._old[key]

    def clear(self) -> None:
        """With the lock. The membership is over, and what was written here counts anew."""
        self._old.clear()

    def keep(self, file: OpenFile | None, message: Message) -> None:
        """With the lock. Home is about to take these blocks away."""
        if file is None or file.file not in self._watched:
            return
        for number in message.numbers if isinstance(message, Invalidate | Recall) else ():
            content = self._latest(file, number)
            if content is None:
                continue
            self._old.pop((file.file, number), None)
            self._old[file.file, number] = OldCopy(content, clock.now())
            if len(self._old) > self._limit:
                self._old.popitem(last=False)

    def read(self, file: OpenFile, offset: int, size: int, seconds: float) -> bytes | None:
        """As many of these bytes as the file has, as they were at most so many seconds ago. Asks
        nobody: None where a part of that is not here. Raises OSError for a file that is refused."""
        with self._changed:
            file.require()
            self._copies.absorb(file)
            return self._read(file, offset, size, seconds)

    def _read(self, file: OpenFile, offset: int, size: int, seconds: float) -> bytes | None:
        since = clock.now() - seconds
        extent = self._block(file, ATTRIBUTES, since)
        if extent is None:
            return None
        end = min(offset + size, Extent.unpack(extent).size)
        if end <= offset:
            return b""
        first, last = offset // BLOCK, (end - 1) // BLOCK
        pieces = []
        for number in range(first, last + 1):
            content = self._block(file, number, since)
            if content is None:
                return None
            pieces.append(content)
        return b"".join(pieces)[offset - first * BLOCK : end - first * BLOCK]

    def drop_stale(self, file: OpenFile) -> None:
        """What may be old by the share's own relaxation is not read any more. It is home's as well,
        so nobody is told."""
        with self._changed:
            self._windows.withdraw_all(file)
            self._copies.absorb(file)
            for number in self._machine.numbers(file.file):
                if self._machine.block(file.file, number).expires < inf:
                    self._machine.release(file.file, number, 1)

    def _block(self, file: OpenFile, number: int, since: float) -> bytes | None:
        latest = self._latest(file, number)
        if latest is not None:
            return latest
        old = self._old.get((file.file, number))
        return old.content if old is not None and old.latest >= since else None

    def _latest(self, file: OpenFile, number: int) -> bytes | None:
        if not self._copies.readable(file, number):
            return None
        if number == ATTRIBUTES:
            return file.extent.pack()
        return self._copies.get(file, number * BLOCK, BLOCK)
