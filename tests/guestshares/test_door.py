# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest at a surrogate reaches its service's keeper through a socket: also a home that has begun
again, and only in words that can be meant."""

import errno
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from guestshares import Call, CallName, DistantKeeper, ShareMessageInvalid
from guestshares.digests import call_digest
from guestshares.kernel import IN_HEADER, KernelRequest, Opcode
from guestshares.messages import (
    CallResult,
    ClaimLead,
    CompletedCalls,
    YieldLead,
    decode,
    decode_call,
    decode_done,
    encode,
    encode_call,
    encode_done,
)
from tests.conftest import requires
from tests.guestshares.home import Home, add_line
from tests.guestshares.kernel import INIT, ROOT, Kernel
from tests.waiting import eventually
from wire import Caller, Reply

pytestmark = requires("fuse")

ASKED = bytes.fromhex(
    "01000000 00000000 0500000000000000"
    "2a000000 01000000 0800000000000000 0100000000000000 21000000 21000000 07000000 00000000 6100"
)


@pytest.fixture
def distant(home: Home) -> Iterator[Kernel]:
    kernel = home.lent()
    yield kernel
    kernel.close()


GONE = bytes.fromhex("10000000 feffffff 0000000000000000")
DONE = bytes.fromhex("0500000000000000 02000000 10000000") + bytes(range(32)) + GONE


class Stranger:
    """A surrogate that says what it likes."""

    def __init__(self, path: Path, hello: bytes = b"") -> None:
        self.hello = hello
        self.over = ""
        self.caller = Caller(path, self)

    def greet(self, received: int) -> bytes:
        said = {"version": 4, "replica": "x", "conversation": "c-1", "received": received}
        return self.hello or json.dumps(said).encode()

    def welcomed(self, hello: bytes) -> int:
        self.home = json.loads(hello)
        return int(self.home.get("received", 0))

    def arrived(self, payload: bytes, reply: Reply | None) -> None: ...

    def ended(self, why: str) -> None:
        self.over = why

    def ask(self, opcode: int, body: bytes, operation: int = 0, count: int = 0) -> bytes:
        length = IN_HEADER.size + len(body)
        message = IN_HEADER.pack(length, opcode, 2, ROOT, 0, 0, 0, 0) + body
        head = struct.pack("<IIQ", 1, count, operation)
        return self.caller.duplex.ask(head + message, patience=10.0)


def test_the_bytes_are_those_of_the_page() -> None:
    request = KernelRequest.parse(ASKED[16:])
    done = CallResult(CallName(5, 2, bytes(range(32))), GONE)
    assert encode_done([done]) == DONE
    assert decode_done(DONE + DONE) == [done] * 2
    call = Call(request, CallName(5, 0, call_digest(request)))
    assert encode_call(call) == ASKED
    assert decode_call(ASKED) == call


def test_what_is_part_of_no_operation_or_refused_has_no_name() -> None:
    request = KernelRequest.parse(ASKED[16:])
    assert decode_call(encode_call(Call(request))) == Call(request)
    without_end = KernelRequest.parse(struct.pack("<I", len(request.message) - 1) + ASKED[20:-1])
    assert without_end.refusal() == errno.EINVAL
    assert decode_call(ASKED[:16] + without_end.message).name is None


def test_a_stranger_that_begins_in_other_words_does_not_keep_homes_guest_out(home: Home) -> None:
    """Whoever was first said how the session was begun, and all others had to say the same."""
    stranger = Stranger(home.socket)
    other = INIT[:4] + b"\x24" + INIT[5:]
    assert stranger.ask(Opcode.INIT, other)[4:8] == bytes(4)
    guest = home.guest()
    add_line(guest, "1\n", 1)
    assert home.text() == "1\n"
    assert stranger.ask(Opcode.INIT, INIT)[4:8] == bytes(4)
    assert stranger.ask(Opcode.INIT, other)[4:8] != bytes(4)
    stranger.caller.close()


def test_a_stranger_has_no_more_kept_than_it_may(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked in operations that are not logged waits for them, at home: any number of bytes
    did."""
    monkeypatch.setattr("homeserver.guests.door.UNDER_WAY_BYTES", 100_000)
    stranger = Stranger(home.socket)
    data = bytes(16384)
    body = struct.pack("<QQIIQII", 0, 0, len(data), 0, 0, 0, 0) + data
    length = IN_HEADER.size + len(body)
    message = IN_HEADER.pack(length, Opcode.WRITE, 2, ROOT, 0, 0, 0, 0) + body
    assert eventually(lambda: len(home.door._guests) == 1)
    for count in range(20):
        head = struct.pack("<IIQ", 1, count, 1 << 40)
        stranger.caller.duplex.post(head + message, lambda reply: None)
    (guest,) = home.door._guests.values()
    assert eventually(lambda: guest.duplex.ended == "it asks too much at once")
    assert len(home.keeper._ahead) <= 7
    stranger.caller.close()


@pytest.mark.parametrize(
    "said",
    [b"", ASKED[:15], ASKED[:40], ASKED + b"x", b"\3" + ASKED[1:], ASKED[:7] + b"\xff" + ASKED[8:]],
)
def test_what_is_no_message_is_refused(said: bytes) -> None:
    with pytest.raises(ShareMessageInvalid):
        decode_call(said)


def test_a_guest_uses_files_through_the_socket(home: Home, distant: Kernel) -> None:
    kernel = distant
    handle = kernel.create("log", 1)
    file = kernel.lookup("log", 1)
    kernel.append(file, handle, b"content", 1)
    assert kernel.read(file, handle, 1) == b"content"
    assert (home.papers / "log").read_bytes() == b"content"


