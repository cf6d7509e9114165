# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front of `redis`, as redis-cli and as rubbish see it."""

import socket
import subprocess
from collections.abc import Iterator

import pytest

from client.device.settings import HOME
from client.fronts import open_front
from client.session.journal import Journal
from client.session.reads import read_only
from client.session.session import Session
from replay import Operation
from replay.adapters import redis
from satchel.errors import ConflictError, UnsupportedError
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess
from tests.needs import requires
from wire import StreamPort

QUIT = b"*1\r\n$4\r\nQUIT\r\n"


class Bench:
    """A front of a session with one replica, which answers with a word for each operation."""

    def __init__(self) -> None:
        self.session = Session(Journal(None, None), stateful=False, response_seconds=60.0)
        self.asked: list[bytes] = []
        replica = InProcess(HOME, stateful=False)
        replica.says = self._says
        self.session.add(replica, OperationNumber(0))
        front = open_front("redis", self.session, 0)
        assert isinstance(front, StreamPort)
        self.front = front

    def _says(self, operation: Operation) -> bytes:
        self.asked.append(operation.payload)
        return redis.normalise(b"$4\r\nword\r\n+OK\r\n", operation)

    def close(self) -> None:
        self.session.close()
        self.front.close()

    def say(self, data: bytes) -> bytes:
        """What a program gets that sends this and closes its side."""
        with socket.create_connection(("127.0.0.1", self.front.port), 10) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@requires("redis-cli")
def test_a_command_of_redis_cli_is_an_operation(bench: Bench) -> None:
    argv = ["redis-cli", "-p", str(bench.front.port), "SET", "two words", "\u00fc\r\n"]
    assert subprocess.run(argv, capture_output=True, timeout=20, check=True).stdout == b"word\n"
    assert bench.asked == [b"*3\r\n$3\r\nSET\r\n$9\r\ntwo words\r\n$4\r\n\xc3\xbc\r\n\r\n" + QUIT]
    assert bench.front.url == f"redis://127.0.0.1:{bench.front.port}"


def test_commands_in_a_row_are_answered_in_order(bench: Bench) -> None:
    said = bench.say(b"GET a\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\nQUIT\r\nGET c\r\n")
    assert said == b"$4\r\nword\r\n" * 2 + b"+OK\r\n"
    assert [payload.split(b"\r\n")[4] for payload in bench.asked] == [b"a", b"b"]


@pytest.mark.parametrize(
    "rubbish",
    [
        b"*1\r\n:3\r\n",
        b"*x\r\n",
        b"*-1\r\n",
        b"*99999999999\r\n",
        b"*2\r\n$3\r\nGET\r\n",
        b"*1\r\n$9\r\nGET\r\n",
        b"no end",
    ],
)
def test_what_is_no_command_is_an_error_and_no_operation(bench: Bench, rubbish: bytes) -> None:
    assert bench.say(rubbish).startswith(b"-ERR ")
    assert not bench.asked


def test_a_web_page_says_nothing(bench: Bench) -> None:
    page = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nSET a b\r\n"
    assert bench.say(page) == b""
    assert bench.say(page.replace(b"POST", b"GET", 1)) != b"$4\r\nword\r\n" * 2
    assert not any(b"SET" in payload for payload in bench.asked)


def test_when_the_session_ends_a_command_is_answered_with_the_reason(bench: Bench) -> None:
    bench.session.close()
    assert bench.say(b"GET a\r\n").startswith(b"-ERR the session has ended")


def test_a_reply_that_is_not_whole_is_an_error_everywhere() -> None:
    asked = Operation(OperationNumber(1), 2, 3, redis.encode([b"GET", b"a"]))
    broken = {redis.normalise(reply, asked) for reply in (b"", b"$4\r\nwo", b"+OK\r\n")}
    assert broken == {b"-ERR the service gave no whole answer\r\n"}
    assert redis.normalise(b"+OK\r\n+OK\r\n", asked) == b"+OK\r\n"
    assert redis.label(asked) == "GET"


def test_a_port_that_is_taken_is_a_conflict(bench: Bench) -> None:
    with pytest.raises(ConflictError, match="the port is taken"):
        open_front("redis", bench.session, bench.front.port)


def test_a_kind_without_a_front_is_refused(bench: Bench) -> None:
    with pytest.raises(UnsupportedError, match="there are: "):
        open_front("gopher", bench.session, 0)


def test_a_command_that_only_reads_may_go_to_the_nearest() -> None:
    def judged(*words: bytes, declared: list[str]) -> bool:
        asked = Operation(OperationNumber(1), 2, 3, redis.encode(words))
        return read_only({"kind": "redis", "read_only": declared})(asked)

    assert judged(b"get", b"a", declared=["/"])
    assert judged(b"HGETALL", b"GET", declared=["/"])
    assert not judged(b"get", b"a", declared=[])
    for changing in (b"SET", b"GETDEL", b"GETEX", b"SORT", b"EVAL", b"\xff", b""):
        assert not judged(changing, b"GET", declared=["/"])
    assert not judged(*[b""] * 3, declared=["/"])
