# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node is told that a task went to another node, or came back (OFS, Section 4.3).

    moved = Offloading(node)
    moved.offloaded(["photos/1.jpg"])   # home has what was written, and the file is closed here
    ...                                 # the task opens it elsewhere, where it is native at once
    moved.returned()                    # it is open here again, with the beginning of its content

Nobody has to call this: files are coherent without. Without it the task's first open elsewhere
waits until this node has sent what was written here, and its first one here for the other node.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from shares.node.files import find
from shares.node.node import Node
from shares.protocol import FileId

AHEAD_BYTES = 64 << 10
"""Of each file that a task comes back to."""

GONE = {errno.ENOENT, errno.ESTALE, errno.EACCES}

REMEMBERED = 10_000
"""Files of tasks that are away."""


@dataclass(frozen=True)
class OffloadReport:
    """files: that were given up, or opened again; open: that programs here have open, so they were
    sent to home, or looked at, and no more."""

    files: int
    open: int


class Offloader:
    """Of one node. Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._away: dict[FileId, None] = {}

    def offloaded(self, paths: Iterable[str | bytes] | None = None) -> OffloadReport:
        """A task goes to another node. Home has, on return, what was written here to these files,
        or to all; those that no program here has open are closed, so the task has them alone.
        A folder stands for what is open of the files in it. Raises OSError."""
        files = self._node.opened_files() if paths is None else self._files(paths)
        given, open_ = 0, 0
        for file in files:
            if self._node.give_up(file):
                given += 1
            else:
                open_ += 1
            with self._lock:
                self._away[file] = None
                while len(self._away) > REMEMBERED:
                    del self._away[next(iter(self._away))]
        return OffloadReport(given, open_)

    def returned(self, paths: Iterable[str | bytes] | None = None) -> OffloadReport:
        """The task is back. These files, or all that `offloaded` was about, are opened here, with
        the beginning of their content, so they are native and what programs do next asks nobody.
        One that is no more is left out. Raises OSError where home is not reached."""
        with self._lock:
            away = list(self._away) if paths is None else []
            self._away.clear()
        opened, open_ = 0, 0
        for file in away if paths is None else self._files(paths):
            open_ += self._node.is_open(file)
            opened += self._open(file)
        return OffloadReport(opened, open_)

    def _open(self, file: FileId) -> bool:
        """Whether it is there. Raises OSError where that is not known."""
        try:
            if not stat.S_ISREG(self._node.attributes(file, None).mode):
                return False
            handle = self._node.open(file, os.O_RDONLY).number
        except OSError as error:
            if error.errno in GONE:
                return False
            raise
        try:
            self._node.read(handle, 0, AHEAD_BYTES)
        finally:
            self._node.release(handle, 0)
        return True

    def _files(self, paths: Iterable[str | bytes]) -> list[FileId]:
        files: dict[FileId, None] = {}
        for path in paths:
            file = find(self._node, path)
            if stat.S_ISDIR(self._node.attributes(file, None).mode):
                files |= dict.fromkeys(self._below(file))
            else:
                files[file] = None
        return list(files)

    def _below(self, folder: FileId) -> Iterable[FileId]:
        for entry in self._node.entries(folder):
            if stat.S_ISDIR(entry.attributes.mode):
                yield from self._below(entry.attributes.file)
            elif stat.S_ISREG(entry.attributes.mode):
                yield entry.attributes.file
