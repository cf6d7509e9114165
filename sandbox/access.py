# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a cell's user, who is nobody outside, may read of files that are ours."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from satchel.errors import AccessError

_READ, _ENTER = 0o044, 0o011
_OWNER_RUNS = 0o100


def let_read(paths: Iterable[Path]) -> None:
    """Let all users read these files, and what is in these folders, where our umask forbade it.

    A cell sees them below a root of its own, so what keeps others from them are the folders above:
    one of these must be closed to others. Links are left alone, and so are files of other owners.
    Raises AccessError where nothing would keep others out, and OSError.
    """
    for path in paths:
        for one in _closed(path):
            if _can_be_reached(one.parent):
                raise AccessError(
                    f"a cell cannot read {one}",
                    why="it is closed to all users but its owner, and no folder above it is",
                    fix="close the folder that all of it is in (chmod 700), or let others read it",
                )
            one.chmod(stat.S_IMODE(one.stat().st_mode) | _lacking(one))


def _closed(path: Path) -> Iterator[Path]:
    """Those at and below `path` that lack a right. Of a folder that lacks none, what is in it is
    looked at, and not what is below that."""
    closed = bool(_lacking(path))
    if closed:
        yield path
    if path.is_dir():
        for one in path.iterdir():
            if closed or _lacking(one):
                yield from _closed(one)


def _lacking(path: Path) -> int:
    """The rights that others lack; none of what is not ours."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        return 0
    wanted = _READ | (_ENTER if found.st_mode & _OWNER_RUNS else 0)
    return wanted & ~found.st_mode


def _can_be_reached(folder: Path) -> bool:
    return all(one.stat().st_mode & stat.S_IXOTH for one in (folder, *folder.parents))
