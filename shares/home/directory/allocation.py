# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""fallocate(2) and lseek(2) for nodes, at home: room on its disk, and holes in its files."""

from __future__ import annotations

import errno
import os
from functools import partial

from shares.home.directory.coherence import LAST_BLOCK, Coherence
from shares.home.directory.marks import MarkedFiles
from shares.home.nodes.session import NodeSession
from shares.home.storage.system_calls import allocate, seek
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
        """Answer Hub.allocate."""
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

    def seek(self, session: NodeSession, file: FileId, offset: int, whence: int) -> int:
        """Answer Hub.seek."""
        if whence not in (os.SEEK_DATA, os.SEEK_HOLE) or not 0 <= offset < LAST_BLOCK * BLOCK:
            raise OSError(errno.EINVAL, "a file cannot have that place")
        self._tree.require(file)
        with self._coherence.lock:
            self._marks.admit(session.name, file, writes=False)
            elsewhere = self._coherence.content_elsewhere(session, file)
            look = partial(self._look, file)
            if whence == os.SEEK_DATA:
                found = [n * BLOCK for n in elsewhere if (n + 1) * BLOCK > offset]
                here = look(offset, whence)
                places = [*found, *([] if here is None else [here])]
                if not places:
                    raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
                return max(offset, min(places))
            hole = offset
            while True:
                at = look(hole, whence)
                hole = hole if at is None else at
                if hole // BLOCK not in elsewhere:
                    return hole
                hole = (hole // BLOCK + 1) * BLOCK

    def _look(self, file: FileId, offset: int, whence: int) -> int | None:
        """Seek in home's own file. Return None after the last content."""
        try:
            return self._tree.at(file, lambda path: seek(path, offset, whence))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None
