# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What sessions may read and write of a node's files by themselves: windows, granted from the
machine's rights, and taken back before the machine is told anything else about the blocks.

A file's window is granted what programs come to by asking, with the blocks around it; a native file
of which everything is here is granted whole. What was written through a window is the machine's
when it has been taken (`take`): before anybody is answered about the file, before a program is that
asks for it, and with each heartbeat.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from shares.node import clock
from shares.node.content.access import OpenFile
from shares.node.content.buffer import Buffer
from shares.node.content.lag import LAG_BYTES
from shares.node.journal.journal import Journal
from shares.node.operations import Window
from shares.protocol import ATTRIBUTES, BLOCK, FileId, NodeMachine, Rights

log = logging.getLogger(__name__)

AROUND = 64
"""Blocks that are looked at together when something is granted."""

WINDOWS = 256
"""Files that have one at the same time. Each takes a file descriptor."""

VERIFY_SECONDS = 1.0
"""Until all blocks of a native file are looked at again; for each 65536 of them."""

UNLIMITED = (1 << 28) - 1

Make = Callable[[int, int], Window]
"""A window on the file of this descriptor, which it duplicates, of that many bytes."""


@dataclass(frozen=True)
class WindowWrites:
    """What was written through a window. runs: first, count, and how often each of the blocks was;
    0 where that was counted before. writes: requests. modified: nanoseconds since 1970. size: where
    the file got longer, else None"""

    runs: list[tuple[int, int, int]]
    writes: int
    modified: int
    size: int | None


