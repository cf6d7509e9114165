# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions for a kernel elsewhere: this end plays the relay, with messages by hand."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shares.fuse import NOTIFIED, RelayedSession
from tests.shares.fuse.passthrough import Passthrough
from tests.waiting import eventually

LOOKUP, FORGET, GETATTR, MKDIR, OPEN, READ, WRITE, RELEASE = 1, 2, 3, 9, 14, 15, 16, 18
INIT, INTERRUPT, BATCH_FORGET = 26, 36, 42
FIRST = struct.pack("<4I", 7, 38, 1 << 17, 0)
_HEAD = struct.Struct("<IIQQIIII")
_OUT = struct.Struct("<IiQ")


class Relay:
    """The other end of a session."""

    def __init__(self, session: RelayedSession, near: socket.socket) -> None:
        self.session = session
        self.near = near
        self.unique = 0
        self._thread = threading.Thread(target=session.run)
        self._thread.start()

    def ends(self) -> bool:
        """Close the session; return whether its thread ends."""
        self.session.close()
        self._thread.join(60)
        return not self._thread.is_alive()

    def send(self, opcode: int, body: bytes = b"", file: int = 1, unique: int | None = None) -> int:
        if unique is None:
            self.unique += 2
            unique = self.unique
        length = _HEAD.size + len(body)
        self.near.sendall(_HEAD.pack(length, opcode, unique, file, 0, 0, 1, 0) + body)
        return unique

    def receive(self) -> tuple[int, int, bytes]:
        """errno, unique, body."""
        length, error, unique = _OUT.unpack(self._read(_OUT.size))
        return -error, unique, self._read(length - _OUT.size)

    def ask(self, opcode: int, body: bytes = b"", file: int = 1) -> tuple[int, bytes]:
        unique = self.send(opcode, body, file)
        error, answered, reply = self.receive()
        assert answered == unique
        return error, reply

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.near.recv(size - len(data))
            assert piece
            data += piece
        return data


