# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What to open ahead of a program: hot successors first, else the next files of a scan.

How many depends on how often forecasts were right lately. It begins with FIRST files, doubles up to
LAST while at least three of four are used, and halves down to LEAST while fewer are (as the
readahead of a kernel does with the pages of one file).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from shares.context.scans import Scans
from shares.context.successors import Succession, Successors
from shares.protocol import FileId

FIRST, LEAST, LAST = 8, 2, 64

RIGHT = 0.75
"""The part of what is opened ahead that has to be used."""

JUDGED = 16
"""Outcomes that are looked at together."""

LEARNT = 1000
"""Edges that wait to be told to home, at most."""

Listing = Callable[[], tuple[FileId, list[tuple[bytes, FileId]]] | None]
"""The folder of the file that was opened, and its regular files as they are listed; None where they
are not known."""


class Forecast:
    """Of one node. Not thread-safe.

    ahead: files that were opened ahead and are not used yet. used, vain: how many were used, and
    how many were closed without that, since the node began
    """

    def __init__(self, successors: Successors | None = None) -> None:
        self.successors = Successors() if successors is None else successors
        self.ahead: OrderedDict[FileId, None] = OrderedDict()
        self.used = self.vain = 0
        self._scans = Scans()
        self._window = FIRST
        self._judged: list[bool] = []
        self._last: FileId | None = None
        self._learnt: OrderedDict[tuple[FileId, FileId], list[int]] = OrderedDict()

    def opened(self, file: FileId, listing: Listing, *, writes: bool) -> list[FileId]:
        """A program opens a file. What is opened next, in order; part of it may be open already.
        Asked for in batches: nothing where more than half of the window is still ahead."""
        if file in self.ahead:
            del self.ahead[file]
            self._judge(right=True)
        self._learn(file, writes=writes)
        if writes:
            return []
        found = self.successors.chain(file, self._window)
        place = listing()
        if place is not None:
            scanned = self._scans.opened(place[0], file, place[1], self._window)
            found = max(found, scanned, key=len)
        fresh = [next_file for next_file in found if next_file not in self.ahead]
        return fresh if 2 * len(fresh) >= len(found) else []

    def fetched(self, file: FileId) -> None:
        """It was opened ahead."""
        self.ahead[file] = None

    def dropped(self, file: FileId) -> None:
        """It is open no more."""
        if file in self.ahead:
            del self.ahead[file]
            self._judge(right=False)

    def learnt(self) -> list[Succession]:
        """What home has not been told. It is told once."""
        found = [Succession(*edge, *counts) for edge, counts in self._learnt.items()]
        self._learnt.clear()
        return found

    def _learn(self, file: FileId, *, writes: bool) -> None:
        before, self._last = self._last, file
        if before is None or before == file:
            return
        reads = int(not writes)
        self.successors.add(Succession(before, file, reads, 1 - reads))
        counts = self._learnt.setdefault((before, file), [0, 0])
        counts[not reads] += 1
        if len(self._learnt) > LEARNT:
            self._learnt.popitem(last=False)

    def _judge(self, *, right: bool) -> None:
        self.used += right
        self.vain += not right
        self._judged.append(right)
        if len(self._judged) < JUDGED:
            return
        good = sum(self._judged) >= RIGHT * len(self._judged)
        self._window = min(LAST, 2 * self._window) if good else max(LEAST, self._window // 2)
        self._judged.clear()
