# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Streams between programs and a service, through a real agent, while carriers come and go.

The agent is a process of this host, and the service real TCP servers. What reaches the agent is cut
at any byte, as a move does it.
"""

import contextlib
import hashlib
import random
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replay import AgentChannel, StreamRelay
from replay.stream_records import (
    PAYLOAD_LIMIT,
    RecordReader,
    StreamEntry,
    StreamRecord,
    StreamRecordInvalid,
    decode_hello,
    encode,
    encode_hello,
    encode_window,
)
from replica.door import StreamDoor
from tests.replay.agents import running_agent
from tests.waiting import PATIENCE_SECONDS, eventually

WAITS = PATIENCE_SECONDS

BUFFER = 256 << 10
"""What kernels keep of a program's connection, so that it is the same on every machine."""


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets, and ends when the program does."""

    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


class Source(socketserver.BaseRequestHandler):
    """Sends as many bytes as it is asked for, and ends."""

    def handle(self) -> None:
        count = struct.unpack("<Q", self.request.recv(8, socket.MSG_WAITALL))[0]
        self.request.sendall(pattern(count))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def pattern(count: int) -> bytes:
    return random.Random(count).randbytes(count)


class Guest:
    """An agent with streams to these ports; its door; a relay to it."""

    def __init__(self, folder: Path, agent: AgentChannel, relay: StreamRelay) -> None:
        self.port_path = folder / "streams"
        self.door_path = folder / "door"
        self.agent = agent
        self.relay = relay
        self.lost = threading.Event()
        self.door = StreamDoor(self.door_path, self.port_path, agent.attach_streams)

    def attach(self) -> socket.socket:
        carrier = self.carrier()
        self.relay.attach(carrier)
        return carrier

    def carrier(self) -> socket.socket:
        carrier = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        carrier.connect(bytes(self.door_path))
        return carrier

    def stream(self, port: int) -> socket.socket:
        """A program's end of a TCP connection whose other end the relay has."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            program = socket.socket()
            program.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            program.connect(listener.getsockname())
            local, _ = listener.accept()
            local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        program.settimeout(WAITS)
        self.relay.adopt(local, port)
        return program


@contextmanager
def guest(folder: Path, *ports: int) -> Iterator[Guest]:
    lost = threading.Event()
    relay = StreamRelay("test", lambda why: lost.set())
    words = " ".join(map(str, ports))
    more = ("--streams", folder / "streams")
    with (
        running_agent(folder, "exec sleep 1000", more, port="", streams=words) as running,
        running.connect() as agent,
    ):
        agent.hello()
        made = Guest(folder, agent, relay)
        made.lost = lost
        try:
            yield made
        finally:
            relay.close()
            made.door.close()


