# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks as a node has them: what accesses may ask of them, and what sessions have written."""

from __future__ import annotations

import time
from collections.abc import Callable

from shares.node import clock
from shares.node.content.access import Cut, OpenFile
from shares.node.content.buffer import Buffer
from shares.node.content.lag import Replies
from shares.node.content.sending import Sender
from shares.node.content.windows import Windows
from shares.node.extent import Extent
from shares.node.journal.journal import Journal
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    Engage,
    FileId,
    Invalidate,
    Log,
    Message,
    NodeMachine,
    Recalled,
    filled,
)

EXTENT_BYTES = 40

CUT_HERE_BYTES = 1 << 20
"""Cut off without asking home: so much is overwritten with zeros."""


class Copies:
    """The machine, the buffer, the windows and what is sent of them. With the content's lock held.
    It is what `access.BlocksHere` says.

    logs: where the replies go that the access waits for which writes now
    """

    def __init__(
        self,
        machine: NodeMachine,
        buffer: Buffer,
        windows: Windows,
        sender: Sender,
        journal: Journal | None,
    ) -> None:
        self._machine = machine
        self._buffer = buffer
        self._windows = windows
        self._sender = sender
        self._journal = journal
        self.logs: list[Replies] = []

    def readable(self, file: OpenFile, number: int) -> bool:
        now = clock.now()
        if number == ATTRIBUTES and file.extent_came and self._machine.native(file.file):
            logging = self._machine.block(file.file, number).logging
            return not logging and self._machine.writable(file.file, number, now, whole=True)
        return self._machine.readable(file.file, number, now)

    def writable(self, file: OpenFile, number: int, *, whole: bool = False) -> bool:
        whole = whole or (number == ATTRIBUTES and file.extent_came)
        if not whole and self._machine.block(file.file, number).hollow:
            return False  # nothing is here that the rest of the block could be
        return self._machine.writable(file.file, number, clock.now(), whole)

    def written(self, file: OpenFile, number: int) -> bool:
        return self._machine.block(file.file, number).dirty

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
        self._sender.push(pushes)

    def _note(self, file: OpenFile, numbers: range, native: bool) -> None:
        """In the journal, before the program is told that it is written. Raises OSError."""
        journal, name = self._journal, file.file
        if journal is None:
            return
        if numbers == range(ATTRIBUTES, 0):
            whole = file.granted is not None and file.granted.whole
            journal.sized(name, file.extent, grows=whole)
        else:
            journal.begin(name, file.extent)
        if native:
            journal.native(name, self._machine.block(name, numbers.start).grant)
        else:
            journal.granted(name, {n: self._machine.block(name, n).grant for n in numbers})
        journal.wrote(name, numbers.start, len(numbers))

    def _torn(self, file: OpenFile, blocks: range) -> None:
        """Of what was to be written there a part may be: what is here of these blocks is the latest
        then, for others as well."""
        now, machine = clock.now(), self._machine
        here = [machine.block(file.file, number) for number in blocks]
        for number, block in zip(blocks, here, strict=True):
            if block.valid and not block.hollow:
                self._sender.push(machine.did_write(file.file, number, 1, now))

    def put_extent(self, file: OpenFile, extent: Extent, *, logged: bool, times: int = 1) -> None:
        file.extent = extent
        self._windows.resized(file)
        native = self._machine.native(file.file)
        pushes = self._machine.did_write(file.file, ATTRIBUTES, 1, clock.now(), times)
        self._note(file, range(ATTRIBUTES, 0), native)
        if logged and self._logs(file, native):
            self._log(file, ATTRIBUTES, 0, extent.pack()[:EXTENT_BYTES])
        self._sender.push(pushes)

    def cut(self, file: OpenFile, size: int) -> bool:
        """Make a native file shorter without asking home; whether that could be. Not what is in a
        journal, whose records know cuts by home alone, and not much at once."""
        native = self._machine.native(file.file)
        if not native or self._journal is not None or file.log == "sync" or file.paged:
            return False
        self._windows.withdraw_whole(file)
        self.absorb(file)
        if file.extent.size - size > CUT_HERE_BYTES:
            return False
        access = Cut(file, size)
        access.advance(self)
        return access.done_here

    def ahead_limit(self) -> int:
        return self._buffer.limit // 4

    def time(self) -> int:
        return time.time_ns()

    # Windows.

    def take_back(self, file: OpenFile, blocks: range, *, read: bool) -> None:
        """Sessions do not write, or read, these blocks any more, and what they wrote is the
        machine's."""
        self._windows.withdraw(file, blocks, read=read)
        self.absorb(file)

    def take_back_all(self, file: OpenFile) -> None:
        """The same of all of the file."""
        self._windows.withdraw_all(file)
        self.absorb(file)

    def absorb(self, file: OpenFile) -> None:
        """What was written through the file's window is the machine's."""
        taken = self._windows.take(file)
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
        self._sender.push(pushes)

    # What home asks.

    def answer(self, message: Message, now: float) -> Message:
        """The machine's. What was written to blocks that another node cuts off does not wait in the
        journal any more."""
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
        self, answer: Recalled, file: OpenFile | None, block: Callable[[FileId, int], bytes]
    ) -> Recalled:
        """With its content, which home has when it has answered a heartbeat that comes after."""
        if self._journal is not None and file is not None and answer.fresh:
            generation = self._journal.giving(file.file, answer.fresh, file.extent)
            mark = self._machine.mark()
            self._journal.recalled(mark, file.file, answer.fresh, generation)
        return filled(answer, block)

    @staticmethod
    def _logs(file: OpenFile, native: bool) -> bool:
        """Whether what is written now goes to home's log."""
        return file.log == "sync" or (file.log == "async" and not native)

    def _log(self, file: OpenFile, number: int, offset: int, data: bytes) -> None:
        message = Log(file.file, number, 1, offset, data)
        self._sender.log(message, self.logs if file.log == "sync" else None)
