# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A response that the agent says in parts: bounded, each byte once, at its host's pace."""

import hashlib
import sys
import threading
from pathlib import Path

import pytest

from replay import AlreadyExecuted, Operation
from satchel.ids import OperationNumber
from tests.replay.agents import TIME, RunningAgent, running_agent

PROGRAM = """
import hashlib, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    words = connection.recv(4096).split()
    try:
        if words[0] == b"say":
            block = bytes(range(256)) * 4096
            for _ in range(int(words[1])):
                connection.sendall(block)
        if words[0] == b"break":
            connection.sendall(b"half")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1" + bytes(7))
    except OSError:
        pass
    connection.close()
"""

MEBIBYTES = 80
"""More than a reply may have."""

ROOM_BYTES = 8 << 20


def asked(number: int, words: str) -> Operation:
    return Operation(OperationNumber(number), TIME, number, words.encode())


@pytest.fixture
def agent(tmp_path: Path):  # type: ignore[no-untyped-def]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with running_agent(tmp_path, f"exec {sys.executable} {program} $PORT") as running:
        yield running


def resident(agent: RunningAgent) -> int:
    text = Path(f"/proc/{agent.process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) << 10


def said(mebibytes: int) -> str:
    return hashlib.sha256(bytes(range(256)) * 4096 * mebibytes).hexdigest()


def test_a_response_of_any_length_takes_little_memory(agent: RunningAgent) -> None:
    with agent.connect() as channel:
        channel.wait_ready(30)
        before, found = resident(agent), hashlib.sha256()
        assert channel.stream(found.update, asked(1, f"say {MEBIBYTES}"), 60)
        assert found.hexdigest() == said(MEBIBYTES)
        assert resident(agent) - before < ROOM_BYTES
        with pytest.raises(AlreadyExecuted):
            channel.stream(found.update, asked(1, f"say {MEBIBYTES}"), 60)
        assert channel.last == 1


def test_a_short_response_is_said_again(agent: RunningAgent) -> None:
    with agent.connect() as channel:
        channel.wait_ready(30)
        for _ in range(2):
            pieces: list[bytes] = []
            assert channel.stream(pieces.append, asked(1, "say 1"), 60)
            assert hashlib.sha256(b"".join(pieces)).hexdigest() == said(1)


def test_the_service_waits_for_a_host_that_takes_nothing(agent: RunningAgent) -> None:
    """The silence is the host's: the timeout does not run."""
    with agent.connect() as channel:
        channel.wait_ready(30)
        pause, found = threading.Event(), hashlib.sha256()

        def take(piece: bytes) -> None:
            pause.wait(3.0)
            pause.set()
            found.update(piece)

        assert channel.stream(take, asked(1, f"say {MEBIBYTES}"), 2.0)
        assert found.hexdigest() == said(MEBIBYTES)


def test_a_service_that_breaks_off_has_not_answered(agent: RunningAgent) -> None:
    with agent.connect() as channel:
        channel.wait_ready(30)
        assert not channel.stream(lambda piece: None, asked(1, "break"), 60)
        assert channel.stream(lambda piece: None, asked(2, "say 0"), 60)


def test_another_host_is_not_told_half_of_a_response(agent: RunningAgent) -> None:
    class Departure(Exception):
        pass

    def leave(piece: bytes) -> None:
        raise Departure

    with agent.connect() as channel:
        channel.wait_ready(30)
        with pytest.raises(Departure):
            channel.stream(leave, asked(1, f"say {MEBIBYTES}"), 60)
    found = hashlib.sha256()
    with agent.connect() as channel:
        try:
            assert channel.stream(found.update, asked(1, f"say {MEBIBYTES}"), 60)
            assert found.hexdigest() == said(MEBIBYTES)
        except AlreadyExecuted:
            assert channel.last == 1
