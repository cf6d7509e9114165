# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest's kernel is a stranger: what it asks of its shares is looked at before a session does."""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guestshares import ShareMessageInvalid, SharesLine
from guestshares.kernel import IN_HEADER, KernelRequest, Opcode
from tests.waiting import eventually

MARK = bytes(range(16))
LOOKUP = bytes.fromhex(
    "2a000000 01000000 0800000000000000 0100000000000000 21000000 21000000 07000000 00000000 6100"
)
GONE = bytes.fromhex("10000000 feffffff 0800000000000000")


def message(opcode: int, body: bytes, unique: int = 8) -> bytes:
    return IN_HEADER.pack(40 + len(body), opcode, unique, 1, 33, 33, 7, 0) + body


def record(payload: bytes, kind: int = 2, operation: int = 5) -> bytes:
    return struct.pack("<IHHQ", len(payload), kind, 0, operation) + payload


@contextlib.contextmanager
def line() -> Iterator[tuple[SharesLine, socket.socket]]:
    """A line whose guest is a socket of the test's, and that socket behind both marks."""
    host, guest = socket.socketpair()
    made = SharesLine(host, MARK, "test")
    made.session.settimeout(10)
    guest.settimeout(10)
    try:
        made.start()
        guest.sendall(b"what was said to somebody else" + MARK)
        assert guest.recv(16, socket.MSG_WAITALL) == MARK
        yield made, guest
    finally:
        made.close()
        made.session.close()
        guest.close()


def test_the_bytes_of_the_example() -> None:
    assert message(Opcode.LOOKUP, b"a\0") == LOOKUP
    with line() as (made, guest):
        guest.sendall(bytes.fromhex("2a000000 02000000 0500000000000000") + LOOKUP)
        assert made.session.recv(42, socket.MSG_WAITALL) == LOOKUP
        made.session.sendall(GONE)
        assert guest.recv(16, socket.MSG_WAITALL) == GONE


@pytest.mark.parametrize(
    ("opcode", "body", "code"),
    [
        (Opcode.LOOKUP, b"a\0", 0),
        (Opcode.LOOKUP, b"a", errno.EINVAL),
        (Opcode.LOOKUP, b"\0", errno.EINVAL),
        (Opcode.LOOKUP, b"../a\0", errno.EINVAL),
        (Opcode.LOOKUP, b"a\0b\0", errno.EINVAL),
        (Opcode.LOOKUP, b"a" * 256 + b"\0", errno.EINVAL),
        (Opcode.RENAME2, bytes(16) + b"a\0b\0", 0),
        (Opcode.RENAME2, bytes(16) + b"a\0b", errno.EINVAL),
        (Opcode.RENAME2, bytes(16) + b"a\0", errno.EINVAL),
        (Opcode.SYMLINK, b"a\0/etc/passwd\0", 0),
        (Opcode.SYMLINK, b"/a\0b\0", errno.EINVAL),
        (Opcode.SYMLINK, b"a\0" + b"b" * 4096 + b"\0", errno.EINVAL),
        (Opcode.CREATE, bytes(15), errno.EINVAL),
        (Opcode.WRITE, struct.pack("<QQIIQII", 1, 0, 3, 0, 0, 0, 0) + b"abc", 0),
        (Opcode.WRITE, struct.pack("<QQIIQII", 1, 0, 4, 0, 0, 0, 0) + b"abc", errno.EINVAL),
        (Opcode.READ, struct.pack("<QQIIQII", 1, 0, 1 << 20, 0, 0, 0, 0), 0),
        (Opcode.READ, struct.pack("<QQIIQII", 1, 0, 0xFFFFFFFF, 0, 0, 0, 0), errno.EINVAL),
        (Opcode.READDIR, struct.pack("<QQIIQII", 1, 0, 1 << 21, 0, 0, 0, 0), errno.EINVAL),
        (Opcode.BATCH_FORGET, struct.pack("<II", 2, 0) + bytes(32), 0),
        (Opcode.BATCH_FORGET, struct.pack("<II", 3, 0) + bytes(32), errno.EINVAL),
        (Opcode.BATCH_FORGET, struct.pack("<II", 1 << 28, 0) + bytes(32), errno.EINVAL),
        (Opcode.FALLOCATE, bytes(32), 0),
        (Opcode.FALLOCATE, bytes(31), errno.EINVAL),
        (Opcode.INIT, bytes(16), errno.EINVAL),
        (Opcode.SETLKW, bytes(47), errno.EINVAL),
        (21, b"", errno.ENOSYS),
        (39, bytes(32), errno.ENOSYS),
        (4096, bytes(104), errno.ENOSYS),
        (0, b"", errno.ENOSYS),
    ],
)
def test_a_request_is_whole_or_refused(opcode: int, body: bytes, code: int) -> None:
    assert KernelRequest.parse(message(opcode, body)).refusal() == code


def test_what_is_refused_is_answered_and_no_session_sees_it() -> None:
    with line() as (made, guest):
        guest.sendall(record(message(Opcode.LOOKUP, b"a")))
        assert struct.unpack("<IiQ", guest.recv(16, socket.MSG_WAITALL)) == (16, -errno.EINVAL, 8)
        guest.sendall(record(message(Opcode.FORGET, b"")))
        guest.sendall(record(message(Opcode.DESTROY, b"", unique=10)))
        assert struct.unpack("<IiQ", guest.recv(16, socket.MSG_WAITALL)) == (16, 0, 10)
        guest.sendall(record(LOOKUP))
        assert made.session.recv(1000) == LOOKUP


@pytest.mark.parametrize(
    "garbage",
    [
        record(LOOKUP[:39]),
        record(LOOKUP + b"x"),
        record(LOOKUP, kind=3),
        record(LOOKUP, kind=0),
        record(b"", kind=1),
        record(LOOKUP + GONE, kind=1),
        record(LOOKUP) + record(LOOKUP + GONE, kind=1),
        struct.pack("<IHHQ", 0xFFFFFFFF, 2, 0, 0),
        struct.pack("<IHHQ", 42, 2, 1, 0) + LOOKUP,
    ],
)
def test_garbage_ends_the_line_and_says_why(garbage: bytes) -> None:
    with line() as (made, guest):
        guest.sendall(garbage)
        assert eventually(lambda: made.failure is not None)
        assert "makes no sense" in str(made.failure)
        assert guest.recv(100) == b""


@given(st.binary(max_size=300), st.integers(0, 60))
def test_any_bytes_are_a_request_or_refused(body: bytes, opcode: int) -> None:
    assert KernelRequest.parse(message(opcode, body)).refusal() in (0, errno.EINVAL, errno.ENOSYS)
    with contextlib.suppress(ShareMessageInvalid):
        KernelRequest.parse(body)
