# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Conversations over real sockets: order, threads, broken connections, peers that misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import eventually
from wire import (
    Caller,
    ConversationEnded,
    ConversationListener,
    Duplex,
    PeerFailed,
    PeerUnreachable,
    Reply,
)
from wire.conversation.duplex import AHEAD_LIMIT, HEADER, PART, FrameKind
from wire.errors import LocalProtocolError, RemoteProtocolError


class Side:
    """Notes what arrives; answers requests with `answer`."""

    def __init__(self, answer: Callable[[bytes], bytes] = lambda payload: b"re:" + payload) -> None:
        self.messages: list[bytes] = []
        self.over: list[str] = []
        self.answer = answer

    def arrived(self, payload: bytes, reply: Reply | None) -> None:
        if reply is None:
            self.messages.append(payload)
        else:
            reply(self.answer(payload))

    def greet(self, received: int) -> bytes:
        return json.dumps(received).encode()

    def welcomed(self, hello: bytes) -> int:
        return int(json.loads(hello))

    def ended(self, why: str) -> None:
        self.over.append(why)


class Server:
    """One conversation at a socket, with whoever calls."""

    def __init__(self, path: Path, side: Side) -> None:
        self.duplex = Duplex("caller", side.arrived)
        self.connections = 0
        self.listener = ConversationListener(path, self.welcome)

    def welcome(self, hello: bytes) -> tuple[bytes, Duplex | None, int]:
        self.connections += 1
        received = self.duplex.pause()
        return json.dumps(received).encode(), self.duplex, int(json.loads(hello))


@contextlib.contextmanager
def conversation(path: Path, here: Side, there: Side) -> Iterator[tuple[Caller, Server]]:
    server = Server(path / "s", there)
    caller = Caller(path / "s", here)
    try:
        yield caller, server
    finally:
        caller.close()
        server.duplex.end("the test is over")
        server.listener.close()


def test_both_sides_ask_and_are_answered(short_path: Path) -> None:
    with conversation(short_path, Side(), Side(bytes.upper)) as (caller, server):
        assert caller.duplex.ask(b"hello") == b"HELLO"
        assert server.duplex.ask(b"you") == b"re:you"
        assert caller.duplex.ask(b"") == b""
        big = os.urandom(5 << 20)
        assert server.duplex.ask(big) == b"re:" + big


def test_replies_come_in_any_order(short_path: Path) -> None:
    held: list[tuple[bytes, Reply]] = []
    there = Side()
    there.arrived = lambda payload, reply: held.append((payload, reply))  # type: ignore[method-assign,arg-type]
    with conversation(short_path, Side(), there) as (caller, _), ThreadPoolExecutor(8) as threads:
        asked = {n: threads.submit(caller.duplex.ask, b"%d" % n) for n in range(8)}
        assert eventually(lambda: len(held) == 8)
        for payload, reply in reversed(held):
            reply(b"=" + payload)
        assert all(asked[n].result(10) == b"=%d" % n for n in range(8))


def test_messages_keep_their_order_among_requests(short_path: Path) -> None:
    there = Side()
    seen: list[bytes] = []

    def arrived(payload: bytes, reply: Reply | None) -> None:
        seen.append(payload)
        if reply:
            reply(b"")

    there.arrived = arrived  # type: ignore[method-assign]
    with conversation(short_path, Side(), there) as (caller, _):
        for n in range(500):
            if n % 7:
                caller.duplex.tell(b"%d" % n)
            else:
                caller.duplex.ask(b"%d" % n)
        caller.duplex.ask(b"500")
        assert seen == [b"%d" % n for n in range(501)]


def test_what_comes_with_a_reply_is_taken_up_before_what_was_sent_after_it(
    short_path: Path,
) -> None:
    seen: list[str] = []
    here, there = Side(), Side()
    here.arrived = lambda payload, reply: seen.append(payload.decode())  # type: ignore[method-assign]
    with conversation(short_path, here, there) as (caller, server):

        def answer(payload: bytes, reply: Reply | None) -> None:
            assert reply
            reply(b"granted")
            server.duplex.post(b"taken back")

        server.duplex._arrived = answer
        for _ in range(100):
            caller.duplex.ask(b"x", arrived=lambda reply: seen.append(reply.decode()))
        assert eventually(lambda: len(seen) == 200)
        assert seen == ["granted", "taken back"] * 100


def test_both_sides_send_more_than_sockets_hold(short_path: Path) -> None:
    """Each reader answers while the other does: neither may wait for the other to read."""
    big = bytes(300_000)
    with (
        conversation(short_path, Side(lambda _: big), Side(lambda _: big)) as (caller, server),
        ThreadPoolExecutor(16) as threads,
    ):
        asked = [threads.submit(side.ask, big) for side in (caller.duplex, server.duplex) * 40]
        assert all(answer.result(60) == big for answer in asked)


def test_a_failure_is_said_to_who_asked_and_to_nobody_else(short_path: Path) -> None:
    def fail(payload: bytes) -> bytes:
        if payload == b"bad":
            raise ValueError("the cause")
        return payload

    with conversation(short_path, Side(), Side(fail)) as (caller, _):
        with pytest.raises(PeerFailed, match="the cause"):
            caller.duplex.ask(b"bad")
        assert caller.duplex.ask(b"good") == b"good"


