# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How often the blocks of files that are closed here were overwritten before others used them.

The paper's threshold and counter (Paiker et al., Section 3.3.2) belong to a block of a file, and
not to the time for which the file is open. A node keeps them when it closes the file, and has them
again when it opens the file again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from shares.protocol.messages import FileId
from shares.protocol.node_blocks import Block

LIMIT = 65536
"""Blocks; of the file that was closed the longest ago the counts are dropped first."""


class Counts(NamedTuple):
    """The fields of Block with these names."""

    overwritten: int
    threshold: int | None
    untouched: bool


class History:
    """Counts of blocks by file. Not thread-safe."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._files: OrderedDict[FileId, dict[int, Counts]] = OrderedDict()
        self._size = 0

    def keep(self, file: FileId, blocks: Mapping[int, Block]) -> None:
        """The file is not open any more."""
        found = {
            number: Counts(block.overwritten, block.threshold, block.untouched)
            for number, block in blocks.items()
            if block.counted
        }
        self._pop(file)
        if found:
            self._files[file] = found
            self._size += len(found)
        while self._size > self._limit:
            self._pop(next(iter(self._files)))

    def recall(self, file: FileId, blocks: MutableMapping[int, Block]) -> None:
        """The file is open again, and its blocks go on counting."""
        for number, counts in self._pop(file).items():
            block = blocks[number]
            block.overwritten, block.threshold, block.untouched = counts

    def _pop(self, file: FileId) -> dict[int, Counts]:
        found = self._files.pop(file, {})
        self._size -= len(found)
        return found

    def __len__(self) -> int:
        """Of how many blocks."""
        return self._size
