# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Long requests of curl through the front to two replicas: real agents with real services."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from client.fronts.proxy import Proxy
from client.platform.settings import HOME
from client.session.journal import Journal
from client.session.long_request import upload
from client.session.session import Session
from replay import AgentChannel, Operation
from replay.adapters import http
from satchel.ids import OperationNumber
from tests.client import streaming_service
from tests.client.replicas import InProcess
from tests.needs import requires
from tests.replay.agents import running_agent
from tests.waiting import eventually

pytestmark = requires("curl")

MEBIBYTES = 40
"""More than goes in one operation."""


class ProgramEnded(Exception):
    """The program of a request has ended."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(Journal(tmp_path / "log", None), stateful=True, response_seconds=60.0)
    with ExitStack() as stack:
        for name in (HOME, "a"):
            folder = tmp_path / name
            folder.mkdir()
            command = f"exec {sys.executable} {streaming_service.__file__} $PORT"
            channel = stack.enter_context(running_agent(folder, command)).connect()
            stack.callback(channel.close)
            channel.wait_ready(30)
            replica = InProcess(name)
            replica.says = partial(said, channel)
            made.add(replica, OperationNumber(0))
        stack.callback(made.close)
        yield made


def said(channel: AgentChannel, operation: Operation) -> bytes:
    reader, found = http.Normaliser(operation), []
    whole = channel.stream(lambda raw: found.append(reader.take(raw)), operation, 30)
    return b"".join(found) if reader.end() and whole else reader.failure()


def agreed(session: Session) -> bool:
    assert session.tally.diverged == 0
    return session.tally.later_responses == session.last


def put(session: Session, data: Iterator[bytes], length: int) -> bytes:
    def head(number: int, time_ns: int, seed: int) -> bytes:
        moment = {"number": number, "time_ns": time_ns, "seed": seed}
        return http.encode("PUT", "/", [], b"", length=length, **moment)

    return upload(session, head, data).payload


def test_a_file_of_any_length_has_all_bytes_at_both_replicas(
    session: Session, tmp_path: Path
) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"".join(streaming_service.blocks(MEBIBYTES)))
    proxy = Proxy(session)
    try:
        url = f"http://127.0.0.1:{proxy.port}/"
        argv: list[str | Path] = [
            "curl",
            "-sS",
            "--noproxy",
            "*",
            "--max-time",
            "100",
            "-T",
            body,
            url,
        ]
        done = subprocess.run(argv, capture_output=True, check=True)
    finally:
        proxy.close()
    assert done.stdout.decode() == hashlib.sha256(body.read_bytes()).hexdigest()
    assert session.last == MEBIBYTES + 1
    assert eventually(lambda: agreed(session), 30)


def test_a_request_that_ends_in_the_middle_leaves_nothing_broken(session: Session) -> None:
    def dying() -> Iterator[bytes]:
        yield bytes(3 << 20)
        raise ProgramEnded

    with pytest.raises(ProgramEnded):
        put(session, dying(), 8 << 20)
    good = bytes(3 << 20)
    assert hashlib.sha256(good).hexdigest().encode() in put(session, iter([good]), len(good))
    assert eventually(lambda: agreed(session), 30)
