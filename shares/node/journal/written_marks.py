# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which blocks of a file were written here and are not at home yet: docs/formats/mount-journal.md.

A file of the share has two files of marks. `ID.written` has for each block the generation in which
it was written last, and the file's size. `ID.home` has for each block the generation whose content
home has confirmed, and the grant under which it is written. A block waits for home as long as the
first number is greater than the second. Each of the two files has one writer for an entry, so
nothing has to be changed in one step with anything else.

    ID.written  magic "SATWRITN" (8), version (4), zero (4), file (8), size (8), extent (40), zeros
                up to 128; then 8 bytes for each block, that of block -1 first: generation
    ID.home     magic "SATATHOM" (8), version (4), zero (4), file (8), native grant (8), size at
                home (8), time of the last change there (8), zeros up to 128; then 16 bytes for each
                block: generation, grant

All integers are little-endian.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import IntegrityError, UnsupportedError
from shares.node.extent import LAYOUT, Extent, clamped
from shares.protocol import ATTRIBUTES, FileId, runs

WRITTEN, HOME = b"SATWRITN", b"SATATHOM"
VERSION = 1
HEADER = 128
_START = struct.Struct("<8sIIQ")
_SIZE_AT = _START.size
_EXTENT_AT = _SIZE_AT + 8
_GRANT_AT = _START.size
_BASE_AT = _GRANT_AT + 8
_MARK = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQ")
_BASE = struct.Struct("<Qq")
AT_ONCE = 4096
"""Entries that are read or written at once."""


class NoMarks(IntegrityError):
    """The marks of a file cannot be read."""


@dataclass(frozen=True)
class BaseVersion:
    """Size, and time of the last change in nanoseconds, of a file at home before it was written
    here."""

    size: int
    modified: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "modified", clamped(self.modified))


@dataclass(frozen=True)
class PendingWrites:
    """What of a file is not at home. grants: the grant of each block that waits; -1 for size and
    times, which are `extent`. base: None where it is not known"""

    file: FileId
    grants: dict[int, int]
    extent: Extent
    base: BaseVersion | None

    @property
    def blocks(self) -> list[int]:
        """Ascending numbers of blocks of content."""
        return sorted(number for number in self.grants if number != ATTRIBUTES)


