# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a preloaded program and the node's process say: docs/formats/preload.md.

What comes from a program is refused by IntegrityError where it cannot be meant.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from satchel.errors import IntegrityError
from shares.node import Attributes, Entry

_REQUEST = struct.Struct("<IQqqII")
_REPLY = struct.Struct("<Iiq")
_STATUS = struct.Struct("<QQQQQQqqq")
_ENTRY = struct.Struct("<QBB")

SIZE = struct.Struct("<I")
MOST = 2 << 20
"""Bytes of a request."""


class Op(IntEnum):
    """As shares/preload/line.h has them."""

    OPEN = 1
    READ = 2
    WRITE = 3
    STAT = 4
    STAT_FILE = 5
    FLUSH = 6
    SYNC = 7
    MODE = 8
    OWNER = 9
    SIZE = 10
    TIMES = 11
    LIST = 12
    MAKE_FOLDER = 13
    REMOVE_FOLDER = 14
    UNLINK = 15
    RENAME = 16
    LINK = 17
    SYMLINK = 18
    READ_LINK = 19
    MARK = 20
    LOCK = 21
    ALLOCATE = 22


@dataclass(frozen=True)
class Request:
    """file: its id, or 0 where `path`, below the root, says which"""

    op: Op
    file: int
    first: int
    second: int
    flags: int
    path: bytes
    data: bytes


def unpack(frame: bytes) -> Request:
    """frame: what follows its size."""
    try:
        op, file, first, second, flags, size = _REQUEST.unpack_from(frame)
        kind = Op(op)
    except (struct.error, ValueError) as error:
        raise IntegrityError("a program's request is none", why=str(error)) from error
    at = _REQUEST.size
    if size > len(frame) - at:
        raise IntegrityError("a program's request is none", why=f"a path of {size} bytes")
    path, data = frame[at : at + size], frame[at + size :]
    return Request(kind, file, first, second, flags, path, data)


def reply(value: int = 0, data: bytes = b"", error: int = 0) -> bytes:
    """The whole frame."""
    return _REPLY.pack(_REPLY.size - SIZE.size + len(data), error, value) + data


def status(found: Attributes) -> bytes:
    times = found.accessed, found.modified, found.changed
    return _STATUS.pack(
        found.file, found.mode, found.links, found.uid, found.gid, found.size, *times
    )


def listing(entries: list[Entry]) -> bytes:
    return b"".join(
        _ENTRY.pack(each.attributes.file, each.attributes.mode >> 12 & 15, len(each.name))
        + each.name
        for each in entries
    )
