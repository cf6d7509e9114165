# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A file session as a sequence of records: docs/formats/mount-journal.md."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from satchel.errors import IntegrityError

VERSION = 1
MOST = 64 << 20
"""Bytes of a record."""

_FRAME = struct.Struct("<II")


@dataclass(frozen=True)
class Handoff:
    """A session that is prepared to move. session: its records, with the writes that home may
    lack"""

    name: str
    session: bytes


@dataclass(frozen=True)
class SessionHeader:
    """The first record. name: the session's"""

    KIND: ClassVar[int] = 1
    version: int
    name: bytes


@dataclass(frozen=True)
class OpenFileRecord:
    """An open file. number: the session's descriptor of it; file: its id in the share; flags: of
    its open, without those that create or truncate"""

    KIND: ClassVar[int] = 2
    number: int
    file: int
    flags: int
    position: int
    path: bytes


@dataclass(frozen=True)
class BufferedWrite:
    """A write that home may lack. number: the file's"""

    KIND: ClassVar[int] = 4
    number: int
    offset: int
    data: bytes


class OperationKind(IntEnum):
    """The kind of an operation."""

    OPEN = 1
    CLOSE = 2
    READ = 3
    WRITE = 4
    SEEK = 5
    TRUNCATE = 6
    SYNC = 7


@dataclass(frozen=True)
class SessionOperation:
    """A request of the application.

    number: of the file; an OPEN chooses it. value: bytes to READ, flags of an OPEN, position of a
    SEEK, size of a TRUNCATE. data: to WRITE, or the path of an OPEN. READ and WRITE are at the
    file's position. SYNC is fsync(2): home has all writes of the session."""

    KIND: ClassVar[int] = 7
    kind: int
    number: int
    value: int = 0
    data: bytes = b""


@dataclass(frozen=True)
class OperationReply:
    """The result of an operation. error: errno or 0; value: bytes read or written; position: the
    file's afterwards"""

    KIND: ClassVar[int] = 8
    error: int
    value: int
    position: int
    data: bytes


Record = SessionHeader | OpenFileRecord | BufferedWrite | SessionOperation | OperationReply

_LAYOUTS: dict[type[Record], struct.Struct] = {
    SessionHeader: struct.Struct("<BH"),
    OpenFileRecord: struct.Struct("<BIQIQ"),
    BufferedWrite: struct.Struct("<BIQ"),
    SessionOperation: struct.Struct("<BBIQ"),
    OperationReply: struct.Struct("<BIQQ"),
}
_TYPES = {record.KIND: record for record in _LAYOUTS}
_TAILS = {
    SessionHeader: "name",
    OpenFileRecord: "path",
    BufferedWrite: "data",
    SessionOperation: "data",
    OperationReply: "data",
}


def pack(record: Record) -> bytes:
    """Return the record's bytes."""
    values = dict(vars(record))
    tail: bytes = values.pop(_TAILS[type(record)])
    body = _LAYOUTS[type(record)].pack(record.KIND, *values.values()) + tail
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def pack_all(records: Iterable[Record]) -> bytes:
    """Return the bytes of all the records."""
    return b"".join(map(pack, records))


def unpack(data: bytes) -> Iterator[Record]:
    """Yield all records of these bytes. Raise IntegrityError if they are malformed."""
    at = 0
    while at < len(data):
        record, at = _unpack_at(data, at)
        yield record


def _unpack_at(data: bytes, at: int) -> tuple[Record, int]:
    """Return the record there, and the place of the next one."""
    try:
        size, check = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        body = data[at : at + size]
        if not 0 < size <= MOST or len(body) != size or zlib.crc32(body) != check:
            raise ValueError("its checksum is another")
        kind = _TYPES[body[0]]
        layout = _LAYOUTS[kind]
        _, *values = layout.unpack_from(body)
        if kind is SessionOperation:
            OperationKind(values[0])
        values.append(body[layout.size :])
        return kind(*values), at + size
    except (struct.error, KeyError, ValueError, IndexError) as error:
        raise IntegrityError("a record of a session is malformed", why=str(error)) from error
