# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The blocks of files as a node has them, for programs that ask, for sessions, and for home.

Sessions read and write by themselves through windows, which are granted from the machine's rights,
and taken back before the machine is told anything else about the blocks. A file's window is granted
the blocks around those that programs come to by asking; a native file that is here completely is
granted as a whole. What was written through a window is the machine's once it is absorbed: before
anybody is answered about the file, before a program is that asks for it, and with each heartbeat.

Old copies are for reads whose program allows some seconds of age (OFS, Section 3.3.1). Home knows
nothing of them. A block whose content changes elsewhere is taken from this node first, so its
content here was the latest until then; it is kept with that time. Such a read takes the latest copy
if there is one, else the old one if it is young enough. All other reads see the latest content.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from shares.node import clock
from shares.node.content.access import OpenFile, TruncateAccess
from shares.node.content.holdings import Holdings
from shares.node.content.lag import LAG_BYTES, Replies
from shares.node.content.pages import Pages
from shares.node.extent import Extent
from shares.node.operations import Window
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    Engage,
    FileId,
    Invalidate,
    LogWrite,
    Message,
    Recall,
    RecallReply,
    Rights,
    filled,
    runs,
)

log = logging.getLogger(__name__)

EXTENT_BYTES = 40

CUT_HERE_BYTES = 1 << 20
"""Cut off without asking home: so much is overwritten with zeros."""

AROUND = 64
"""Blocks that are looked at together when something is granted."""

WINDOWS = 256
"""Files that have one at the same time. Each takes a file descriptor."""

VERIFY_SECONDS = 1.0
"""Until all blocks of a native file are looked at again; for each 65536 of them."""

UNLIMITED = (1 << 28) - 1

OLD_BLOCKS = 4096
"""Old copies that are kept at most; the oldest go first."""

Make = Callable[[int, int], Window]
"""A window on the file of this descriptor, which it duplicates, of that many bytes."""


@dataclass(frozen=True)
class WindowWrites:
    """Writes through a window. runs: first block, count, and the number of writes of each; 0 if
    they were counted before. writes: requests. modified: nanoseconds since 1970. size: the new
    one if the file got longer, else None"""

    runs: list[tuple[int, int, int]]
    writes: int
    modified: int
    size: int | None


@dataclass(frozen=True)
class OldCopy:
    """The content of a block, and the time on the node's clock until which it was the latest."""

    content: bytes
    latest: float


