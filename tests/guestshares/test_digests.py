# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two replicas of one guest ask the same of their shares in other words; another call differs."""

import os
import struct

import pytest

from guestshares.digests import call_digest, changes
from guestshares.kernel import IN_HEADER, KernelRequest, Opcode

ATIME, MTIME, ATIME_NOW, MTIME_NOW = 1 << 4, 1 << 5, 1 << 7, 1 << 8


def request(
    opcode: int, body: bytes, *, unique: int = 8, pid: int = 7, file: int = 1
) -> KernelRequest:
    length = IN_HEADER.size + len(body)
    return KernelRequest.parse(IN_HEADER.pack(length, opcode, unique, file, 33, 33, pid, 0) + body)


def write(
    *, offset: int = 0, owner: int = 0, flags: int = os.O_WRONLY, data: bytes = b"x"
) -> bytes:
    return struct.pack("<QQIIQII", 1, offset, len(data), 2, owner, flags, 0) + data


def read(owner: int) -> bytes:
    return struct.pack("<QQIIQII", 1, 0, 9, 2, owner, 0, 0)


def times(valid: int, now: int) -> bytes:
    whole, part = divmod(now, 1000)
    return struct.pack(
        "<IIQQQQQQIIIIIIII", valid, 0, 1, 0, 0, whole, whole, whole, part, part, part, *[0] * 5
    )


def lock(owner: int, pid: int, end: int = 9) -> bytes:
    return struct.pack("<QQQQIIII", 1, owner, 0, end, 1, pid, 0, 0)


@pytest.mark.parametrize(
    ("opcode", "here", "there"),
    [
        (Opcode.LOOKUP, b"a\0", b"a\0"),
        (Opcode.WRITE, write(owner=1), write(owner=2)),
        (
            Opcode.WRITE,
            write(offset=5, flags=os.O_WRONLY | os.O_APPEND),
            write(offset=9, flags=os.O_WRONLY | os.O_APPEND),
        ),
        (Opcode.READ, read(owner=1), read(owner=2)),
        (Opcode.FLUSH, struct.pack("<QIIQ", 1, 0, 0, 1), struct.pack("<QIIQ", 1, 0, 0, 2)),
        (Opcode.SETLK, lock(1, 1), lock(2, 2)),
        (
            Opcode.SETATTR,
            times(ATIME | MTIME | ATIME_NOW | MTIME_NOW, 5_001),
            times(ATIME | MTIME | ATIME_NOW | MTIME_NOW, 6_002),
        ),
    ],
)
def test_what_replicas_differ_in_is_not_in_a_digest(opcode: int, here: bytes, there: bytes) -> None:
    first = call_digest(request(opcode, here, unique=8, pid=7))
    assert first == call_digest(request(opcode, there, unique=10, pid=9))
    assert first != call_digest(request(opcode, here, file=2))


@pytest.mark.parametrize(
    ("opcode", "here", "there"),
    [
        (Opcode.LOOKUP, b"a\0", b"b\0"),
        (Opcode.WRITE, write(data=b"x"), write(data=b"y")),
        (Opcode.WRITE, write(offset=5), write(offset=9)),
        (Opcode.SETLK, lock(1, 1), lock(1, 1, end=10)),
        (Opcode.SETATTR, times(ATIME | MTIME, 5_001), times(ATIME | MTIME, 6_002)),
        (Opcode.UNLINK, b"a\0", b"b\0"),
    ],
)
def test_another_call_has_another_digest(opcode: int, here: bytes, there: bytes) -> None:
    assert call_digest(request(opcode, here)) != call_digest(request(opcode, there))


def test_the_same_body_with_another_opcode_is_another_call() -> None:
    assert call_digest(request(Opcode.LOOKUP, b"a\0")) != call_digest(
        request(Opcode.UNLINK, b"a\0")
    )


@pytest.mark.parametrize(
    ("flags", "whether"),
    [
        (os.O_RDONLY, False),
        (os.O_WRONLY, True),
        (os.O_RDWR, True),
        (os.O_RDONLY | os.O_TRUNC, True),
    ],
)
def test_an_open_that_writes_changes(flags: int, whether: bool) -> None:
    assert changes(request(Opcode.OPEN, struct.pack("<II", flags, 0))) == whether