class Windows:
    """Of one node. With the lock of its content held."""

    def __init__(
        self, make: Make | None, machine: NodeMachine, buffer: Buffer, journal: Journal | None
    ) -> None:
        """make: None for a node whose programs ask for everything."""
        self._make = make
        self._machine = machine
        self._buffer = buffer
        self._journal = journal
        self._open: dict[FileId, OpenFile] = {}

    def of(self, file: OpenFile) -> Window | None:
        """The file's window, for those who open it."""
        if file.granted is None and self._make is not None and len(self._open) < WINDOWS:
            window = self._make(self._buffer.descriptor(file.file), file.extent.size)
            window.unsure()
            window.until(self._machine.until(file.file))
            file.granted, file.granted_writes, file.granted_size = window, 0, window.size
            self._open[file.file] = file
        self.grant(file, range(0))
        return file.granted

    def drop(self, file: OpenFile) -> None:
        """Nobody has it open any more, and what was written is taken."""
        if file.granted is not None:
            file.granted.revoke_all()
            file.granted = None
            if self._journal is not None:
                self._journal.unwatch(file.file)
            del self._open[file.file]

    def heard(self) -> None:
        """The lease is another, or home was heard of."""
        for name, file in self._open.items():
            if file.granted is not None:
                file.granted.until(self._machine.until(name))

    def files(self) -> list[OpenFile]:
        """Those that have one."""
        return list(self._open.values())

    # Taking back.

    def withdraw(self, file: OpenFile, blocks: range, *, read: bool) -> None:
        """When this returns nobody writes, or reads, these blocks without asking. What was written
        is to be taken then, before anything is granted."""
        window = file.granted
        if window is None:
            return
        first = max(blocks.start, 0)
        if window.whole:
            window.revoke_all()
        elif blocks.stop > first:
            window.revoke(first, blocks.stop - first, read=read)
        if ATTRIBUTES in blocks:
            window.unsure()

    def withdraw_all(self, file: OpenFile) -> None:
        """The same for everything."""
        if file.granted is not None:
            file.granted.revoke_all()
            file.granted.unsure()

    def withdraw_whole(self, file: OpenFile) -> None:
        """A program asks to change what a whole file's window may change as well."""
        if file.granted is not None and file.granted.whole:
            file.granted.revoke_all()

    def resized(self, file: OpenFile) -> None:
        """Its extent is the latest, and another. A whole file's window knows better."""
        window = file.granted
        if window is None or window.whole or window.size == file.extent.size:
            return
        if file.log == "sync":
            window.unsure()  # nobody is to see the new size before it is logged
        else:
            self._resize(file, window)

    @staticmethod
    def _resize(file: OpenFile, window: Window) -> None:
        window.resize(file.extent.size)
        file.granted_size = file.extent.size

    # Taking.

    def take(self, file: OpenFile) -> WindowWrites | None:
        """What was written since the last time, if anything was. Blocks whose writes are counted
        are not written any more until they are granted again."""
        window = file.granted
        if window is None or not window.take_written():
            return None
        native = self._machine.native(file.file)
        runs: list[tuple[int, int, int]] = []
        for first, count in window.take_dirty():
            if native:
                runs.append((first, count, 1))
                continue
            self._stop_counted(file, window, range(first, first + count))
            for number, times in enumerate(window.take_counts(first, count), first):
                if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2] == times:
                    runs[-1] = (runs[-1][0], runs[-1][1] + 1, times)
                else:
                    runs.append((number, 1, times))
        writes, file.granted_writes = window.writes - file.granted_writes, window.writes
        size = window.size if window.size > file.granted_size else None
        file.granted_size = window.size
        return WindowWrites(runs, writes, window.take_modified(), size)

    def _stop_counted(self, file: OpenFile, window: Window, run: range) -> None:
        found = self._machine.rights(file.file, run, clock.now())
        if sum(rights.count for rights in found if rights.writes == inf) < len(run):
            window.revoke(run.start, len(run), read=False)

    def note_used(self) -> None:
        """Tell the machine and the buffer which blocks were read."""
        for file in self._open.values():
            self.note_used_of(file)

    def note_used_of(self, file: OpenFile) -> None:
        """The same, of one file."""
        native = self._machine.native(file.file)
        for first, count in file.granted.take_used() if file.granted is not None else ():
            for number in range(first, first + count):
                if self._machine.block(file.file, number).valid:
                    self._machine.did_read(file.file, number, 1)
                    if not native:
                        self._buffer.used(file.file, range(number, number + 1))

    # Granting.

    def grant(self, file: OpenFile, blocks: range) -> None:
        """A program has come to these blocks by asking; what was written before is taken."""
        window = file.granted
        if window is None or file.dropping:
            return
        now = clock.now()
        self.allow(file)
        writes = file.log != "sync"
        if window.whole or not self._machine.readable(file.file, ATTRIBUTES, now):
            return
        if not window.exact or window.size != file.extent.size:
            self._resize(file, window)
        if self._complete(file, now):
            # What is behind the end is to be zeros when the file gets longer.
            os.ftruncate(self._buffer.descriptor(file.file), file.extent.size)
            window.grant_whole(write=writes and self._journaled(file, window, ()))
            return
        end = -(-file.extent.size // BLOCK)
        first, stop = blocks.start // AROUND * AROUND, -(-blocks.stop // AROUND) * AROUND
        around = range(first, min(stop, end) if blocks else first)
        found = self._machine.rights(file.file, around, now)
        if writes and any(rights.writes for rights in found):
            writes = self._journaled(file, window, found)
        for rights in found:
            limit = int(min(rights.writes, UNLIMITED)) if writes else 0
            window.grant(rights.first, rights.count, read=rights.reads, writes=limit)

    def _journaled(self, file: OpenFile, window: Window, found: Iterable[Rights]) -> bool:
        """What is written through the window is found again when this process is killed; where that
        cannot be, programs ask. found: () for all of a native file."""
        journal, name = self._journal, file.file
        if journal is None:
            return True
        try:
            journal.watch(name, window, file.extent)
            if self._machine.native(name):
                journal.native(name, self._machine.native_grant(name))
            else:
                written = (n for r in found if r.writes for n in range(r.first, r.first + r.count))
                journal.granted(name, {n: self._machine.block(name, n).grant for n in written})
        except OSError as error:
            log.warning("file %s is not written through a window: %s", name, error)
            return False
        return True

    def allow(self, file: OpenFile) -> None:
        """How much may be written until the node is asked: by what home's log may lag behind, and
        by what the policy says of block -1, whose times change with each write."""
        window = file.granted
        if window is None:
            return
        native = self._machine.native(file.file)
        writes = fresh = inf
        if not native and self._machine.block(file.file, ATTRIBUTES).owned:
            found = self._machine.rights(file.file, (ATTRIBUTES,), clock.now())
            writes = found[0].writes if found else 0
        if file.log == "async":
            fresh = (LAG_BYTES - file.behind) // BLOCK
        window.allow(writes=writes, fresh=fresh)

    def _complete(self, file: OpenFile, now: float) -> bool:
        """Whether the node alone has the file, and all of it is here."""
        if not self._machine.native(file.file):
            return False
        blocks = -(-file.extent.size // BLOCK)
        if not file.complete and now >= file.verify:
            file.verify = now + VERIFY_SECONDS * (blocks // 65536 + (blocks > AROUND))
            found = self._machine.rights(file.file, range(blocks), now)
            file.complete = sum(rights.count for rights in found) == blocks
        # What comes in answer to a request would be put over what is written meanwhile.
        return file.complete and not self._machine.asking(file.file)