class BlockCopies:
    """The blocks of one node: `access.ContentView`, and the windows on them. Every method is
    called with the lock held, but for those that take it.

    logs: gets the replies of home's log for which the current access waits; since: when it began
    """

    def __init__(self, held: Holdings, pages: Pages, make: Make | None) -> None:
        """make: None if the programs of this node ask for everything."""
        self._held, self._pages, self._make = held, pages, make
        self._machine, self._buffer, self._journal = held.machine, held.buffer, held.journal
        self.logs: list[Replies] = []
        self.since = inf
        self._windowed: dict[FileId, OpenFile] = {}
        self._watched: Counter[FileId] = Counter()
        self._old: OrderedDict[tuple[FileId, int], OldCopy] = OrderedDict()

    # Accesses.

    def readable(self, file: OpenFile, number: int) -> bool:
        now = clock.now()
        if number == ATTRIBUTES and file.extent_came and self._machine.native(file.file):
            logging = self._machine.block(file.file, number).logging
            return not logging and self._machine.writable(file.file, number, now, whole=True)
        return self._machine.readable(file.file, number, now, self.since)

    def writable(self, file: OpenFile, number: int, *, whole: bool = False) -> bool:
        whole = whole or (number == ATTRIBUTES and file.extent_came)
        if not whole and self._machine.block(file.file, number).hollow:
            return False  # nothing is here that the rest of the block could be
        return self._machine.writable(file.file, number, clock.now(), whole)

    def get(self, file: OpenFile, offset: int, size: int) -> bytes:
        first, end = offset // BLOCK, -(-(offset + size) // BLOCK)
        self._machine.did_read(file.file, first, end - first)
        if not self._machine.native(file.file):
            self._buffer.used(file.file, range(first, end))
        return self._buffer.read(file.file, offset, size)

    def put(self, file: OpenFile, offset: int, data: bytes, before: int, after: int) -> None:
        padded = bytes(before) + data + bytes(after) if before or after else data
        first, end = offset // BLOCK, -(-(offset + len(data)) // BLOCK)
        # What is written is counted, and may become a push; logged, nobody reads it yet.
        self.take_back(file, range(first, end), read=file.log == "sync")
        try:
            self._buffer.write(file.file, offset - before, padded)
        except OSError:
            self._torn(file, range(first, end))
            raise
        native = self._machine.native(file.file)
        (self._buffer.keep if native else self._buffer.used)(file.file, range(first, end))
        pushes = self._machine.did_write(file.file, first, end - first, clock.now())
        self._note(file, range(first, end), native)
        if native:
            file.behind += len(data)
        if self._logs(file, native):
            for number in range(first, end):
                start = max(offset, number * BLOCK)
                stop = min(offset + len(data), (number + 1) * BLOCK)
                piece = data[start - offset : stop - offset]
                self._log(file, number, start - number * BLOCK, piece)
        self._held.push(pushes)

    def _note(self, file: OpenFile, numbers: range, native: bool) -> None:
        """Note a write in the journal before the program hears of it. Raises OSError."""
        journal, name = self._journal, file.file
        if journal is None:
            return
        if numbers == range(ATTRIBUTES, 0):
            whole = file.session.window is not None and file.session.window.whole
            journal.sized(name, file.extent, grows=whole)
        else:
            journal.begin(name, file.extent)
        if native:
            journal.native(name, self._machine.block(name, numbers.start).grant)
        else:
            journal.granted(name, {n: self._machine.block(name, n).grant for n in numbers})
        journal.wrote(name, numbers.start, len(numbers))

    def _torn(self, file: OpenFile, blocks: range) -> None:
        """Treat blocks of a failed write, which may be written in part, as written: other nodes
        get this content, too."""
        now, machine = clock.now(), self._machine
        here = [machine.block(file.file, number) for number in blocks]
        for number, block in zip(blocks, here, strict=True):
            if block.valid and not block.hollow:
                self._held.push(machine.did_write(file.file, number, 1, now))

    def put_extent(self, file: OpenFile, extent: Extent, *, logged: bool, times: int = 1) -> None:
        file.extent = extent
        file.resized()
        native = self._machine.native(file.file)
        pushes = self._machine.did_write(file.file, ATTRIBUTES, 1, clock.now(), times)
        self._note(file, range(ATTRIBUTES, 0), native)
        if logged and self._logs(file, native):
            self._log(file, ATTRIBUTES, 0, extent.pack()[:EXTENT_BYTES])
        self._held.push(pushes)

    def cut(self, file: OpenFile, size: int) -> bool:
        """Make a native file shorter without asking home, and return whether that was possible.
        It is not for a file in a journal, whose records know only home's cuts, nor for a long
        cut."""
        native = self._machine.native(file.file)
        if not native or self._journal is not None or file.log == "sync" or file.pages.there:
            return False
        file.session.withdraw_whole()
        self.absorb(file)
        if file.extent.size - size > CUT_HERE_BYTES:
            return False
        access = TruncateAccess(file, size)
        access.advance(self)
        return access.done_here

    def reach(self, file: OpenFile, size: int) -> None:
        self._buffer.reach(file.file, size)

    def ahead_limit(self) -> int:
        return self._buffer.limit // 4

    def time(self) -> int:
        return time.time_ns()

    @staticmethod
    def _logs(file: OpenFile, native: bool) -> bool:
        """Return whether a write goes to home's log."""
        return file.log == "sync" or (file.log == "async" and not native)

    def _log(self, file: OpenFile, number: int, offset: int, data: bytes) -> None:
        message = LogWrite(file.file, number, 1, offset, data)
        self._held.log(message, self.logs if file.log == "sync" else None)

    # Taking back what sessions may do.

    def take_back(self, file: OpenFile, blocks: range, *, read: bool) -> None:
        """Keep sessions from writing, or reading, these blocks, and absorb their writes."""
        file.session.withdraw(blocks, read=read)
        self.absorb(file)

    def take_back_all(self, file: OpenFile) -> None:
        """Do the same for the whole file."""
        file.session.withdraw_all()
        self.absorb(file)

    def absorb(self, file: OpenFile) -> None:
        """Tell the machine of the writes through the file's window."""
        taken = self._taken(file)
        if taken is None:
            return
        native, now = self._machine.native(file.file), clock.now()
        pushes = []
        for first, count, times in taken.runs:
            run = range(first, first + count)
            (self._buffer.keep if native else self._buffer.used)(file.file, run)
            pushes += self._machine.did_write(file.file, first, count, now, times)
            file.behind += count * BLOCK
        old, when = file.extent, taken.modified
        extent = Extent(
            max(old.size, taken.size or 0),
            old.accessed,
            max(old.modified, when),
            max(old.changed, when),
        )
        if taken.size is not None or (when and self.writable(file, ATTRIBUTES)):
            file.touched = 0
            self.put_extent(file, extent, logged=False, times=max(1, taken.writes))
        else:
            file.touched = max(file.touched, when)
        self._held.push(pushes)

    def _taken(self, file: OpenFile) -> WindowWrites | None:
        """Return the new writes, or None. Blocks with a limited number of writes need a new
        grant after this."""
        window = file.session.window
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
        writes, file.session.writes = window.writes - file.session.writes, window.writes
        size = window.size if window.size > file.session.size else None
        file.session.size = window.size
        return WindowWrites(runs, writes, window.take_modified(), size)

    def _stop_counted(self, file: OpenFile, window: Window, run: range) -> None:
        found = self._machine.rights(file.file, run, clock.now())
        if sum(rights.count for rights in found if rights.writes == inf) < len(run):
            window.revoke(run.start, len(run), read=False)

    # What home asks.

    def answer(self, message: Message, now: float) -> Message:
        """Return the machine's answer. The journal forgets blocks that another node cuts off."""
        machine, over = self._machine, []
        if isinstance(message, Engage):
            over = [n for n in machine.numbers(message.file) if n >= message.cut]
        elif isinstance(message, Invalidate) and message.waited_for:
            over = [n for n in message.numbers if machine.block(message.file, n).owned]
        answer = machine.answer(message, now)
        if self._journal is not None and over:
            self._journal.discarded(message.file, over)
        return answer

    def given(
        self, answer: RecallReply, file: OpenFile | None, *, sized: bool = True
    ) -> RecallReply:
        """Return the answer with its content. Home has that when it has answered a later
        heartbeat. sized: whether the size is of use, if it is in it."""
        if sized and file is not None and ATTRIBUTES in answer.fresh:
            self._held.send_growth(file.file)
        if self._journal is not None and file is not None and answer.fresh:
            generation = self._journal.giving(file.file, answer.fresh, file.extent)
            mark = self._machine.mark()
            self._journal.recalled(mark, file.file, answer.fresh, generation)
        return filled(answer, self._held.block)

    # Windows.

    def window(self, file: OpenFile) -> Window | None:
        """Return the file's window for a program that opens it."""
        if file.session.window is None and self._make is not None and len(self._windowed) < WINDOWS:
            window = self._make(self._buffer.descriptor(file.file), file.extent.size)
            window.unsure()
            window.until(self._machine.until(file.file))
            file.session.window, file.session.writes, file.session.size = window, 0, window.size
            self._windowed[file.file] = file
        self.grant(file, range(0))
        return file.session.window

    def drop_window(self, file: OpenFile) -> None:
        """Close the window after the last program. What was written is taken before."""
        if file.session.window is not None:
            file.session.window.revoke_all()
            file.session.window = None
            if self._journal is not None:
                self._journal.unwatch(file.file)
            del self._windowed[file.file]

    def heard(self) -> None:
        """Renew the windows when the lease was renewed, or home was heard."""
        for name, file in self._windowed.items():
            if file.session.window is not None:
                file.session.window.until(self._machine.until(name))

    def windowed(self) -> list[OpenFile]:
        """Return the files that have a window."""
        return list(self._windowed.values())

    def note_used(self) -> None:
        """Tell the machine and the buffer which blocks were read."""
        for file in self._windowed.values():
            self.note_used_of(file)

    def note_used_of(self, file: OpenFile) -> None:
        """Do the same for one file."""
        native, window = self._machine.native(file.file), file.session.window
        for first, count in window.take_used() if window is not None else ():
            for number in range(first, first + count):
                if self._machine.block(file.file, number).valid:
                    self._machine.did_read(file.file, number, 1)
                    if not native:
                        self._buffer.used(file.file, range(number, number + 1))

    def grant(self, file: OpenFile, blocks: range) -> None:
        """Grant the blocks around those that a program has asked for. Earlier writes are
        absorbed."""
        window = file.session.window
        if window is None or file.pages.dropping:
            return
        now = clock.now()
        self.allow(file)
        writes = file.log != "sync"
        if window.whole or not self._machine.readable(file.file, ATTRIBUTES, now):
            return
        if not window.exact or window.size != file.extent.size:
            file.session.resize(window, file.extent.size)
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
        """Have the journal find writes through the window after a kill of this process. Return
        False if it cannot: then programs ask. found: () for all of a native file."""
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
        """Limit the writes until the next request of a program: by the lag of home's log, and by
        the policy for block -1, whose times change with each write."""
        window = file.session.window
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
        """Return whether the file is native and completely here."""
        if not self._machine.native(file.file):
            return False
        blocks = -(-file.extent.size // BLOCK)
        if not file.session.complete and now >= file.session.verify:
            file.session.verify = now + VERIFY_SECONDS * (blocks // 65536 + (blocks > AROUND))
            known = [n for n in self._machine.numbers(file.file) if 0 <= n < blocks]
            if len(known) == blocks:  # else there is a hole, perhaps of 2^28 blocks
                found = self._machine.rights(file.file, range(blocks), now)
                file.session.complete = sum(rights.count for rights in found) == blocks
        # What comes in answer to a request would be put over what is written meanwhile.
        return file.session.complete and not self._machine.asking(file.file)

    # Room.

    def evict(self) -> None:
        if not self._buffer.full:
            return
        self.note_used()
        waiting = ((f, a) for f, of in self._held.files.items() for a in of.demand.waiting)
        pinned = {(file, number) for file, access in waiting for number in access.blocks}
        for file, numbers in self._buffer.surplus(pinned).items():
            for first, count in runs(sorted(numbers)):
                self._evict_run(file, first, count)
            self._held.forget_evicted(file)

    def _evict_run(self, file: FileId, first: int, count: int) -> None:
        known = self._held.files.get(file)
        if known is not None:
            self.take_back(known, range(first, first + count), read=True)
            known.session.complete = False
            self._pages.forget(known, range(max(0, first), first + count))
        for message in self._machine.release(file, first, count):
            self._held.send(message)
        self._buffer.brought(file, range(first, first + count))
        unneeded = [n for n in range(first, first + count) if not self._machine.needed(file, n)]
        for start, length in runs(unneeded):
            self._buffer.drop(file, start, length)

    # Old copies. Thread-safe, where a lock is taken.

    def watch(self, file: FileId, watched: bool) -> None:
        """Begin, or end, one reader's interest in old content of the file."""
        with self._held.lock:
            self._watched[file] += 1 if watched else -1
            if self._watched[file] <= 0:
                del self._watched[file]
                self.forget_old(file)

    def forget_old(self, file: FileId) -> None:
        """Forget old content after a cut or a hole, or after the last reader."""
        with self._held.lock:
            for key in [key for key in self._old if key[0] == file]:
                del self._old[key]

    def clear_old(self) -> None:
        """Forget all old content at the end of a membership."""
        self._old.clear()

    def keep_old(self, file: OpenFile | None, message: Message) -> None:
        """Keep the content of blocks that home takes away, for relaxed reads."""
        if file is None or file.file not in self._watched:
            return
        for number in message.numbers if isinstance(message, Invalidate | Recall) else ():
            content = self._latest(file, number)
            if content is None:
                continue
            self._old.pop((file.file, number), None)
            self._old[file.file, number] = OldCopy(content, clock.now())
            if len(self._old) > OLD_BLOCKS:
                self._old.popitem(last=False)

    def read_old(self, file: OpenFile, offset: int, size: int, seconds: float) -> bytes | None:
        """Read as of at most so many seconds ago, as far as the file goes, without asking home.
        Return None if a part is not here. Raises OSError for a file that home has refused."""
        with self._held.lock:
            file.require()
            self.absorb(file)
            return self._read_old(file, offset, size, seconds)

    def _read_old(self, file: OpenFile, offset: int, size: int, seconds: float) -> bytes | None:
        since = clock.now() - seconds
        extent = self._old_block(file, ATTRIBUTES, since)
        if extent is None:
            return None
        end = min(offset + size, Extent.unpack(extent).size)
        if end <= offset:
            return b""
        first, last = offset // BLOCK, (end - 1) // BLOCK
        pieces = []
        for number in range(first, last + 1):
            content = self._old_block(file, number, since)
            if content is None:
                return None
            pieces.append(content)
        return b"".join(pieces)[offset - first * BLOCK : end - first * BLOCK]

    def drop_stale(self, file: OpenFile) -> None:
        """Stop using content that may be old by the share's own relaxation. Home has it as well,
        so it needs no message."""
        with self._held.lock:
            file.session.withdraw_all()
            self.absorb(file)
            for number in self._machine.numbers(file.file):
                if self._machine.block(file.file, number).expires < inf:
                    self._machine.release(file.file, number, 1)

    def _old_block(self, file: OpenFile, number: int, since: float) -> bytes | None:
        latest = self._latest(file, number)
        if latest is not None:
            return latest
        old = self._old.get((file.file, number))
        return old.content if old is not None and old.latest >= since else None

    def _latest(self, file: OpenFile, number: int) -> bytes | None:
        if not self.readable(file, number):
            return None
        if number == ATTRIBUTES:
            return file.extent.pack()
        return self.get(file, number * BLOCK, BLOCK)
