# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which files are private to one node, and which nobody may change (OFS, Sections 3.2 and 4.2).

A mark is an extended attribute of the file in the shared folder, so it stays when home begins again
and `getfattr -n user.satchel.mark FILE` shows it:

    private:laptop     only nodes of that name may open it
    immutable          it may be opened to be read only

Only home looks at it. Programs at home that open the shared folder itself are not held to it.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Iterable

from shares.home.storage.tree import Tree
from shares.node import IMMUTABLE, PRIVATE
from shares.protocol import FileId

ATTRIBUTE = "user.satchel.mark"
REMEMBERED = 65_536
"""MarkedFiles, or that a file has none."""

LONGEST = 256
"""Bytes of a mark: a node's name has 64 at most."""


class MarkedFiles:
    """Of one share, with its lock held. Raises OSError."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: OrderedDict[FileId, str] = OrderedDict()

    def admit(self, name: str, file: FileId, writes: bool) -> str:
        """Refuse a node of that name a file that it may not open. Returns the file's mark: PRIVATE,
        IMMUTABLE or "".

        Raises EACCES for what is another node's, EPERM for a write to what nobody may change."""
        kind, _, owner = self._of(file).partition(":")
        if kind == PRIVATE and owner != name:
            raise OSError(errno.EACCES, f"the file is private to the node {owner}")
        if kind == IMMUTABLE and writes:
            raise OSError(errno.EPERM, "the file is marked immutable")
        return kind

    def opened(self, name: str, file: FileId, writes: bool, rule: str, alone: bool) -> str:
        """As `admit`, for an open. rule: the mark that the share's rules have for it; alone: no
        other node has it open, so a file that a rule says is private becomes this node's."""
        kind = self.admit(name, file, writes)
        if kind or not rule:
            return kind
        if rule == PRIVATE and alone:
            self.set(name, file, PRIVATE)
            return PRIVATE
        if rule == IMMUTABLE and writes and self._tree.attributes(file).size:
            raise OSError(errno.EPERM, "files of that path are immutable in this share")
        return IMMUTABLE if rule == IMMUTABLE and not writes else ""

    def mark(
        self, name: str, file: FileId, kind: str, opened: Iterable[str], writers: Iterable[str]
    ) -> None:
        """As `set`. opened, writers: names of nodes that have the file open, and open to write."""
        in_the_way = opened if kind == PRIVATE else writers if kind == IMMUTABLE else ()
        if any(each for each in in_the_way):
            raise OSError(errno.EBUSY, "other programs have the file open")
        self.set(name, file, kind)

    def private(self, file: FileId) -> bool:
        return self._of(file).startswith(PRIVATE)

    def set(self, name: str, file: FileId, kind: str) -> None:
        """What a node of that name says of the file; "" takes its mark away. Raises as `admit`,
        EINVAL for no mark, and EOPNOTSUPP where home's file system has no extended attributes."""
        if kind not in {"", PRIVATE, IMMUTABLE}:
            raise OSError(errno.EINVAL, f"there is no mark {kind[:40]!r}")
        self.admit(name, file, writes=False)
        mark = f"{PRIVATE}:{name}" if kind == PRIVATE else kind
        self._tree.at(file, lambda path: os.setxattr(path, ATTRIBUTE, mark.encode()))
        self._remember(file, mark)

    def _of(self, file: FileId) -> str:
        if file in self._known:
            self._known.move_to_end(file)
            return self._known[file]
        try:
            found = self._tree.at(file, lambda path: os.getxattr(path, ATTRIBUTE))
            mark = found[:LONGEST].decode(errors="replace")
        except OSError as error:
            if error.errno not in {errno.ENODATA, errno.EOPNOTSUPP}:
                raise
            mark = ""
        self._remember(file, mark)
        return mark

    def _remember(self, file: FileId, mark: str) -> None:
        self._known[file] = mark
        self._known.move_to_end(file)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def forget(self, file: FileId) -> None:
        """The file is no more."""
        self._known.pop(file, None)
