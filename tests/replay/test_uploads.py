# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A request in pieces, at a real agent whose service counts what it reads."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay import (
    BROKEN_OFF,
    AgentChannel,
    Operation,
    PieceFlag,
    first_piece,
    piece_flags,
    upload_pieces,
)
from replay.adapters import http
from satchel.ids import OperationNumber
from tests.replay.agents import TIME, RunningAgent, running_agent

PROGRAM = """
import hashlib, http.server, sys
ended = []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_PUT(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left and (block := self.rfile.read(min(left, 65536))):
            digest.update(block)
            left -= len(block)
        ended.append("whole" if not left else "cut")
        self.close_connection = True
        if not left:
            self.say(digest.hexdigest())
    def do_GET(self):
        self.say(" ".join(ended))
    def say(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

BLOCK = bytes(range(256)) * 4096
MEBIBYTES = 80
"""More than a request of one piece may have."""

ROOM_BYTES = 8 << 20


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with running_agent(tmp_path, f"exec {sys.executable} {program} $PORT") as running:
        yield running


def head(method: str, length: int | None) -> bytes:
    return http.encode(method, "/", [], b"", number=1, time_ns=TIME, seed=1, length=length)


def upload(mebibytes: int, count: int | None = None) -> Iterator[bytes]:
    """The payloads, or the first ones."""
    yield first_piece(head("PUT", mebibytes << 20))
    yield from list_up_to(upload_pieces(BLOCK for _ in range(mebibytes)), count)


def list_up_to(pieces: Iterator[bytes], count: int | None) -> Iterator[bytes]:
    for index, piece in enumerate(pieces):
        if index == count:
            return
        yield piece


def operation(channel: AgentChannel, payload: bytes) -> Operation:
    return Operation(OperationNumber(channel.last + 1), TIME, 7, payload)


def said(channel: AgentChannel, asked: Operation) -> bytes:
    """The normalised response, as a replica makes it."""
    reader, found = http.Normaliser(asked), []
    whole = channel.stream(lambda raw: found.append(reader.take(raw)), asked, 30)
    return b"".join(found) if reader.end() and whole else reader.failure()


def resident(agent: RunningAgent) -> int:
    text = Path(f"/proc/{agent.process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) << 10


def test_a_request_of_any_length_takes_little_memory(agent: RunningAgent) -> None:
    with agent.connect() as channel:
        channel.wait_ready(30)
        before = resident(agent)
        answers = [said(channel, operation(channel, piece)) for piece in upload(MEBIBYTES)]
        assert set(answers[:-1]) == {b""}
        assert answers[-1].endswith(hashlib.sha256(BLOCK * MEBIBYTES).hexdigest().encode())
        assert resident(agent) - before < ROOM_BYTES


def test_a_host_that_comes_back_between_pieces_and_sends_one_again(agent: RunningAgent) -> None:
    answer = b""
    for piece in upload(3):
        with agent.connect() as channel:
            channel.wait_ready(30)
            asked = operation(channel, piece)
            answer = said(channel, asked)
            assert said(channel, asked) == answer
    assert answer.endswith(hashlib.sha256(BLOCK * 3).hexdigest().encode())


@pytest.mark.parametrize("behind", ["another operation", "the word that it is broken off"])
def test_a_request_that_ends_in_the_middle_is_ended_for_the_service(
    agent: RunningAgent, behind: str
) -> None:
    with agent.connect() as channel:
        channel.wait_ready(30)
        for piece in upload(5, 2):
            assert said(channel, operation(channel, piece)) == b""
        if behind == "the word that it is broken off":
            assert said(channel, operation(channel, BROKEN_OFF)) == b""
        assert said(channel, operation(channel, head("GET", None))).endswith(b"cut")
        # What comes of it all the same has no connection, and opens none.
        late = list(upload(5))[-1]
        assert b" 502 " in said(channel, operation(channel, late))
        assert said(channel, operation(channel, head("GET", None))).endswith(b"cut")


def test_golden_bytes() -> None:
    assert first_piece(b"hi") == bytes.fromhex("ff5341545043450a 01 00000000000000 6869")
    assert list(upload_pieces([b"a", b"b"])) == [
        bytes.fromhex("ff5341545043450a 02 00000000000000 6162")
    ]
    assert bytes.fromhex("ff5341545043450a 04 00000000000000") == BROKEN_OFF
    damaged = Operation(OperationNumber(1), TIME, 1, first_piece(b"")[:-1])
    assert piece_flags(damaged) is None
    flags = piece_flags(Operation(OperationNumber(1), TIME, 1, first_piece(b"x")))
    assert flags == PieceFlag.BEGINS
