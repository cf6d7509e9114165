# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Counters and thresholds of overwrites (Paiker et al., Section 3.3.2) of files that are closed.

A block's record goes with the close of its file, or with a cut. What was learnt of the block stays
here, and is the block's again when the file is opened the next time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from shares.protocol.messages import FileId
from shares.protocol.node_blocks import Block

KEPT = 65536
"""Blocks of which something is kept; the files that were closed first go first."""

RELEARNT = 4
"""Blocks behind a cut of which it is remembered, at home and at nodes: a file that is written anew
is used as it was, mostly."""


class Overwrites:
    """One node's. Not thread-safe, as the machine that it belongs to."""

    def __init__(self, limit: int = KEPT) -> None:
        self._limit, self._count = limit, 0
        self._files: OrderedDict[FileId, dict[int, Block]] = OrderedDict()

    def __len__(self) -> int:
        """Of how many blocks something is kept."""
        return self._count

    def keep(self, file: FileId, blocks: Mapping[int, Block]) -> None:
        """The file is closed."""
        self.forget(file)
        learnt = dict(learnt_of(blocks))
        if learnt:
            self._files[file] = learnt
            self._count += len(learnt)
        while self._count > self._limit:
            self.forget(next(iter(self._files)))

    def take(self, file: FileId) -> Mapping[int, Block]:
        """The file is opened."""
        learnt = self._files.get(file, {})
        self.forget(file)
        return learnt

    def forget(self, file: FileId) -> None:
        """The file is no more."""
        self._count -= len(self._files.pop(file, {}))

    def reset(self) -> None:
        """The membership is over: nobody tells any more whether what was pushed was read."""
        for learnt in self._files.values():
            for block in learnt.values():
                block.pushed = False


def learnt_of(blocks: Mapping[int, Block]) -> Iterator[tuple[int, Block]]:
    """Records of those of which something was learnt, with nothing but that."""
    for number, block in blocks.items():
        if block.threshold is not None or block.pushed or block.relearns:
            yield number, block.learnt()