def test_who_takes_a_reply_and_fails_does_not_break_the_connection(short_path: Path) -> None:
    """An OSError of a callback, of its own disk, say, was taken for the connection's."""

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    with conversation(short_path, Side(), Side()) as (caller, server):
        for _ in range(3):
            assert caller.duplex.ask(b"x", arrived=full) == b"re:x"
        assert caller.duplex.ask(b"y") == b"re:y"
        assert server.connections == 1


def test_nothing_is_lost_or_repeated_when_connections_break(short_path: Path) -> None:
    here, there = Side(), Side()
    with conversation(short_path, here, there) as (caller, server):
        random.seed(5)
        for n in range(300):
            caller.duplex.tell(b"%d" % n)
            server.duplex.tell(b"%d" % n)
            if n % 15 == 5:
                random.choice((caller.duplex, server.duplex)).cut()
            if n % 10 == 0:
                payload = b"%d" % n * 20_000
                assert caller.duplex.ask(payload) == b"re:" + payload
        assert eventually(lambda: len(there.messages) == len(here.messages) == 300)
        assert there.messages == here.messages == [b"%d" % n for n in range(300)]
        assert server.connections > 2
        assert not caller.duplex._calls and len(caller.duplex._kept) < 200


def test_who_asks_without_a_connection_waits_as_long_as_it_wants(short_path: Path) -> None:
    caller = Caller(short_path / "s", Side())
    with pytest.raises(PeerUnreachable):
        caller.duplex.ask(b"x", patience=0.1)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(caller.duplex.ask, b"y")
        server = Server(short_path / "s", Side())
        assert waiting.result(20) == b"re:y"
    caller.close()
    server.duplex.end("")
    server.listener.close()


def test_the_end_is_told_to_all_who_wait(short_path: Path) -> None:
    there = Side()
    there.arrived = lambda payload, reply: None  # type: ignore[method-assign]
    here = Side()
    with conversation(short_path, here, there) as (caller, _), ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(caller.duplex.ask, b"x") for _ in range(4)]
        assert eventually(lambda: len(caller.duplex._calls) == 4)
        caller.close("enough")
        for answer in waiting:
            with pytest.raises(ConversationEnded, match="enough"):
                answer.result(10)
        with pytest.raises(ConversationEnded):
            caller.duplex.tell(b"more")
        assert here.over == ["enough"]


def test_a_refused_hello_ends_the_conversation(short_path: Path) -> None:
    class Refused(Side):
        def welcomed(self, hello: bytes) -> int:
            raise RemoteProtocolError("no", why=hello.decode())

    listener = ConversationListener(short_path / "s", lambda hello: (b"unknown", None, 0))
    here = Refused()
    caller = Caller(short_path / "s", here)
    with pytest.raises(ConversationEnded, match="unknown"):
        caller.duplex.ask(b"x")
    caller.close()
    assert len(here.over) == 1
    listener.close()


def test_a_process_that_is_killed_is_noticed_and_gone_on_without(short_path: Path) -> None:
    code = """
import sys, json
from pathlib import Path
from wire import Duplex, ConversationListener
d = Duplex("caller", lambda payload, reply: reply and reply(payload * 2))
answer = lambda hello: (json.dumps(d.pause()).encode(), d, json.loads(hello))
ConversationListener(Path(sys.argv[1]), answer)
print("up", flush=True)
sys.stdin.read()
"""
    arguments: Any = [sys.executable, "-c", code, str(short_path / "s")]
    here = Side()
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout and first.stdout.readline()
        caller = Caller(short_path / "s", here)
        assert caller.duplex.ask(b"a") == b"aa"
        first.send_signal(signal.SIGKILL)
        first.wait()
    with pytest.raises(PeerUnreachable):
        caller.duplex.ask(b"b", patience=0.2)
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second:
        assert second.stdout and second.stdout.readline()
        # another process knows nothing of this conversation, which says that it has taken a frame
        assert eventually(lambda: here.over != [])
        second.kill()
    caller.close()


def raw(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(path))
    connection.settimeout(10)
    return connection


def greeting() -> bytes:
    return HEADER.pack(1, FrameKind.HELLO, 0, 0) + b"0"


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.builds(
            lambda length, kind, number, taken, rest: (
                greeting() + HEADER.pack(length, kind, number, taken) + rest
            ),
            st.integers(0, 2**32 - 1),
            st.integers(0, 255),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**64 - 1),
            st.binary(max_size=100),
        ),
    )
)
def test_hostile_bytes_end_one_conversation_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = _folder(tmp_path_factory)
    server = Server(folder / "s", Side())
    try:
        with raw(folder / "s") as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while connection.recv(4096):
                    pass
        server.duplex = Duplex("caller", Side().arrived)
        caller = Caller(folder / "s", Side())
        assert caller.duplex.ask(b"well?") == b"re:well?"
        caller.close()
    finally:
        server.duplex.end("")
        server.listener.close()


