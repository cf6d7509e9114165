# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""fallocate(2) and lseek(2) at a node: room that home reserves, parts of files that become zeros,
and holes.

A file that this node has alone is overwritten with zeros here, as by a write, where it is not much.
Else home takes these blocks from all nodes and makes a hole in its file, whatever its size.
"""

from __future__ import annotations

import errno
import os
import time

from shares.node.content.access import OpenFile
from shares.node.content.content import Content
from shares.node.extent import LARGEST
from shares.node.hub.current_hub import CurrentHub
from shares.node.names.local_creations import LocalCreations
from shares.node.opened.latest_attributes import SECTOR
from shares.node.opened.statics import Statics
from shares.node.operations import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE

ZEROED_HERE = 1 << 20
"""Bytes that are overwritten here at most; of more home is asked."""

RESERVES, MAKES_ZEROS = {0, KEEP_SIZE}, {KEEP_SIZE | PUNCH_HOLE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE}


class Allocation:
    """Of one node. Thread-safe. Raises OSError."""

    def __init__(
        self, home: CurrentHub, ahead: LocalCreations, content: Content, statics: Statics
    ) -> None:
        self._home, self._ahead, self._content, self._statics = home, ahead, content, statics

    def allocate(self, file: OpenFile, mode: int, offset: int, length: int) -> None:
        """Allocate as fallocate(2) does. EOPNOTSUPP for modes that move content."""
        if mode not in RESERVES | MAKES_ZEROS:
            raise OSError(errno.EOPNOTSUPP, "a share's files have no such mode of fallocate")
        if offset < 0 or length <= 0:
            raise OSError(errno.EINVAL, "nothing is to be allocated")
        end = offset + length
        if end > LARGEST:
            raise OSError(errno.EFBIG, "a file cannot be that long")
        self._ahead.await_made(file.file)
        if mode in RESERVES:
            self._home.get().allocate(file.file, KEEP_SIZE, offset, length)
        else:
            self._make_zeros(file, mode | KEEP_SIZE, offset, end)
        file.attributes = None  # the room at home is another
        size = None if mode & KEEP_SIZE else end
        self._content.set_extent(file, size=size, modified=time.time_ns())

    def seek(self, file: OpenFile, offset: int, whence: int) -> int:
        """Seek as lseek(2) with SEEK_DATA or SEEK_HOLE does. Home gets the writes of this node, and
        looks. A file that takes as much room as it is long has no holes."""
        size = self._content.extent(file).size
        if not 0 <= offset < size:
            raise OSError(errno.ENXIO, "that is after the end of the file")
        if self._statics.of(file).blocks * SECTOR >= size:
            return offset if whence == os.SEEK_DATA else size
        self._ahead.await_made(file.file)
        self._content.table.sync(file)
        found = self._home.ask(lambda hub: hub.seek(file.file, offset, whence))
        if whence == os.SEEK_DATA and found >= size:
            raise OSError(errno.ENXIO, "only a hole follows")
        return min(found, size)

    def _make_zeros(self, file: OpenFile, mode: int, offset: int, end: int) -> None:
        end = min(end, self._content.extent(file).size)
        if end <= offset:
            return
        if self._content.native(file.file) and end - offset <= ZEROED_HERE:
            # As pages: what another program cuts off meanwhile does not come back.
            self._content.write(file, offset, bytes(end - offset), pages=True)
            return
        with self._content.pages.cutting(file):
            self._home.get().allocate(file.file, mode, offset, end - offset)
        self._content.copies.forget_old(file.file)
