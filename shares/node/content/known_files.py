# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The files of which a node has, or expects, content."""

from __future__ import annotations

from collections import Counter

from shares.node.content.access import OpenFile
from shares.node.content.buffer import Buffer
from shares.node.extent import Extent
from shares.node.journal.journal import Journal
from shares.protocol import ATTRIBUTES, BLOCK, Carrier, FileId, NodeMachine, content


class KnownFiles(dict[FileId, OpenFile]):
    """By their ids, closed ones of which something is left included. With the content's lock held.

    expected: those that home is asked to open, of which content comes before. policies: the names
    of the coherence policies by which home goes. under_way: requests without a reply, by file
    """

    def __init__(self, machine: NodeMachine, buffer: Buffer, journal: Journal | None) -> None:
        super().__init__()
        self._machine, self._buffer, self._journal = machine, buffer, journal
        self.expected: set[FileId] = set()
        self.policies: dict[FileId, str] = {}
        self.under_way: Counter[FileId] = Counter()

    def block(self, file: FileId, number: int) -> bytes:
        """Its content here."""
        if number == ATTRIBUTES:
            return self[file].extent.pack()
        return self._buffer.read(file, number * BLOCK, BLOCK)

    def written(self, file: FileId, number: int) -> bool:
        """Whether home may not have what was written to the block here."""
        block = self._machine.block(file, number)
        return block.dirty or block.given > 0

    def put(self, message: Carrier, numbers: set[int]) -> None:
        """Content of these that came, where it belongs. Raises IntegrityError, and OSError where
        this node's disk does not take it."""
        file = self.get(message.file)
        for number, data in content(message):
            if file is None or number not in numbers:
                continue
            if number == ATTRIBUTES:
                file.extent = Extent.unpack(data)
            else:
                self._buffer.write(message.file, number * BLOCK, data)
                self._buffer.brought(message.file, range(number, number + 1))

    def unexpect(self, file: FileId | None) -> None:
        """Home is not asked to open it any more; if it has not, nothing is kept."""
        if file in self.expected:
            self.expected.discard(file)
            self._machine.forget(file)
            self._buffer.forget(file)
            del self[file]

    def forget(self, file: FileId) -> None:
        """Nothing of it is kept."""
        self._machine.forget(file)
        self._buffer.forget(file)
        if self._journal is not None:
            self._journal.forget(file)
        del self[file]
        self.policies.pop(file, None)
        self.under_way.pop(file, None)

    def forget_closed(self, file: OpenFile) -> None:
        """What was native when it was closed here is so no more. Not while a file is opened: what
        home has just said of this one may be later than the answer to that."""
        if not file.closed or self._machine.opens or self._machine.native(file.file):
            return
        if not any(self._machine.needed(file.file, n) for n in self._machine.numbers(file.file)):
            self.forget(file.file)

    def forget_evicted(self, file: FileId) -> None:
        """What was native when it was closed here may be so still, but nothing of it is left."""
        known = self.get(file)
        if known is None or not known.closed or self._machine.opens:
            return
        extent = self._machine.block(file, ATTRIBUTES)
        numbers = (number for number in self._machine.numbers(file) if number >= 0)
        if extent.dirty or extent.given or any(self._machine.needed(file, n) for n in numbers):
            return
        self.forget(file)
