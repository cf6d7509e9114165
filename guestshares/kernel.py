# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest's kernel may ask of its shares: FUSE requests, checked before a session sees them.

A FUSE library believes its kernel. A guest's kernel is a stranger, so whatever a library would read
from a message is looked at here first: sizes, names that end, data that is as long as it says.
What a share has no operation for is refused as unknown, and a kernel does without.
Layouts are those of linux/fuse.h, protocol 7.31 and later.
"""

from __future__ import annotations

import enum
import errno
import struct
from dataclasses import dataclass

from satchel.errors import IntegrityError

MESSAGE_LIMIT = (1 << 20) + 4096
"""Bytes of a request or a reply."""

DATA_LIMIT = 1 << 20
NAME_LIMIT = 255
TARGET_LIMIT = 4095

IN_HEADER = struct.Struct("<IIQQIIII")
"""fuse_in_header: length, opcode, unique, file, user, group, process, padding."""

OUT_HEADER = struct.Struct("<IiQ")
"""fuse_out_header: length, -errno or 0, unique."""

INTERRUPT_BIT = 1
"""Set in the unique number of a FUSE_INTERRUPT."""


class Opcode(enum.IntEnum):
    """What is passed on to a session; and DESTROY, which is not."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    GETLK = 31
    SETLK = 32
    SETLKW = 33
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    READDIRPLUS = 44
    RENAME2 = 45


SILENT = (Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT)
"""Requests that have no reply; an INTERRUPT may have one."""


class ShareMessageInvalid(IntegrityError):
    """The bytes on the port of the shares are not a message of a kernel."""

    def __init__(self, why: str) -> None:
        super().__init__("the guest's port of the shares makes no sense", why=why)


@dataclass(frozen=True)
class KernelRequest:
    """A message with its header read."""

    opcode: int
    unique: int
    message: bytes

    @property
    def file(self) -> int:
        """The node id of what it is about."""
        return int(IN_HEADER.unpack_from(self.message)[3])

    @property
    def silent(self) -> bool:
        """Whether nobody waits for a reply."""
        return self.opcode in SILENT

    @property
    def cost(self) -> int:
        """Bytes that it and its reply are at most, give or take a hundred."""
        body = memoryview(self.message)[IN_HEADER.size :]
        reads = self.opcode in _READING and len(body) >= _SIZE_OFFSET + 4
        size = int(struct.unpack_from("<I", body, _SIZE_OFFSET)[0]) if reads else 0
        return len(self.message) + min(size, DATA_LIMIT)

    @classmethod
    def parse(cls, message: bytes) -> KernelRequest:
        """Raises ShareMessageInvalid where its length is not what it says."""
        if not IN_HEADER.size <= len(message) <= MESSAGE_LIMIT:
            raise ShareMessageInvalid(f"a request has {len(message)} bytes")
        length, opcode, unique, *_ = IN_HEADER.unpack_from(message)
        if length != len(message):
            raise ShareMessageInvalid(f"a request of {len(message)} bytes says {length}")
        return cls(opcode, unique, message)

    def refusal(self) -> int:
        """The errno to answer with, because no session may see it; 0: one may."""
        shape = _SHAPES.get(self.opcode)
        if shape is None:
            return errno.ENOSYS
        fixed, names = shape
        body = memoryview(self.message)[IN_HEADER.size :]
        if len(body) < fixed or not _sizes_agree(self.opcode, body):
            return errno.EINVAL
        return 0 if _names_end(self.opcode, bytes(body[fixed:]), names) else errno.EINVAL


def error_reply(unique: int, code: int) -> bytes:
    """What answers a request with an errno, or with 0 and nothing else."""
    return OUT_HEADER.pack(OUT_HEADER.size, -code, unique)


_SHAPES: dict[int, tuple[int, int]] = {
    Opcode.LOOKUP: (0, 1),
    Opcode.FORGET: (8, 0),
    Opcode.GETATTR: (16, 0),
    Opcode.SETATTR: (88, 0),
    Opcode.READLINK: (0, 0),
    Opcode.SYMLINK: (0, 2),
    Opcode.MKNOD: (16, 1),
    Opcode.MKDIR: (8, 1),
    Opcode.UNLINK: (0, 1),
    Opcode.RMDIR: (0, 1),
    Opcode.RENAME: (8, 2),
    Opcode.LINK: (8, 1),
    Opcode.OPEN: (8, 0),
    Opcode.READ: (40, 0),
    Opcode.WRITE: (40, 0),
    Opcode.STATFS: (0, 0),
    Opcode.RELEASE: (24, 0),
    Opcode.FSYNC: (16, 0),
    Opcode.FLUSH: (24, 0),
    Opcode.INIT: (64, 0),
    Opcode.OPENDIR: (8, 0),
    Opcode.READDIR: (40, 0),
    Opcode.RELEASEDIR: (24, 0),
    Opcode.FSYNCDIR: (16, 0),
    Opcode.GETLK: (48, 0),
    Opcode.SETLK: (48, 0),
    Opcode.SETLKW: (48, 0),
    Opcode.ACCESS: (8, 0),
    Opcode.CREATE: (16, 1),
    Opcode.INTERRUPT: (8, 0),
    Opcode.BATCH_FORGET: (8, 0),
    Opcode.FALLOCATE: (32, 0),
    Opcode.READDIRPLUS: (40, 0),
    Opcode.RENAME2: (16, 2),
}
"""Bytes before the names, and how many names."""

_READING = (Opcode.READ, Opcode.READDIR, Opcode.READDIRPLUS)

_SIZE_OFFSET = 16
"""Of `size` in fuse_read_in and fuse_write_in."""

_FORGET_ONE = 16


def _sizes_agree(opcode: int, body: memoryview) -> bool:
    if opcode in (*_READING, Opcode.WRITE):
        size = int(struct.unpack_from("<I", body, _SIZE_OFFSET)[0])
        return size <= DATA_LIMIT and (opcode != Opcode.WRITE or len(body) == 40 + size)
    if opcode == Opcode.BATCH_FORGET:
        count = int(struct.unpack_from("<I", body)[0])
        return len(body) == 8 + count * _FORGET_ONE
    return True


def _names_end(opcode: int, rest: bytes, names: int) -> bool:
    if not names:
        return True
    *words, tail = rest.split(b"\0")
    if tail or len(words) != names:
        return False
    target = words.pop() if opcode == Opcode.SYMLINK else b"."
    named = all(0 < len(word) <= NAME_LIMIT and b"/" not in word for word in words)
    return named and 0 < len(target) <= TARGET_LIMIT
