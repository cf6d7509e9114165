# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session as a sequence of records: docs/formats/session.md. The same on disk and in a handoff.

What comes from a disk or a peer is refused by IntegrityError where it cannot be meant.
"""

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
class Head:
    """The first record. name: the session's"""

    KIND: ClassVar[int] = 1
    version: int
    name: bytes


@dataclass(frozen=True)
class File:
    """An open file, or another position of it. number: the session's own, as a descriptor; file:
    its id in the share; flags: of its open, without those that make or empty it"""

    KIND: ClassVar[int] = 2
    number: int
    file: int
    flags: int
    position: int
    path: bytes


@dataclass(frozen=True)
class Closed:
    KIND: ClassVar[int] = 3
    number: int


@dataclass(frozen=True)
class Written:
    """What the application was told is written. operation: its number; number: the file's"""

    KIND: ClassVar[int] = 4
    operation: int
    number: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Done:
    """The operation is done, and the file's position is that."""

    KIND: ClassVar[int] = 5
    operation: int
    number: int
    position: int


@dataclass(frozen=True)
class Arrived:
    """Home has all writes up to this operation."""

    KIND: ClassVar[int] = 6
    operation: int


class Kind(IntEnum):
    """Of an operation."""

    OPEN = 1
    CLOSE = 2
    READ = 3
    WRITE = 4
    SEEK = 5
    TRUNCATE = 6
    SYNC = 7


@dataclass(frozen=True)
class Operation:
    """operation: counts from 1, without a gap; number: of the file, in an OPEN the one to give;
    value: bytes to READ, flags of an OPEN, position of a SEEK, size of a TRUNCATE; data: to WRITE,
    or the path of an OPEN. READ and WRITE are at the file's position"""

    KIND: ClassVar[int] = 7
    operation: int
    kind: int
    number: int
    value: int
    data: bytes


@dataclass(frozen=True)
class Answer:
    """error: errno or 0; value: bytes written, or the file's id of an OPEN; position: the file's
    afterwards; arrived: home has all writes up to that operation"""

    KIND: ClassVar[int] = 8
    operation: int
    error: int
    value: int
    position: int
    arrived: int
    data: bytes


Record = Head | File | Closed | Written | Done | Arrived | Operation | Answer

_LAYOUTS: dict[type[Record], struct.Struct] = {
    Head: struct.Struct("<BH"),
    File: struct.Struct("<BIQIQ"),
    Closed: struct.Struct("<BI"),
    Written: struct.Struct("<BQIQ"),
    Done: struct.Struct("<BQIQ"),
    Arrived: struct.Struct("<BQ"),
    Operation: struct.Struct("<BQBIQ"),
    Answer: struct.Struct("<BQIQQQ"),
}
_TYPES = {record.KIND: record for record in _LAYOUTS}
_TAILS = {Head: "name", File: "path", Written: "data", Operation: "data", Answer: "data"}


def pack(record: Record) -> bytes:
    values = dict(vars(record))
    tail = values.pop(_TAILS[type(record)]) if type(record) in _TAILS else b""
    body = _LAYOUTS[type(record)].pack(record.KIND, *values.values()) + tail
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def pack_all(records: Iterable[Record]) -> bytes:
    return b"".join(map(pack, records))


def unpack(data: bytes) -> Iterator[Record]:
    """All of it. Raises IntegrityError where that is not what was packed."""
    at = 0
    while at < len(data):
        record, at = unpack_at(data, at)
        yield record


def unpack_at(data: bytes, at: int) -> tuple[Record, int]:
    """The record there, and where the next one is. Raises IntegrityError."""
    try:
        size, check = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        body = data[at : at + size]
        if not 0 < size <= MOST or len(body) != size or zlib.crc32(body) != check:
            raise ValueError("its checksum is another")
        kind = _TYPES[body[0]]
        layout = _LAYOUTS[kind]
        _, *values = layout.unpack_from(body)
        tail = body[layout.size :]
        if kind in _TAILS:
            values.append(tail)
        elif tail:
            raise ValueError("there is more in it")
        if kind is Operation:
            Kind(values[1])
        return kind(*values), at + size
    except (struct.error, KeyError, ValueError, IndexError) as error:
        raise IntegrityError("a record of a session is none", why=str(error)) from error