class WrittenMarks:
    """The two files of one file of the share, open to write. One thread at a time."""

    def __init__(self, folder: Path, file: FileId) -> None:
        """Make them, or open those that are there. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self.written = os.open(written_path(folder, file), flags, 0o600)
        try:
            self._home = os.open(home_path(folder, file), flags, 0o600)
        except BaseException:
            os.close(self.written)
            raise
        for descriptor, magic in ((self.written, WRITTEN), (self._home, HOME)):
            if os.fstat(descriptor).st_size < HEADER:
                start = _START.pack(magic, VERSION, 0, file)
                _put(descriptor, 0, start.ljust(HEADER, b"\0"))

    def close(self) -> None:
        os.close(self.written)
        os.close(self._home)

    def sync(self) -> None:
        """Returns when they are durable. Raises OSError."""
        os.fdatasync(self.written)
        os.fdatasync(self._home)

    def mark(self, first: int, count: int, generation: int) -> None:
        """These blocks were written."""
        marks = _MARK.pack(generation) * min(count, AT_ONCE)
        for at in range(first, first + count, AT_ONCE):
            part = marks[: 8 * min(AT_ONCE, first + count - at)]
            _put(self.written, HEADER + 8 * (at + 1), part)

    def extent(self, extent: Extent, size: int | None) -> None:
        """Size and times here. size: what writes that ask nobody count on from here; None where
        they may be making the file longer just now."""
        packed = extent.pack()[: LAYOUT.size]
        if size is None:
            _put(self.written, _EXTENT_AT, packed)
        else:
            _put(self.written, _SIZE_AT, _MARK.pack(size) + packed)

    def native(self, grant: int) -> None:
        """All blocks may be written under this grant."""
        _put(self._home, _GRANT_AT, _MARK.pack(grant))

    def base(self, base: BaseVersion) -> None:
        """Home has this size and time."""
        _put(self._home, _BASE_AT, _BASE.pack(base.size, base.modified))

    def grants(self, grants: dict[int, int]) -> None:
        """These blocks may be written under these grants."""
        for first, count in runs(sorted(grants)):
            entries = self._entries(first, count)
            new = [(done, grants[first + n]) for n, (done, _) in enumerate(entries)]
            self._put_entries(first, new)

    def at_home(self, numbers: Iterable[int], generation: int) -> None:
        """Home has what was written to these blocks up to that generation."""
        for first, count in runs(sorted(numbers)):
            entries = self._entries(first, count)
            self._put_entries(first, [(max(done, generation), grant) for done, grant in entries])

    def cut(self, first: int, generation: int, stays: Callable[[int], bool]) -> None:
        """Nothing is to be had any more of the blocks from `first` on, but for those that stay."""
        gone = [n for n, _ in _marks(self.written, first) if not stays(n)]
        self.at_home(gone, generation)

    def _entries(self, first: int, count: int) -> list[tuple[int, int]]:
        size = _ENTRY.size * count
        data = os.pread(self._home, size, HEADER + _ENTRY.size * (first + 1)).ljust(size, b"\0")
        return list(_ENTRY.iter_unpack(data))

    def _put_entries(self, first: int, entries: list[tuple[int, int]]) -> None:
        packed = b"".join(_ENTRY.pack(*entry) for entry in entries)
        _put(self._home, HEADER + _ENTRY.size * (first + 1), packed)


def written_path(folder: Path, file: FileId) -> Path:
    return folder / f"{file:016x}.written"


def home_path(folder: Path, file: FileId) -> Path:
    return folder / f"{file:016x}.home"


def marked_files(folder: Path) -> list[FileId]:
    """Those that have marks there, in the order of their numbers."""
    names = (path.name.removesuffix(".written") for path in folder.glob("*.written"))
    return sorted(FileId(int(name, 16)) for name in names if _is_number(name))


def waiting(folder: Path, file: FileId) -> PendingWrites | None:
    """What of the file is not at home; None where all is. Raises OSError, NoMarks,
    UnsupportedError."""
    written = os.open(written_path(folder, file), os.O_RDONLY | os.O_CLOEXEC)
    try:
        home = os.open(home_path(folder, file), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _waiting(file, written, home)
        finally:
            os.close(home)
    except FileNotFoundError as error:
        raise NoMarks(f"{home_path(folder, file)} is not there") from error
    finally:
        os.close(written)


def _waiting(file: FileId, written: int, home: int) -> PendingWrites | None:
    head = _header(written, WRITTEN, file)
    if not any(head[_EXTENT_AT : _EXTENT_AT + LAYOUT.size]):
        return None  # made, and the process was killed before anything was written
    extent = Extent.unpack(head[_EXTENT_AT : _EXTENT_AT + LAYOUT.size])
    (grown,) = _MARK.unpack_from(head, _SIZE_AT)
    native, base = _home_header(home, file)
    grants: dict[int, int] = {}
    for number, generation in _marks(written, ATTRIBUTES):
        entry = os.pread(home, _ENTRY.size, HEADER + _ENTRY.size * (number + 1))
        done, grant = _ENTRY.unpack(entry.ljust(_ENTRY.size, b"\0"))
        if generation > done:
            grants[number] = max(grant, native)
    if grown > extent.size:
        grants.setdefault(ATTRIBUTES, native)
    if not grants:
        return None
    at = os.fstat(written).st_mtime_ns
    size = max(extent.size, grown)
    modified = max(extent.modified, at) if set(grants) - {ATTRIBUTES} else extent.modified
    now = Extent(size, extent.accessed, modified, max(extent.changed, at))
    return PendingWrites(file, grants, now, base)


def _home_header(home: int, file: FileId) -> tuple[int, BaseVersion | None]:
    head = _header(home, HOME, file)
    (native,) = _MARK.unpack_from(head, _GRANT_AT)
    base = BaseVersion(*_BASE.unpack_from(head, _BASE_AT))
    return native, base if base != BaseVersion(0, 0) else None


def _header(descriptor: int, magic: bytes, file: FileId) -> bytes:
    head = os.pread(descriptor, HEADER, 0)
    if len(head) < HEADER or not head.startswith(magic):
        raise NoMarks(f"the marks of file {file:016x} cannot be read", why="they begin otherwise")
    _, version, _, about = _START.unpack_from(head)
    if version != VERSION:
        raise UnsupportedError(
            f"cannot read marks of version {version}",
            why=f"this program knows version {VERSION}",
            fix="use the Satchel that wrote them",
        )
    if about != file:
        raise NoMarks(f"the marks of file {file:016x} cannot be read", why="they are another's")
    return head


def _marks(written: int, first: int) -> Iterator[tuple[int, int]]:
    """Numbers from `first` on and generations, of blocks that were ever written. Holes are not
    read."""
    at, size = HEADER + 8 * (first + 1), os.fstat(written).st_size
    while at < size:
        try:
            found = max(at, os.lseek(written, at, os.SEEK_DATA))
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        at = found - (found - HEADER) % 8
        data = os.pread(written, 8 * AT_ONCE, at)
        for place, (generation,) in enumerate(_MARK.iter_unpack(data[: len(data) // 8 * 8])):
            if generation:
                yield (at - HEADER) // 8 - 1 + place, generation
        if len(data) < 8:
            return
        at += len(data) // 8 * 8


def _put(descriptor: int, offset: int, data: bytes) -> None:
    while data:
        done = os.pwrite(descriptor, data, offset)
        data, offset = data[done:], offset + done


def _is_number(name: str) -> bool:
    return len(name) == 16 and all(letter in "0123456789abcdef" for letter in name)
