# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Content of nodes that must not go into a file, because a program of home has changed, replaced or
removed the file meanwhile. It goes into a conflict copy beside the file."""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from shares.home.storage.tree import Tree
from shares.node import ROOT, Extent, conflict_name
from shares.protocol import ATTRIBUTES, BLOCK, FileId

logger = logging.getLogger(__name__)

TOLD = 100
"""Conflict copies that a status names."""

ATTEMPTS = 1000
PIECE = 1 << 20


@dataclass
class _Aside:
    """A file whose content goes into a copy. copy: once there is one. extent: the size and times
    that nodes know; given: a node has given others"""

    extent: Extent
    copy: FileId | None = None
    given: bool = False


class ConflictCopies:
    """The copies of one share. The caller holds its lock.

    told: paths of the latest ones below the share. tell: is called for each, with the name of the
    node whose content it has
    """

    def __init__(self, name: str, tree: Tree) -> None:
        """name: of the share."""
        self.told: deque[bytes] = deque(maxlen=TOLD)
        self.tell: Callable[[str, bytes], None] = lambda who, path: None
        self._name, self._tree = name, tree
        self._asides: dict[FileId, _Aside] = {}

    def begin(self, file: FileId, extent: Extent) -> None:
        """Send nodes' content of the file into a copy from now on. extent: as nodes know it."""
        self._asides.setdefault(file, _Aside(extent))

    def has(self, file: FileId) -> bool:
        return file in self._asides

    def put(self, file: FileId, number: int, block: bytes, who: str) -> None:
        """Take a block that a node of that name has given. Raises OSError and IntegrityError."""
        aside = self._asides[file]
        if number == ATTRIBUTES:
            extent = Extent.unpack(block)
            if extent.size != aside.extent.size:
                self._copy_of(file, aside, who)
            aside.extent, aside.given = extent, True
            return
        now = self._tree.read(file, number * BLOCK, BLOCK)
        if aside.copy is None and block.rstrip(b"\0") == now.rstrip(b"\0"):
            return
        copy = self._copy_of(file, aside, who)
        within = max(0, min(BLOCK, aside.extent.size - number * BLOCK))
        data = block[:within] + block[within:].rstrip(b"\0")
        self._tree.write(copy, number * BLOCK, data, blind=True)

    def block(self, file: FileId, number: int) -> bytes:
        """Return a block as the copy has it so far."""
        aside = self._asides[file]
        if number == ATTRIBUTES:
            return aside.extent.pack()
        return self._tree.read(aside.copy or file, number * BLOCK, BLOCK)

    def end(self, file: FileId) -> None:
        """Nodes have given all that they had. Make the copy, if any, durable.
        Raises OSError."""
        aside = self._asides.pop(file, None)
        if aside is None or aside.copy is None:
            return
        try:
            if aside.given:
                self._tree.extend(aside.copy, aside.extent, blind=True)
            self._tree.sync(aside.copy)
        finally:
            self._tree.close_file(aside.copy)

    def sync(self, file: FileId) -> None:
        """Make the copy durable as it is. Raises OSError."""
        aside = self._asides.get(file)
        if aside is not None and aside.copy is not None:
            self._tree.sync(aside.copy)

    def adopt(self, file: FileId, who: str) -> None:
        """Others have taken the last name of the file, which a node writes: give it one again.
        Raises OSError."""
        self._tree.move_into(file, self._make(file, who))

    def note(self, who: str, path: bytes) -> None:
        """There is a conflict copy of that path with content of the node of that name."""
        self.told.append(path)
        self.tell(who, path)

    def _copy_of(self, file: FileId, aside: _Aside, who: str) -> FileId:
        if aside.copy is None:
            aside.copy = self._make(file, who)
        return aside.copy

    def _make(self, file: FileId, who: str) -> FileId:
        """Make a copy of the file beside it, and open it."""
        folder, name = self._tree.former_place(file) or (ROOT, b"file-%x" % file)
        like = self._tree.attributes(file)
        about = (like.mode & 0o777, like.uid, like.gid)
        for attempt in range(ATTEMPTS):
            wanted = conflict_name(name, who, attempt)
            try:
                entry, _ = self._tree.create(folder, wanted, *about, exclusive=True)
            except FileExistsError:
                continue
            except OSError as error:
                if folder == ROOT or error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}:
                    raise
                folder = ROOT  # the folder was removed
                continue
            break
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        copy = entry.attributes.file
        for offset in range(0, like.size, PIECE):
            data = self._tree.read(file, offset, PIECE)
            if data.strip(b"\0"):
                self._tree.write(copy, offset, data, blind=True)
        self._tree.extend(copy, Extent.of(like), blind=True)
        path = self._tree.place(copy) or wanted
        self.note(who, path)
        logger.warning(
            "share %s: a program at home changed %s while %s wrote it; the node's content is in %s",
            self._name,
            name.decode(errors="replace"),
            who,
            path.decode(errors="replace"),
        )
        return copy