def test_a_home_that_begins_again_is_asked_what_has_no_answer(home: Home, distant: Kernel) -> None:
    kernel = distant
    handle = kernel.create("log", 1)
    file = kernel.lookup("log", 1)
    kernel.append(file, handle, b"1", 1)
    home.end()
    number = kernel.begin(Opcode.WRITE, kernel.appending(handle, b"2"), file, 1)
    again = kernel.begin(Opcode.WRITE, kernel.appending(handle, b"1"), file, 1)
    assert kernel.waits(number)
    home.begin()
    assert [kernel.wait(each)[0] for each in (number, again)] == [0, 0]
    assert sorted((home.papers / "log").read_text()) == ["1", "1", "2"]


def test_a_connection_that_breaks_is_gone_on_with(home: Home, distant: Kernel) -> None:
    kernel = distant
    handle = kernel.create("log", 1)
    file = kernel.lookup("log", 1)
    for turn in range(20):
        for guest in home.door._guests.values():
            guest.duplex.cut()
        kernel.append(file, handle, f"{turn} ".encode(), 1)
    assert (home.papers / "log").read_text() == "".join(f"{turn} " for turn in range(20))


def test_what_homes_replica_has_asked_is_told_before_others_ask(home: Home) -> None:
    guest, distant = home.guest(), home.lent()
    for operation in range(1, 11):
        add_line(guest, f"{operation}\n", operation)
        guest.calls.finished(operation)
    with pytest.raises(FileNotFoundError):
        distant.lookup("log", 1)
    keeper = distant.keeper
    assert isinstance(keeper, DistantKeeper)
    assert eventually(lambda: 10 in keeper.told())
    home.end()
    for operation in range(2, 11):
        add_line(distant, f"{operation}\n", operation)
    number = distant.begin(Opcode.LOOKUP, b"log\0", ROOT, 11)
    assert distant.waits(number)
    home.begin()
    home.logs(11)
    assert distant.wait(number)[0] == 0
    distant.close()


def test_a_stranger_does_not_get_beyond_the_share(home: Home) -> None:
    (home.folder / "secret").write_text("x")
    stranger = Stranger(home.folder / "granted")

    def code(opcode: int, body: bytes, operation: int = 1, count: int = 0) -> int:
        answer = stranger.ask(opcode, body, operation, count)
        return -int.from_bytes(answer[4:8], "little", signed=True)

    assert code(Opcode.LOOKUP, b"x\0") == errno.EIO  # before FUSE_INIT
    assert code(Opcode.INIT, INIT, 0) == 0
    assert code(Opcode.LOOKUP, b"../secret\0") == errno.EINVAL
    assert code(Opcode.LOOKUP, b"..\0") == errno.EINVAL
    assert code(Opcode.LOOKUP, b"a") == errno.EINVAL
    assert code(Opcode.WRITE, b"x" * 40) == errno.EINVAL
    assert code(Opcode.DESTROY, b"") == errno.ENOSYS
    assert code(99, b"") == errno.ENOSYS
    assert code(Opcode.INIT, INIT[:4] + b"\x01" + INIT[5:], 0) == errno.EPROTO
    assert code(Opcode.MKDIR, struct.pack("<II", 0o755, 0) + b"a\0", 0) == errno.EROFS
    assert code(Opcode.MKDIR, struct.pack("<II", 0o755, 0) + b"a\0") == 0
    assert home.names() == ["a"]
    stranger.caller.close()


@pytest.mark.parametrize(
    "said",
    [DONE[:-1], DONE + b"x", DONE[:12] + struct.pack("<I", 8) + DONE[16:56], DONE[:40]],
)
def test_what_home_tells_makes_sense_or_is_refused(said: bytes) -> None:
    with pytest.raises(ShareMessageInvalid):
        decode_done(said)


@pytest.mark.parametrize(
    "hello",
    [
        b"x",
        b"[]",
        b'{"version": 4}',
        b'{"version": 2, "replica": "../x", "conversation": "c", "received": 0}',
        b'{"version": 2, "replica": "x", "conversation": "c", "received": 7}',
        b'{"version": 2, "replica": "x", "conversation": "c", "received": -1}',
    ],
)
def test_a_hello_that_is_none_is_refused(home: Home, hello: bytes) -> None:
    stranger = Stranger(home.socket, hello)
    assert eventually(lambda: hasattr(stranger, "home"))
    assert "refused" in stranger.home
    stranger.caller.close()


def test_what_is_no_frame_ends_the_connection_and_nothing_else(home: Home, distant: Kernel) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(home.socket))
        connection.sendall(os.urandom(4096))
        connection.settimeout(20)
        assert connection.recv(10) == b""
    kernel = distant
    assert kernel.create("log", 1)


def test_what_a_surrogate_says_of_leading_is_that_of_the_page() -> None:
    done = CallResult(CallName(5, 2, bytes(range(32))), GONE)
    said: list[tuple[ClaimLead | YieldLead | CompletedCalls, bytes]] = [
        (ClaimLead(12), struct.pack("<IIQ", 2, 0, 12)),
        (YieldLead(), struct.pack("<IIQ", 3, 0, 0)),
        (CompletedCalls((done, done)), struct.pack("<IIQ", 4, 0, 0) + DONE + DONE),
    ]
    for words, payload in said:
        assert encode(words) == payload
        assert decode(payload) == words
    assert decode(ASKED) == decode_call(ASKED)
    for words_of_none in (b"", DONE[:15], struct.pack("<IIQ", 2, 0, 0), DONE[:16] + b"x"):
        with pytest.raises(ShareMessageInvalid):
            decode(words_of_none)
