# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Paths below a share's root, followed as path_resolution(7) says."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from shares.node import ROOT, Attributes, Operations
from shares.protocol import FileId

MOST_LINKS = 40
DOTS = {b"", b"."}


@dataclass(frozen=True)
class Place:
    """What a path leads to. parent, name: where; name b"" is the root itself. found: None where
    there is nothing of that name."""

    parent: FileId
    name: bytes
    found: Attributes | None

    def require(self) -> Attributes:
        """Raises FileNotFoundError."""
        if self.found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.found


class Places:
    """Of one tree. root: where programs see it, for links that name it. Thread-safe."""

    def __init__(self, tree: Operations, root: bytes) -> None:
        self._tree, self._root = tree, root

    def find(self, path: bytes, *, follow: bool) -> Place:
        """follow: where the last name is a link, go on to what it leads to. A link that leads out
        of the share leads nowhere. Raises OSError."""
        ahead = path.split(b"/")[::-1]
        above: list[FileId] = []
        place = Place(ROOT, b"", self._tree.attributes(ROOT, None))
        links = 0
        while ahead:
            name = ahead.pop()
            if name in DOTS:
                continue
            folder = place.require()
            if not stat.S_ISDIR(folder.mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if name == b"..":
                up = above.pop() if above else ROOT
                place = Place(up, b"", self._tree.attributes(up, None))
                continue
            found = self._lookup(folder.file, name)
            last = all(rest in DOTS for rest in ahead)
            if found is not None and stat.S_ISLNK(found.mode) and (follow or not last):
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = self._tree.read_link(found.file)
                if target.startswith(b"/"):
                    target = self._inside(target)
                    above, place = [], Place(ROOT, b"", self._tree.attributes(ROOT, None))
                ahead += target.split(b"/")[::-1]
                continue
            if found is not None and stat.S_ISDIR(found.mode):
                above.append(folder.file)
            place = Place(folder.file, name, found)
        return place

    def _lookup(self, folder: FileId, name: bytes) -> Attributes | None:
        try:
            return self._tree.lookup(folder, name).attributes
        except FileNotFoundError:
            return None

    def _inside(self, target: bytes) -> bytes:
        if target == self._root or target.startswith(self._root + b"/"):
            return target[len(self._root) :]
        raise FileNotFoundError(errno.ENOENT, "a link leads out of the share")
