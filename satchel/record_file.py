# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A file that grows by records: what a program notes while it works, and reads again later.

header    magic (8), version (4), zero (4)
record    CRC-32 of the rest (4), length of the data (4), fields as the format has them, data

All integers are little-endian. The write log of a share, the record of calls and the journal of a
mount are such files.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from satchel.errors import IntegrityError, UnsupportedError
from satchel.files import write_durably

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("<8sII")
_FRAME = struct.Struct("<II")

Fields = tuple[int | bytes, ...]

Take = Callable[..., bool]
"""Given the fields of a record, where its data is in the file, and the data. False: these are no
fields of this format, and the file is damaged from here on."""


class NoRecordFile(IntegrityError):
    """The file does not begin like a file of its format."""


class RecordChanged(IntegrityError):
    """A record that existed has disappeared."""


@dataclass(frozen=True)
class RecordFormat:
    """what: its name for people; fields: of a record, "<" and what struct knows; limit: bytes of
    data that a record may have"""

    what: str
    magic: bytes
    version: int
    fields: struct.Struct
    limit: int

    def empty(self) -> bytes:
        """What a file without records is."""
        return _HEADER.pack(self.magic, self.version, 0)

    def record(self, fields: Fields, data: bytes) -> bytes:
        """Raises OSError (EMSGSIZE) for more data than the limit."""
        if len(data) > self.limit:
            raise OSError(errno.EMSGSIZE, f"a record of a {self.what} has {len(data)} bytes")
        rest = struct.pack("<I", len(data)) + self.fields.pack(*fields) + data
        return struct.pack("<I", zlib.crc32(rest)) + rest

    @property
    def overhead(self) -> int:
        """Bytes of a record without data."""
        return _FRAME.size + self.fields.size


class RecordFile:
    """See the module. One thread at a time.

    What is appended is read again after the end of the process; after a power cut, if `sync` had
    returned. Of a file that is torn or damaged what comes before that counts; the file as it was is
    kept beside it, its name with ".damaged".
    """

    def __init__(self, path: Path, form: RecordFormat, take: Take) -> None:
        """Open or make it, and give `take` what it has. Raises OSError, NoRecordFile,
        UnsupportedError for a version that is not known."""
        self.path = path
        self._form = form
        if not path.exists():
            write_durably(path, form.empty())
        data = path.read_bytes()
        check_header(path, data, form)
        self.end = self._read(data, take)
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if self.end < len(data):
            _keep_aside(path, f"it is torn or damaged at byte {self.end} of {len(data)}")
            os.ftruncate(self._fd, self.end)

    @classmethod
    def open_or_replace(cls, path: Path, form: RecordFormat, take: Take) -> RecordFile:
        """The same for records that one can do without: what does not begin like them is kept
        aside, and none are had. Raises OSError, UnsupportedError."""
        try:
            return cls(path, form, take)
        except NoRecordFile as error:
            _keep_aside(path, str(error))
            write_durably(path, form.empty())
            return cls(path, form, take)

    @property
    def empty(self) -> bool:
        return self.end == _HEADER.size

    def append(self, fields: Fields, data: bytes) -> int:
        """Where its data is. Raises OSError; nothing is appended then."""
        self.extend([(fields, data)])
        return self.end - len(data)

    def extend(self, records: Iterable[tuple[Fields, bytes]]) -> None:
        """Append all of them, or none: raises OSError then."""
        packed = b"".join(self._form.record(fields, data) for fields, data in records)
        try:
            if os.pwrite(self._fd, packed, self.end) < len(packed):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._fd, self.end)
            raise
        self.end += len(packed)

    def read(self, place: int, length: int) -> bytes:
        """The data of a record. Raises OSError, RecordChanged."""
        overhead = self._form.overhead
        record = os.pread(self._fd, overhead + length, place - overhead)
        whole = len(record) == overhead + length
        if not whole or _FRAME.unpack_from(record) != (zlib.crc32(record[4:]), length):
            raise RecordChanged(f"{self.path} has changed", why=f"at {place}")
        return record[overhead:]

    def clear(self) -> None:
        """Nothing in it counts any more."""
        self.end = _HEADER.size
        os.ftruncate(self._fd, self.end)

    def rewrite(self, records: Iterable[tuple[Fields, bytes]]) -> None:
        """Have these instead; a crash leaves the old or the new. Raises OSError."""
        packed = (self._form.record(fields, data) for fields, data in records)
        content = self._form.empty() + b"".join(packed)
        write_durably(self.path, content)
        os.close(self._fd)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self.end = len(content)

    def sync(self) -> None:
        """Returns when all that was appended is durable. Raises OSError."""
        os.fdatasync(self._fd)

    def duplicate(self) -> int:
        """A descriptor of the caller's, to be synced without who appends having to wait."""
        return os.dup(self._fd)

    def close(self) -> None:
        """All is durable on return."""
        try:
            os.fdatasync(self._fd)
        finally:
            os.close(self._fd)

    def _read(self, data: bytes, take: Take) -> int:
        """Where the first record that is none begins."""
        end = _HEADER.size
        for record in records_in(data, self._form):
            if not take(record.fields, record.place, record.data):
                break
            end = record.place + len(record.data)
        return end


@dataclass(frozen=True)
class Record:
    """One of a file. at: where it begins; place: where its data does"""

    at: int
    place: int
    fields: Fields
    data: bytes


def check_header(path: Path, data: bytes, form: RecordFormat) -> int:
    """The size of the header with which `data` begins, as a file of that format does. Raises
    NoRecordFile, UnsupportedError."""
    if len(data) < _HEADER.size or not data.startswith(form.magic):
        raise NoRecordFile(f"{path} is no {form.what}", why="it does not begin like one")
    _, version, _ = _HEADER.unpack_from(data)
    if version != form.version:
        raise UnsupportedError(
            f"cannot read the {form.what} {path} of version {version}",
            why=f"this program knows version {form.version}",
            fix="use the Satchel that wrote it",
        )
    return _HEADER.size


def records_in(data: bytes, form: RecordFormat) -> Iterator[Record]:
    """Those of a whole file with a header of that format, up to the first that is none."""
    at = _HEADER.size
    while at + form.overhead <= len(data):
        crc, length = _FRAME.unpack_from(data, at)
        place = at + form.overhead
        end = place + length
        if length > form.limit or end > len(data) or zlib.crc32(data[at + 4 : end]) != crc:
            break
        yield Record(at, place, form.fields.unpack_from(data, at + _FRAME.size), data[place:end])
        at = end


def _keep_aside(path: Path, why: str) -> None:
    """Before a file that is damaged is changed. A copy that cannot be made hinders nothing."""
    aside = path.with_name(path.name + ".damaged")
    logger.warning("%s: %s; it is kept as %s", path, why, aside.name)
    with contextlib.suppress(OSError):
        aside.write_bytes(path.read_bytes())