def receive(program: socket.socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count and (piece := program.recv(min(1 << 16, count - len(got)))):
        got += piece
    return bytes(got)


def until_silent(program: socket.socket) -> bytes:
    """Return the bytes that had left before, on a loaded host also those that come after a pause.
    A connection that never falls silent comes to its end."""
    got, silent = bytearray(), 0
    program.settimeout(0.2)
    while silent < 2:
        try:
            piece = program.recv(1 << 16)
        except TimeoutError:
            silent += 1
        else:
            assert piece, "all bytes came from a frozen machine"
            got, silent = got + piece, 0
    return bytes(got)


def send_in_thread(program: socket.socket, data: bytes) -> threading.Thread:
    def send() -> None:
        program.sendall(data)
        program.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def test_bytes_go_both_ways_and_each_direction_ends_alone(short_path: Path) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        made.attach()
        program = made.stream(port)
        program.sendall(b"one")
        assert receive(program, 3) == b"one"
        program.sendall(b"two")
        program.shutdown(socket.SHUT_WR)
        assert receive(program, 100) == b"two"
        assert eventually(lambda: made.relay.counts().open == 0)
        assert made.relay.counts().reset == 0


def test_a_frozen_machine_sends_nothing_and_gets_nothing(short_path: Path) -> None:
    """QEMU would write to its memory for either. The bytes come afterwards, all of them; there are
    more than the buffers of sockets hold."""
    data = pattern(48 << 20)
    with serving(Echo) as port, guest(short_path, port) as made:
        made.attach()
        program = made.stream(port)
        sender = send_in_thread(program, data)
        got = bytearray(receive(program, 1 << 20))
        for _ in range(5):
            with made.door.still():
                got += until_silent(program)
            program.settimeout(WAITS)
            got += receive(program, min(100_000, len(data) - len(got)))
        assert len(got) < len(data)
        got += receive(program, len(data) - len(got))
        assert bytes(got) == data
        sender.join(WAITS)


def test_nothing_is_lost_or_doubled_while_carriers_break_at_any_byte(short_path: Path) -> None:
    data = pattern(8 << 20)
    luck = random.Random(7)
    with serving(Echo) as port, guest(short_path, port) as made:
        program = made.stream(port)
        sender = send_in_thread(program, data)
        digest, count, next_cut, cuts = hashlib.sha256(), 0, 0, 0
        carrier = None
        while count < len(data):
            if count >= next_cut:
                if carrier:
                    with contextlib.suppress(OSError):
                        carrier.shutdown(socket.SHUT_RDWR)
                    assert made.lost.wait(WAITS)
                    made.lost.clear()
                    cuts += 1
                carrier = made.attach()
                next_cut = count + luck.randrange(1, 800_000)
            piece = receive(program, min(1 << 16, next_cut - count, len(data) - count))
            assert piece, "the stream was reset"
            digest.update(piece)
            count += len(piece)
        assert receive(program, 1) == b""
        assert digest.digest() == hashlib.sha256(data).digest()
        assert cuts > 5
        sender.join(WAITS)


def test_a_program_that_reads_late_gets_all_and_holds_nobody_up(short_path: Path) -> None:
    size = 20 << 20
    with serving(Source) as source, serving(Echo) as echo, guest(short_path, source, echo) as made:
        made.attach()
        slow, quick = made.stream(source), made.stream(echo)
        slow.sendall(struct.pack("<Q", size))
        for number in range(200):
            quick.sendall(b"%8d" % number)
            assert receive(quick, 8) == b"%8d" % number
        assert made.relay.counts().received_bytes < size
        assert receive(slow, size) == pattern(size)
        assert receive(slow, 1) == b""


def test_fifty_connections_go_on_over_the_next_carrier(short_path: Path) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        programs = [made.stream(port) for _ in range(50)]  # before anybody is there
        for number, program in enumerate(programs):
            program.sendall(b"%4d" % number)
        carrier = made.attach()
        for number, program in enumerate(programs):
            assert receive(program, 4) == b"%4d" % number
        carrier.shutdown(socket.SHUT_RDWR)
        assert made.lost.wait(WAITS)
        for number, program in enumerate(programs):
            program.sendall(b"%4d" % (number + 1000))
        made.attach()
        for number, program in enumerate(programs):
            assert receive(program, 4) == b"%4d" % (number + 1000)
        assert made.relay.counts().open == 50


def test_another_machine_resets_what_the_one_before_had(short_path: Path) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        made.attach()
        old = made.stream(port)
        old.sendall(b"old")
        assert receive(old, 3) == b"old"
        made.relay.begin_anew()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
        made.attach()
        new = made.stream(port)
        new.sendall(b"new")
        assert receive(new, 3) == b"new"
        assert made.relay.counts().open == 1


def test_another_conversation_may_use_the_same_numbers_at_once(short_path: Path) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        for conversation in (b"a" * 16, b"b" * 16, b"c" * 16):
            host = Hostile(made)
            begin = encode_hello(conversation, []), encode(StreamRecord.OPEN, 1, 1 << 20, port=port)
            host.says(*begin, encode(StreamRecord.DATA, 1, 0, conversation))
            assert host.hears(StreamRecord.DATA) == (1, 0, conversation)
            host.carrier.close()


def test_a_port_that_is_not_offered_and_one_where_nobody_listens_are_refused(
    short_path: Path,
) -> None:
    with socket.socket() as silent, serving(Echo) as hidden:
        silent.bind(("127.0.0.1", 0))
        closed = silent.getsockname()[1]
        with guest(short_path, closed) as made:
            made.attach()
            for port in (closed, hidden):
                program = made.stream(port)
                with pytest.raises(ConnectionResetError):
                    program.recv(1)


class Hostile:
    """A host that says to the agent what it likes."""

    def __init__(self, made: Guest) -> None:
        self.carrier = made.carrier()
        self.carrier.settimeout(WAITS)
        self._reader = RecordReader()
        self._records: list[tuple[StreamRecord, int, int, bytes]] = []

    def says(self, *records: bytes) -> None:
        self.carrier.sendall(b"".join(records))

    def hears(self, kind: StreamRecord) -> tuple[int, int, bytes]:
        """The next record of that kind: stream, position, payload."""
        while True:
            for index, (found, stream, position, payload) in enumerate(self._records):
                if found is kind:
                    del self._records[: index + 1]
                    return stream, position, payload
            data = self.carrier.recv(1 << 16)
            if not data:
                raise EOFError
            self._records += self._reader.feed(data)


@pytest.mark.parametrize(
    "lie",
    [
        lambda port: encode(StreamRecord.DATA, 1, 5, b"a gap"),
        lambda port: encode(StreamRecord.DATA, 1, (1 << 64) - 2, b"round the corner"),
        lambda port: encode(StreamRecord.END, 1, 7),
        lambda port: encode_window(1, 1 << 40, 1 << 41),
        lambda port: encode(StreamRecord.WINDOW, 1, 0, b"short"),
        lambda port: encode(StreamRecord.OPEN, 1, 100, port=port),
    ],
)
def test_a_lie_about_a_stream_ends_that_stream_and_no_other(
    short_path: Path, lie: Callable[[int], bytes]
) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        host = Hostile(made)
        host.says(encode_hello(b"c" * 16, []))
        for stream in (1, 2):
            host.says(encode(StreamRecord.OPEN, stream, 1 << 20, port=port))
            assert host.hears(StreamRecord.WINDOW)[0] == stream
        host.says(lie(port))
        assert host.hears(StreamRecord.RESET)[0] == 1
        host.says(encode(StreamRecord.DATA, 2, 0, b"good"))
        assert host.hears(StreamRecord.DATA) == (2, 0, b"good")
        assert made.agent.hello()


class Silent(socketserver.BaseRequestHandler):
    """Reads nothing."""

    def handle(self) -> None:
        WAKE.wait(WAITS)


WAKE = threading.Event()


def test_a_host_that_sends_more_than_it_may_fills_no_memory(short_path: Path) -> None:
    piece = bytes(PAYLOAD_LIMIT)
    with serving(Silent) as port, guest(short_path, port) as made:
        host = Hostile(made)
        host.says(encode_hello(b"c" * 16, []), encode(StreamRecord.OPEN, 1, 1 << 20, port=port))
        for position in range(0, 64 << 20, len(piece)):
            host.says(encode(StreamRecord.DATA, 1, position, piece))
        assert host.hears(StreamRecord.RESET)[0] == 1
        WAKE.set()


@pytest.mark.parametrize(
    "noise",
    [
        encode(StreamRecord.DATA, 1, 0, b"before a hello"),
        encode(StreamRecord.HELLO, payload=b"short"),
        encode_hello(b"c" * 16, []) * 2,
        struct.pack("<IBBHIIQ", PAYLOAD_LIMIT + 1, 3, 0, 0, 1, 0, 0),
        b"\xff" * 4096,
    ],
)
def test_an_agent_leaves_a_host_that_makes_no_sense_and_takes_the_next(
    short_path: Path, noise: bytes
) -> None:
    with serving(Echo) as port, guest(short_path, port) as made:
        host = Hostile(made)
        host.hears(StreamRecord.HELLO)
        host.says(noise)
        made.attach()
        program = made.stream(port)
        program.sendall(b"hello")
        assert receive(program, 5) == b"hello"


def test_random_records_do_no_harm(short_path: Path) -> None:
    luck = random.Random(11)
    with serving(Echo) as port, guest(short_path, port) as made:
        for _ in range(40):
            host = Hostile(made)
            records = [
                encode_hello(b"c" * 16, [(luck.randrange(5), StreamEntry(False, 0, 1 << 16))])
            ]
            for _ in range(30):
                kind = luck.choice(
                    [kind for kind in StreamRecord if kind is not StreamRecord.HELLO]
                )
                position = luck.choice([0, 1, 5, 1 << 20, (1 << 64) - 1])
                payload = luck.randbytes(luck.choice([0, 1, 8, 100]))
                records.append(encode(kind, luck.randrange(5), position, payload, port=port))
            with contextlib.suppress(OSError):
                host.says(*records)
            host.carrier.close()
        made.attach()
        program = made.stream(port)
        program.sendall(b"hello")
        assert receive(program, 5) == b"hello"


GOLDEN = {
    encode(StreamRecord.OPEN, 7, 4096, port=6379): (
        "00000000 02 00 eb18 07000000 00000000 0010000000000000"
    ),
    encode(StreamRecord.DATA, 7, 3, b"ab"): (
        "02000000 03 00 0000 07000000 00000000 0300000000000000 6162"
    ),
    encode_window(7, 5, 9): (
        "08000000 06 00 0000 07000000 00000000 0500000000000000 0900000000000000"
    ),
    encode_hello(b"0123456789abcdef", [(7, StreamEntry(True, 5, 9))]): (
        "28000000 01 00 0000 00000000 00000000 0000000000000000"
        "30313233343536373839616263646566 07000000 01000000 0500000000000000 0900000000000000"
    ),
}


@pytest.mark.parametrize(("record", "golden"), GOLDEN.items())
def test_the_bytes_are_pinned(record: bytes, golden: str) -> None:
    assert record == bytes.fromhex(golden)
    for cut in range(len(record) + 1):
        reader = RecordReader()
        found = [*reader.feed(record[:cut]), *reader.feed(record[cut:])]
        assert len(found) == 1
        assert found[0][3] == record[24:]


@pytest.mark.parametrize("payload", [b"", b"x" * 15, b"x" * 17, b"x" * (16 + 24 * 4097)])
def test_a_hello_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(StreamRecordInvalid):
        decode_hello(payload)
