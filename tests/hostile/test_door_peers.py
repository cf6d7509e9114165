# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Both ends of a link against one that sends anything."""

from __future__ import annotations

import socket
import threading

from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.errors import UnavailableError
from tests.hostile.test_parsers import EXAMPLES
from wire import RemoteProtocolError
from wire.link.multiplex import (
    DROWNED,
    HEADER,
    HELLO,
    MAGIC,
    PIECE,
    VERSION,
    WINDOW,
    Multiplexer,
    MuxKind,
)

FEWER = max(30, EXAMPLES // 10)

GREETING = HELLO.pack(MAGIC, VERSION, VERSION)

kinds = st.sampled_from([*MuxKind, *MuxKind, *MuxKind, 0, 11, 255])
numbers = st.one_of(st.integers(0, 9), st.sampled_from([2**31, 2**32 - 1]))
payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"echo", b"echo", b"mute", b"/etc/passwd", bytes(PIECE), b"\xff\xff\xff\xff"]),
)
frames = st.builds(lambda k, n, p: HEADER.pack(k, n, len(p)) + p, kinds, numbers, payloads)
lies = st.builds(HEADER.pack, kinds, numbers, st.integers(0, 2**32 - 1))
conversations = st.builds(
    lambda parts, rest: GREETING + b"".join(parts) + rest,
    st.lists(frames, max_size=60),
    st.one_of(st.just(b""), lies, st.binary(max_size=60)),
)


class Side:
    """One end, which leads to a socket that echoes and one that nobody reads."""

    def __init__(self, opens: int) -> None:
        self.asked: list[str] = []
        self.kept: list[socket.socket] = []
        self.peer, mine = socket.socketpair()
        pipe = mine.detach()
        self.streams = Multiplexer(
            pipe, pipe, opens=opens, connect=self._connect, asked=lambda kind, payload: None
        )

    def _connect(self, name: str) -> socket.socket:
        self.asked.append(name)
        if name not in ("echo", "mute"):
            raise UnavailableError("no")
        one, other = socket.socketpair()
        if name == "mute":
            self.kept.append(other)
        else:
            threading.Thread(target=_echo, args=(other,), daemon=True).start()
        return one

    def hears(self, said: bytes) -> None:
        """Run it with that, and look what it does meanwhile and what is left."""
        thread = threading.Thread(target=self.streams.run)
        thread.start()
        reading = threading.Thread(target=_drain, args=(self.peer,))
        reading.start()
        with self.peer:
            try:
                self.peer.sendall(said)
                self.peer.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it hung up
            thread.join(30)
            assert not thread.is_alive()
            reading.join(30)
        for one in self.kept:
            one.close()


def _echo(end: socket.socket) -> None:
    with end:
        try:
            while piece := end.recv(4096):
                end.sendall(piece)
        except OSError:
            pass


def _drain(end: socket.socket) -> None:
    try:
        while end.recv(1 << 16):
            pass
    except OSError:
        pass


@given(opens=st.sampled_from([1, 2]), said=st.one_of(conversations, st.binary(max_size=200)))
@settings(max_examples=FEWER, deadline=None)
@example(
    opens=2,
    said=GREETING
    + HEADER.pack(MuxKind.OPEN, 1, 4)
    + b"mute"
    + b"".join(
        HEADER.pack(MuxKind.DATA, 1, PIECE) + bytes(PIECE) for _ in range(WINDOW // PIECE + 5)
    ),
)
@example(opens=2, said=GREETING + HEADER.pack(MuxKind.DATA, 1, 2**32 - 1))
@example(opens=2, said=GREETING + HEADER.pack(MuxKind.OPEN, 2, 4) + b"echo")
def test_a_multiplexer_ends_in_good_order_whatever_comes(opens: int, said: bytes) -> None:
    side = Side(opens)
    side.hears(said)
    failure = side.streams.failure
    assert failure is None or isinstance(failure, RemoteProtocolError)
    assert all(len(name) <= 300 for name in side.asked)


def test_what_nobody_reads_is_bounded() -> None:
    """Many streams to a socket that takes nothing: each keeps a window at most, then all end."""
    side = Side(2)
    opened = b"".join(HEADER.pack(MuxKind.OPEN, n, 4) + b"mute" for n in range(1, 9, 2))
    piece = b"".join(
        HEADER.pack(MuxKind.DATA, n, PIECE) + bytes(PIECE)
        for _ in range(WINDOW // PIECE + 20)
        for n in range(1, 9, 2)
    )
    side.hears(GREETING + opened + piece)
    assert isinstance(side.streams.failure, RemoteProtocolError)
    assert "window" in side.streams.failure.why


def test_who_never_reads_is_not_listened_to() -> None:
    """A flood of what is refused: the answers wait, and with them whoever sends."""
    side = Side(2)
    thread = threading.Thread(target=side.streams.run)
    thread.start()
    frame = b"".join(HEADER.pack(MuxKind.OPEN, n, 1) + b"/" for n in range(1, 200_001, 2))
    side.peer.settimeout(3)
    sent = 0
    try:
        side.peer.sendall(GREETING)
        for at in range(0, len(frame), PIECE):
            sent += side.peer.send(frame[at : at + PIECE])
    except TimeoutError:
        pass
    assert len(side.streams._out) <= DROWNED + (1 << 20) * 10
    side.peer.close()
    thread.join(30)
    assert not thread.is_alive()
