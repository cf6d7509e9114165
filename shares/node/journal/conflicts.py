# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does not take any more because others have written the file since: it becomes a file
beside the other one, a conflict copy, with a name as Syncthing gives.

    report.txt    report.sync-conflict-20261125-101530-laptop.txt

Blocks that were not written here are in the copy as home has them.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shares.node.extent import BLOCK, Extent
from shares.node.journal.records import RefusedBlocks
from shares.node.journal.written_marks import BaseVersion
from shares.node.operations import ROOT, Attributes, Changes, Operations
from shares.protocol import ATTRIBUTES, FileId

PIECE = 1 << 20
"""Bytes that are copied at once."""

NAME_LIMIT = 255
ATTEMPTS = 1000
NO_FILE = (errno.ENOENT, errno.ESTALE)


@dataclass(frozen=True)
class RefusedContent:
    """What home does not take of a file. numbers: of blocks, ascending; read: their content.
    extent: where size and times are a part of it. name: the folder, and the path as far as it is
    known. base: what the file at home was like before it was written here, where that may decide;
    gone: a program here has taken the name away; new: home has never had the file"""

    file: FileId
    numbers: list[int]
    read: Callable[[int], bytes]
    extent: Extent | None
    name: tuple[FileId, bytes] | None
    base: BaseVersion | None = None
    gone: bool = False
    new: bool = False


class Conflicts:
    """Settles what home refuses, by calls of a node that is in the share. One thread at a time."""

    def __init__(self, node: Operations, who: str) -> None:
        """who: the name of the node that wrote it."""
        self._node, self._who = node, who

    def settle(self, refused: RefusedContent) -> bytes | None:
        """Have home get it. The path of the conflict copy; None where none is needed: home has the
        same content, nobody has changed the file since, or a program here has removed it. All is
        durable at home on return. Raises OSError."""
        now = self._attributes(refused.file)
        if now is None:
            return None if refused.gone else self._copy(refused, None)
        if self._same(refused, now):
            return None
        if refused.base == BaseVersion(now.size, now.modified):
            self._write(refused, refused.file, os.O_RDWR)
            return None
        return self._copy(refused, now)

    def _attributes(self, file: FileId) -> Attributes | None:
        """None where home has no such file."""
        try:
            found = self._node.attributes(file, None)
        except OSError as error:
            if error.errno in NO_FILE:
                return None
            raise
        return found if stat.S_ISREG(found.mode) else None

    def _same(self, refused: RefusedContent, now: Attributes) -> bool:
        """Whether home has that content already."""
        size = refused.extent.size if refused.extent else now.size
        if size != now.size:
            return False
        handle = self._node.open(refused.file, os.O_RDONLY).number
        try:
            return all(
                self._node.read(handle, number * BLOCK, len(data)) == data
                for number, data in pieces(refused, size)
            )
        finally:
            self._node.release(handle, 0)

    def _copy(self, refused: RefusedContent, now: Attributes | None) -> bytes | None:
        folder, path = refused.name or (ROOT, b"file-%x" % refused.file)
        above, _, name = path.rpartition(b"/")
        mode = now.mode & 0o777 if now else 0o644
        # Whose the file is: that mode may let nobody else read the copy.
        owner = (now.uid, now.gid) if now else (os.getuid(), os.getgid())
        plain = refused.new and now is None
        for attempt in range(ATTEMPTS):
            wanted = name if plain and attempt == 0 else conflict_name(name, self._who, attempt)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            try:
                made, handle = self._node.create(folder, wanted, mode, flags, *owner)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno not in NO_FILE or folder == ROOT:
                    raise
                folder, above = ROOT, b""  # others have removed the folder
                continue
            self._node.release(handle.number, 0)
            if now is not None:
                self._fill(made.attributes.file, refused, now)
            self._write(refused, made.attributes.file, os.O_RDWR)
            self._node.sync_folder(folder)
            return None if wanted == name else (above + b"/" + wanted if above else wanted)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

    def _fill(self, copy: FileId, refused: RefusedContent, now: Attributes) -> None:
        """With what home has."""
        size = min(now.size, refused.extent.size) if refused.extent else now.size
        source = self._node.open(refused.file, os.O_RDONLY).number
        target = self._node.open(copy, os.O_RDWR).number
        try:
            for offset in range(0, size, PIECE):
                data = self._node.read(source, offset, min(PIECE, size - offset))
                if data.strip(b"\0"):
                    self._node.write(target, offset, data)
            self._node.change(copy, Changes(size=size), target)
        finally:
            self._node.release(source, 0)
            self._node.release(target, 0)

    def _write(self, refused: RefusedContent, file: FileId, flags: int) -> None:
        handle = self._node.open(file, flags).number
        try:
            known = self._node.attributes(file, handle)
            size = refused.extent.size if refused.extent else max(known.size, reach(refused))
            for number, data in pieces(refused, size):
                self._node.write(handle, number * BLOCK, data)
            modified = refused.extent.modified if refused.extent else None
            self._node.change(file, Changes(size=size, modified=modified), handle)
            self._node.sync(handle, data_only=False)
        finally:
            self._node.release(handle, 0)


def pieces(refused: RefusedContent, size: int) -> Iterable[tuple[int, bytes]]:
    """Blocks as far as the file reaches into them."""
    for number in refused.numbers:
        within = min(BLOCK, size - number * BLOCK)
        if number != ATTRIBUTES and within > 0:
            yield number, refused.read(number)[:within]


def reach(refused: RefusedContent) -> int:
    """How long a file is at least that has these blocks and no size; zeros at the end are
    padding."""
    last = max((n for n in refused.numbers if n != ATTRIBUTES), default=-1)
    return last * BLOCK + len(refused.read(last).rstrip(b"\0")) if last >= 0 else 0


def conflict_name(name: bytes, who: str, attempt: int = 0) -> bytes:
    """attempt: so many names of this second are taken."""
    stem, dot, extension = name.rpartition(b".")
    if not stem:  # a name like .bashrc has no extension
        stem, dot, extension = name, b"", b""
    when = time.strftime("%Y%m%d-%H%M%S")
    number = f"-{attempt}" if attempt else ""
    end = os.fsencode(f".sync-conflict-{when}-{who}{number}") + dot + extension[: NAME_LIMIT // 2]
    return stem[: NAME_LIMIT - len(end)] + end


def of_aside(aside: RefusedBlocks) -> RefusedContent:
    """What home refused while the mount was served."""
    packed = aside.blocks.get(ATTRIBUTES)
    numbers = sorted(number for number in aside.blocks if number != ATTRIBUTES)
    extent = Extent.unpack(packed) if packed is not None else None
    return RefusedContent(aside.file, numbers, aside.blocks.__getitem__, extent, aside.name)