def _folder(factory: pytest.TempPathFactory) -> Path:
    """Short enough for a socket."""
    return factory.mktemp("d")


@pytest.mark.parametrize(
    "frame",
    [
        HEADER.pack((16 << 20) + 1, FrameKind.MESSAGE, 0, 0),
        HEADER.pack(0, FrameKind.HELLO, 0, 0),
        HEADER.pack(0, 77, 0, 0),
        HEADER.pack(0, FrameKind.MESSAGE, 0, 1),
        HEADER.pack(0, FrameKind.REPLY, 9, 0),
        HEADER.pack(16 << 20, FrameKind.PART, 0, 0)
        + bytes(16 << 20)
        + HEADER.pack(1, FrameKind.PART, 0, 0),
    ],
)
def test_frames_that_are_none_end_the_conversation(short_path: Path, frame: bytes) -> None:
    server = Server(short_path / "s", Side())
    with raw(short_path / "s") as connection:
        connection.sendall(greeting() + frame)
        assert eventually(lambda: server.duplex.ended is not None)
    server.listener.close()


def test_a_peer_that_says_nothing_holds_up_nobody(short_path: Path) -> None:
    server = Server(short_path / "s", Side())
    with raw(short_path / "s"):
        caller = Caller(short_path / "s", Side())
        assert caller.duplex.ask(b"x") == b"re:x"
        caller.close()
    server.duplex.end("")
    server.listener.close()


def test_a_frame_that_is_too_long_is_not_sent(short_path: Path) -> None:
    with conversation(short_path, Side(), Side()) as (caller, _):
        with pytest.raises(LocalProtocolError):
            caller.duplex.ask(bytes((16 << 20) + 1))
        assert caller.duplex.ask(b"x") == b"re:x"


def test_a_peer_that_does_not_read_is_given_up(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wire.conversation.duplex.DROWNED_LIMIT", 4 << 20)
    server = Server(short_path / "s", Side())
    with raw(short_path / "s") as connection:
        connection.sendall(greeting())
        assert eventually(lambda: server.duplex.connected)
        for _ in range(8):
            server.duplex.post(bytes(1 << 20))
        assert server.duplex.ended
    server.listener.close()


def test_frames_have_these_bytes() -> None:
    here, there = socket.socketpair()
    duplex = Duplex("peer", lambda payload, reply: reply and reply(b"ok"))
    reading = threading.Thread(target=duplex.attach, args=(here, 0))
    reading.start()
    with there:
        duplex.post(b"abc")
        assert there.recv(100) == bytes.fromhex("03000000 00 00000000 0000000000000000") + b"abc"
        there.sendall(bytes.fromhex("01000000 01 07000000 0100000000000000") + b"?")
        assert there.recv(100) == bytes.fromhex("02000000 02 07000000 0100000000000000") + b"ok"
    reading.join()
    duplex.end("")
    assert time.monotonic() - duplex.heard < 60


def test_long_frames_are_whole_when_connections_break_within_them(short_path: Path) -> None:
    there = Side()
    content = [random.Random(n).randbytes(3 * PART + n) for n in range(20)]
    with conversation(short_path, Side(), there) as (caller, server):
        assert caller.duplex.ask(b"well?") == b"re:well?"
        for payload in content:
            time.sleep(0.02)
            caller.duplex.tell(payload)
            server.duplex.cut()
        assert caller.duplex.ask(b"all?") == b"re:all?"
        assert there.messages == content
        assert server.connections > 5


def test_a_ping_goes_ahead_of_what_waits(short_path: Path) -> None:
    """Whether the other side hears was known when all had come that was said before."""
    server = Server(short_path / "s", Side())
    with raw(short_path / "s") as connection:
        connection.sendall(greeting())
        assert eventually(lambda: server.duplex.connected)
        for _ in range(4):
            server.duplex.tell(bytes(4 << 20))
        answered = threading.Event()
        server.duplex.ping(answered.set)
        reader, kind, before = connection.makefile("rb"), FrameKind.HELLO, 0
        while kind != FrameKind.PING:
            length, kind, number, _ = HEADER.unpack(reader.read(HEADER.size))
            before += len(reader.read(length))
        assert before < 1 << 20
        assert not answered.is_set()
        connection.sendall(HEADER.pack(0, FrameKind.PONG, number, 0))
        assert answered.wait(10)
        connection.sendall(
            HEADER.pack(0, FrameKind.PONG, number, 0)
        )  # of no ping: nothing comes of it
    server.duplex.end("")
    server.listener.close()


def test_who_pings_and_reads_nothing_has_nothing_kept(short_path: Path) -> None:
    server = Server(short_path / "s", Side())
    with raw(short_path / "s") as connection:
        connection.sendall(greeting())
        for _ in range(200):
            connection.sendall(HEADER.pack(0, FrameKind.PING, 7, 0) * 1000)
        assert eventually(lambda: server.duplex.connected)
        assert len(server.duplex._unwritten) <= AHEAD_LIMIT + 2
    server.duplex.end("")
    server.listener.close()
