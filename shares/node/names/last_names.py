# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Under which name a program here came to a file last: for the journal, and for conflict copies.

What other nodes rename is not heard of, so the name is a hint and no promise.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from shares.node.journal.journal import MountJournal
from shares.node.operations import ROOT
from shares.protocol import FileId

LIMIT = 65536
"""Files that are remembered; the one that was used longest ago is forgotten first."""

DEEPEST = 256
"""Folders of a path that is told."""

Name = tuple[FileId, bytes]
"""A folder, and a name in it."""


class LastNames:
    """Thread-safe; nothing waits, but for the disk of the journal."""

    def __init__(self, journal: MountJournal | None) -> None:
        """Names are noted there; without a journal none are remembered."""
        self.journal = journal
        self._lock = threading.Lock()
        self._names: OrderedDict[FileId, Name] = OrderedDict()
        self._files: dict[Name, FileId] = {}
        if journal is not None:
            journal.name_of = self.of

    def of(self, file: FileId) -> Name | None:
        """The folder, and in place of the name the path below the share's root, as far as it is
        known."""
        found = self._names.get(file)
        if found is None:
            return None
        folder, path = found
        above: Name | None = found
        for _ in range(DEEPEST):
            above = self._names.get(above[0]) if above and above[0] != ROOT else None
            if above is None:
                break
            path = above[1] + b"/" + path
        return folder, path

    def used(self, file: FileId, folder: FileId, name: bytes) -> None:
        """A program has come to the file by that name, or has made it."""
        if self.journal is None:
            return
        with self._lock:
            old = self._names.get(file)
            self._names[file] = folder, name
            self._names.move_to_end(file)
            if old is not None and old != (folder, name) and self._files.get(old) == file:
                del self._files[old]
            self._files[folder, name] = file
            if len(self._names) > LIMIT:
                gone, place = self._names.popitem(last=False)
                if self._files.get(place) == gone:
                    del self._files[place]
        if old != (folder, name):
            self.journal.named(file)

    def leaves(self, folder: FileId, name: bytes) -> FileId | None:
        """A program is about to take the name away, or to give it to another file: whose it is, for
        `stays` where that fails."""
        file = self._files.get((folder, name))
        if self.journal is not None and file is not None:
            self.journal.gone(file)
        return file

    def stays(self, file: FileId | None, folder: FileId, name: bytes) -> None:
        """It was not taken away."""
        if self.journal is not None and file is not None:
            self.used(file, folder, name)
            self.journal.named(file, again=True)

    def moved(self, place: Name, new: Name, *, exchanged: bool) -> None:
        """A program has renamed what was there."""
        with self._lock:
            file, other = self._files.pop(place, None), self._files.get(new)
        if file is not None:
            self.used(file, *new)
        if exchanged and other is not None:
            self.used(other, *place)
