# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node's buffer has no room for goes, as far as home has it."""

from __future__ import annotations

from shares.node.content.buffer import Buffer
from shares.node.content.copies import Copies
from shares.node.content.known_files import KnownFiles
from shares.node.content.pages import Pages
from shares.node.content.sending import Sender
from shares.node.content.windows import Windows
from shares.protocol import FileId, NodeMachine, runs


class Eviction:
    """Of one node. With the content's lock held."""

    def __init__(
        self,
        machine: NodeMachine,
        buffer: Buffer,
        sender: Sender,
        windows: Windows,
        copies: Copies,
        pages: Pages,
        files: KnownFiles,
    ) -> None:
        self._machine, self._buffer, self._sender = machine, buffer, sender
        self._windows, self._copies, self._pages, self._files = windows, copies, pages, files

    def evict(self) -> None:
        if not self._buffer.full:
            return
        self._windows.note_used()
        pinned = {
            (file, n) for file, of in self._files.items() for a in of.waiting for n in a.blocks
        }
        for file, numbers in self._buffer.surplus(pinned).items():
            for first, count in runs(sorted(numbers)):
                self._evict_run(file, first, count)
            self._files.forget_evicted(file)

    def _evict_run(self, file: FileId, first: int, count: int) -> None:
        known = self._files.get(file)
        if known is not None:
            self._copies.take_back(known, range(first, first + count), read=True)
            known.complete = False
            self._pages.forget(known, range(max(0, first), first + count))
        for message in self._machine.release(file, first, count):
            self._sender.send(message)
        self._buffer.brought(file, range(first, first + count))
        unneeded = [n for n in range(first, first + count) if not self._machine.needed(file, n)]
        for start, length in runs(unneeded):
            self._buffer.drop(file, start, length)
