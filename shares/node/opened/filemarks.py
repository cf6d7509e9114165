# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs have said of files beside their content, by extended attributes of a mount.

    setfattr -n user.satchel.relaxation -v 5 weather.txt     reads here may be 5 s old
    setfattr -x user.satchel.relaxation weather.txt          as the share has it again

    setfattr -n user.satchel.private -v 1 notes.db           no other node may open it
    setfattr -n user.satchel.immutable -v 1 photo.jpg        nobody may open it to write

`user.satchel.relaxation` is this node's, and counts for all its programs until its mount ends. The
other two are home's, and stay until they are removed or set to 0.
"""

from __future__ import annotations

import errno
import math
import threading
from collections.abc import Callable

from shares.node.hub.hub import IMMUTABLE, PRIVATE
from shares.protocol import FileId

PREFIX = b"user.satchel."
RELAXATION = PREFIX + b"relaxation"
PRIVATE_NAME = PREFIX + b"private"
IMMUTABLE_NAME = PREFIX + b"immutable"

STAYING = 4096
"""Files that stay open at most because of their mark."""

LONGEST = 86_400.0
"""Seconds of relaxation that a program may ask for."""


def seconds_of(value: bytes) -> float:
    """A relaxation as setfattr(1) has it. Raises OSError(EINVAL)."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST:
        raise OSError(errno.EINVAL, f"a relaxation is seconds, from 0 to {LONGEST:.0f}")
    return seconds


class FileMarks:
    """Of one node. Thread-safe."""

    def __init__(self, watch: Callable[[FileId, bool], None]) -> None:
        """watch: as OldCopies.watch"""
        self._watch = watch
        self._lock = threading.Lock()
        self._relaxations: dict[FileId, float] = {}
        self._terms: dict[FileId, float] = {}
        self._marks: dict[FileId, str] = {}

    def opened(self, file: FileId, relaxation: float, mark: str) -> None:
        """Home has opened it. relaxation: how old copies of it may be; mark: as Opened has it."""
        with self._lock:
            self._terms.pop(file, None)
            self._marks.pop(file, None)
            if relaxation:
                self._terms[file] = relaxation
            if mark and len(self._marks) < STAYING:
                self._marks[file] = mark

    def closed(self, file: FileId) -> None:
        """Home is told so."""
        self.opened(file, 0.0, "")

    def terms(self, file: FileId) -> float:
        """The relaxation that the share has for it."""
        return self._terms.get(file, 0.0)

    def stays(self, file: FileId) -> bool:
        """Whether it stays open here when no program has it open: no other node opens it to write,
        or at all, so neither an open nor a close has anything to say to home."""
        return file in self._marks

    def relaxation(self, file: FileId) -> float | None:
        """What a program has set here; None: nothing."""
        return self._relaxations.get(file)

    def relax(self, file: FileId, seconds: float | None) -> None:
        """Set it, or None: have it as the share has it."""
        with self._lock:
            before = self._relaxations.pop(file, None)
            if seconds is not None:
                self._relaxations[file] = seconds
        if (before is None) != (seconds is None):
            self._watch(file, seconds is not None)

    def set(self, file: FileId, name: bytes, value: bytes | None) -> str | None:
        """As MarkOperations.set_mark. The mark of which home has to be told, None where it has
        not."""
        if name == RELAXATION:
            self.relax(file, None if value is None else seconds_of(value))
            return None
        if name not in {PRIVATE_NAME, IMMUTABLE_NAME}:
            raise OSError(errno.ENOTSUP, f"files of shares have no attribute {name!r}")
        if value not in {None, b"0", b"1"}:
            raise OSError(errno.EINVAL, f"{name.decode()} is 0 or 1")
        if value != b"1":
            return ""
        return PRIVATE if name == PRIVATE_NAME else IMMUTABLE
