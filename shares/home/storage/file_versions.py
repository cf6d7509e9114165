# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The status of a share's files after home's last change shows changes by others."""

from __future__ import annotations

import stat
from collections import OrderedDict
from enum import IntEnum

from shares.home.storage.system_calls import FileStatus
from shares.protocol import FileId

REMEMBERED = 65_536
"""Files."""


class Difference(IntEnum):
    """The difference between a file and home's last change of it."""

    NONE = 0
    STATUS = 1
    """Size and time of the last write are the same, but its status has changed since. Of folders
    and links: mode or owner are others."""
    CONTENT = 2


class FileVersions:
    """The versions of one share. Not thread-safe: its tree has a lock."""

    def __init__(self, left: dict[FileId, tuple[int, int]]) -> None:
        """left: size and time of the last write of files as the previous home has left them"""
        self._left = left
        self._known: OrderedDict[FileId, FileStatus] = OrderedDict()
        self._changed: dict[FileId, Difference] = {}

    def set(self, file: FileId, now: FileStatus) -> None:
        """Home has changed the file. Earlier changes by others stay noticed."""
        self._left.pop(file, None)
        self._known[file] = now
        self._known.move_to_end(file)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def accept(self, file: FileId, now: FileStatus) -> None:
        """Home has taken the file back from the nodes."""
        self._changed.pop(file, None)
        self.set(file, now)

    def known(self) -> list[tuple[FileId, int, int]]:
        """Return size and time of the last write of the files that home knows."""
        now = [(file, each.size, each.modified) for file, each in self._known.items()]
        earlier = [(file, *about) for file, about in self._left.items()]
        return [*earlier, *now][-REMEMBERED:]

    def suspect(self, file: FileId) -> None:
        """Others have changed the file while home did."""
        self._changed[file] = Difference.CONTENT

    def last(self, file: FileId) -> FileStatus | None:
        """Return the status that home left, or accepted."""
        return self._known.get(file)

    def difference(self, file: FileId, now: FileStatus) -> Difference:
        """Compare; a difference stays until it is accepted. A file that is not known yet is known
        from now on."""
        found = max(self._compare(file, now), self._changed.get(file, Difference.NONE))
        if found:
            self._changed[file] = found
        return found

    def _compare(self, file: FileId, now: FileStatus) -> Difference:
        known = self._known.get(file)
        if known is None:
            left = self._left.pop(file, None)
            self.set(file, now)
            same = left in {None, (now.size, now.modified)} or not stat.S_ISREG(now.mode)
            return Difference.NONE if same else Difference.CONTENT
        if not stat.S_ISREG(now.mode):
            same = (known.mode, known.uid, known.gid) == (now.mode, now.uid, now.gid)
            return Difference.NONE if same else Difference.STATUS
        if (known.size, known.modified) != (now.size, now.modified):
            return Difference.CONTENT
        return Difference.STATUS if _status(known) != _status(now) else Difference.NONE

    def forget(self, file: FileId) -> None:
        """Forget a removed file."""
        self._known.pop(file, None)
        self._left.pop(file, None)
        self._changed.pop(file, None)


def _status(of: FileStatus) -> tuple[int, ...]:
    return of.changed, of.mode, of.links, of.uid, of.gid