Start = Callable[..., Relay]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Sessions of `tmp_path`, each with its end of a relay."""
    made: list[Relay] = []

    def one(tree: Passthrough | None = None, **options: object) -> Relay:
        near, far = socket.socketpair()
        near.settimeout(60)
        with far:
            chosen = tree or Passthrough(tmp_path)
            session = RelayedSession(chosen, far.fileno(), **options)  # type: ignore[arg-type]
        made.append(Relay(session, near))
        return made[-1]

    yield one
    ended = [relay.ends() for relay in made]
    for relay in made:
        relay.near.close()
    assert all(ended)


def node_of(entry: bytes) -> int:
    return int.from_bytes(entry[:8], "little")


def test_a_session_is_served_over_a_stream(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    relay = start()
    error, reply = relay.ask(INIT, FIRST)
    assert (error, struct.unpack_from("<II", reply)[0]) == (0, 7)
    assert relay.session.init[_HEAD.size :] == FIRST
    error, entry = relay.ask(LOOKUP, b"file\0")
    opened = relay.ask(OPEN, struct.pack("<II", os.O_RDONLY, 0), node_of(entry))[1]
    body = struct.pack("<QQIIQII", int.from_bytes(opened[:8], "little"), 3, 100, 0, 0, 0, 0)
    assert relay.ask(READ, body, node_of(entry)) == (0, b"tent")
    assert relay.ask(LOOKUP, b"missing\0")[0] == errno.ENOENT


def test_another_session_goes_on_without_a_second_init(start: Start, tmp_path: Path) -> None:
    """The guest was resumed elsewhere: its kernel has had its INIT, and has a file open."""
    (tmp_path / "file").write_bytes(b"content")
    tree = Passthrough(tmp_path)
    first = start(tree)
    first.ask(INIT, FIRST)
    entry = first.ask(LOOKUP, b"file\0")[1]
    opened = first.ask(OPEN, struct.pack("<II", os.O_RDONLY, 0), node_of(entry))[1]
    init = first.session.init
    first.session.close()
    second = start(tree, init=init)
    body = struct.pack("<QQIIQII", int.from_bytes(opened[:8], "little"), 0, 100, 0, 0, 0, 0)
    assert second.ask(READ, body, node_of(entry)) == (0, b"content")
    assert second.session.init == init
    assert second.ask(INIT, FIRST)[0] == errno.EINVAL
    with pytest.raises(ValueError, match="INIT"):
        RelayedSession(tree, second.near.fileno(), b"x" * 60)


def test_nothing_comes_before_init(start: Start) -> None:
    relay = start()
    assert relay.ask(LOOKUP, b"file\0")[0] == errno.EINVAL
    assert relay.ask(INIT, FIRST)[0] == 0


@pytest.mark.parametrize(
    ("opcode", "body"),
    [
        (LOOKUP, b"no end"),
        (LOOKUP, b"\0"),
        (LOOKUP, b"a/b\0"),
        (LOOKUP, b"..\0"),
        (LOOKUP, b"two\0names\0"),
        (LOOKUP, b"x" * 256 + b"\0"),
        (MKDIR, struct.pack("<II", 0o700, 0) + b"name"),
        (MKDIR, b"\0" * 7),
        (GETATTR, b""),
        (READ, struct.pack("<QQIIQII", 1, 0, (1 << 20) + 1, 0, 0, 0, 0)),
        (READ, struct.pack("<QQIIQII", 1, 1 << 63, 1, 0, 0, 0, 0)),
        (WRITE, struct.pack("<QQIIQII", 1, 0, 100, 0, 0, 0, 0) + b"x" * 99),
        (WRITE, struct.pack("<QQIIQII", 1, 0, 0xFFFFFFFF, 0, 0, 0, 0)),
        (FORGET, b""),
        (BATCH_FORGET, struct.pack("<II", 1 << 31, 0)),
        (INTERRUPT, b"\0" * 4),
        (INIT, FIRST),
    ],
)
def test_what_does_not_hold_together_is_refused(start: Start, opcode: int, body: bytes) -> None:
    relay = start()
    relay.ask(INIT, FIRST)
    assert relay.ask(opcode, body)[0] == errno.EINVAL
    assert relay.session.refused == 1
    assert relay.ask(LOOKUP, b"missing\0")[0] == errno.ENOENT


@pytest.mark.parametrize("length", [0, 39, (1 << 20) + 4097, 0xFFFFFFFF])
def test_a_length_that_cannot_be_ends_the_session(start: Start, length: int) -> None:
    relay = start()
    relay.near.sendall(_HEAD.pack(length, LOOKUP, 2, 1, 0, 0, 1, 0))
    assert relay.near.recv(1) == b""


def test_unknown_requests_are_said_to_be_unknown(start: Start) -> None:
    relay = start()
    relay.ask(INIT, FIRST)
    assert relay.ask(39, b"\0" * 32)[0] == errno.ENOSYS
    assert relay.ask(0x7FFFFFFF)[0] == errno.ENOSYS


def test_random_messages_break_nothing(start: Start, tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    relay = start(Passthrough(tmp_path / "behind"))
    relay.ask(INIT, FIRST)
    chance = random.Random(6)

    def drop() -> None:
        with contextlib.suppress(ConnectionResetError):
            while piece := relay.near.recv(1 << 20):
                answers.append(piece)

    answers: list[bytes] = []
    reader = threading.Thread(target=drop)
    reader.start()
    for unique in range(1, 4000):
        body = bytearray(chance.randbytes(chance.choice((0, 4, 8, 16, 24, 40, 48, 64, 88, 200))))
        for _ in range(chance.randrange(4)):
            if body:
                body[chance.randrange(len(body)) :] = b"\0" * 9
        opcode = chance.randrange(0, 54)
        if opcode != INIT:
            relay.send(opcode, bytes(body), chance.choice((0, 1, 2, 1 << 40)), unique * 2)
    assert relay.ends()
    reader.join()
    assert answers


def test_draining_waits_for_answers_and_takes_no_more(start: Start, tmp_path: Path) -> None:
    going = threading.Event()

    class Slow(Passthrough):
        def read_link(self, file: int) -> bytes:
            going.wait(60)
            return b"target"

    relay = start(Slow(tmp_path))
    relay.ask(INIT, FIRST)

    def busy() -> bool:
        drained = relay.session.drain(0.01)
        relay.session.resume()
        return not drained

    slow = relay.send(5)
    assert eventually(busy)
    going.set()
    assert relay.session.drain(30)
    assert relay.receive() == (0, slow, b"target")
    later = relay.send(LOOKUP, b"missing\0")
    relay.near.settimeout(0.2)
    with pytest.raises(TimeoutError):
        relay.near.recv(1)
    relay.near.settimeout(60)
    relay.session.resume()
    assert relay.receive() == (errno.ENOENT, later, b"")
    relay.near.sendall(b"\x2c")
    assert eventually(busy)


def test_a_notification_waits_until_the_kernel_has_taken_it(start: Start) -> None:
    relay = start(notified=True)
    relay.ask(INIT, FIRST)
    done = threading.Event()

    def invalidate() -> None:
        relay.session.invalidate(7, 4096, 100)
        done.set()

    thread = threading.Thread(target=invalidate)
    thread.start()
    code, unique, body = relay.receive()
    assert (code, unique, struct.unpack("<Qqq", body)) == (-2, 0, (7, 4096, 100))
    relay.send(NOTIFIED, unique=2)
    relay.send(NOTIFIED, unique=0)
    assert not done.wait(0.1)
    relay.send(NOTIFIED, unique=1)
    thread.join()


def test_a_relay_that_tells_nothing_is_told_nothing(start: Start) -> None:
    relay = start()
    relay.ask(INIT, FIRST)
    with pytest.raises(OSError) as refused:
        relay.session.invalidate(7)
    assert refused.value.errno == errno.ENOTSUP


def test_a_guest_that_does_not_read_does_not_keep_a_session(start: Start, tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number:0200}").touch()
    relay = start()
    relay.ask(INIT, FIRST)
    opened = relay.ask(27, struct.pack("<II", 0, 0))[1][:8]
    for _ in range(40):
        body = opened + struct.pack("<QIIQII", 0, 1 << 16, 0, 0, 0, 0)
        relay.send(28, body)
    assert relay.ends()
