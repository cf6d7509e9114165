# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""fallocate(2) for nodes, at home: room on its disk, and holes in its files."""

from __future__ import annotations

import errno

from shares.home.directory.coherence import LAST_BLOCK, Coherence
from shares.home.directory.marks import MarkedFiles
from shares.home.nodes.session import NodeSession
from shares.home.storage.system_calls import allocate
from shares.home.storage.tree import Tree
from shares.node import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE
from shares.protocol import BLOCK, FileId

MODES = {KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE, KEEP_SIZE | ZERO_RANGE}


class Allocation:
    """Of one share. Thread-safe. Raises OSError."""

    def __init__(self, tree: Tree, coherence: Coherence, marks: MarkedFiles) -> None:
        self._tree, self._coherence, self._marks = tree, coherence, marks

    def allocate(
        self, session: NodeSession, file: FileId, mode: int, offset: int, length: int
    ) -> None:
        """As Hub.allocate."""
        if mode not in MODES:
            raise OSError(errno.EOPNOTSUPP, "home does not allocate so")
        if offset < 0 or length <= 0:
            raise OSError(errno.EINVAL, "nothing is to be allocated")
        if offset + length > LAST_BLOCK * BLOCK:
            raise OSError(errno.EFBIG, "no file reaches as far as that")
        self._tree.require(file)
        with self._coherence.lock:
            self._marks.admit(session.name, file, writes=True)
        if mode == KEEP_SIZE:
            self._tree.at(file, lambda path: allocate(path, mode, offset, length))
        else:
            self._coherence.zero(session, file, mode, offset, length)
