# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Folders that are the mobile's own at a replay, in which it makes files ahead of home, as
`shares.node.opened.creation` and `shares.home.directory.own_folders` do it.

A folder is its own with the answer to the first file that it makes there, if the other node has not
looked at the folder; that is so once it opens a file there or below. Then the owner is called back
before. The other node is at home, and has no way to go: it makes files as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from papers.ofs.trace import File
from shares.protocol import FileId


@dataclass
class OwnFolders:
    """there: files that have been made. own: folders of the mobile's; known: to the other node."""

    _folders: list[tuple[str, ...]]
    _there: set[FileId]
    _own: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, files: Iterable[File]) -> OwnFolders:
        """Of a trace, before anything is done."""
        files = tuple(files)
        folders = [
            tuple(str(above) for above in PurePosixPath(file.name).parents) for file in files
        ]
        there = {FileId(number + 1) for number, file in enumerate(files) if file.size >= 0}
        return cls(folders, there)

    def ahead(self, file: FileId, *, relaxed: bool) -> bool:
        """The mobile opens the file to write: whether it makes it by itself. relaxed: it may while
        the other node knows the folder."""
        folder = self._folders[file - 1][0]
        if file in self._there:
            return False
        self._there.add(file)
        ahead = folder in self._own
        if relaxed or folder not in self._known:  # with home's answer
            self._own.add(folder)
        return ahead

    def look(self, file: FileId, *, relaxed: bool) -> Iterator[None]:
        """The other node opens the file: for each folder of the mobile's own, while it is called
        back. relaxed: only for the one in which the other node makes it."""
        there = file in self._there
        self._there.add(file)
        folders = self._folders[file - 1]
        if relaxed:
            folders = () if there else folders[:1]
        for folder in reversed(folders):
            self._known.add(folder)
            if folder in self._own:
                self._own.discard(folder)
                yield
