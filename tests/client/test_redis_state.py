# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a program's connection to a replayed Redis is, with Debian's server and with redis-cli.

Each operation has a connection of its own there, as the agent makes it; two replicas are compared.
"""

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.device.settings import HOME
from client.fronts import open_front
from client.session.journal import Journal
from client.session.session import Session
from replay import Operation
from replay.adapters import redis
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess
from tests.needs import requires
from tests.waiting import eventually

# Debian's redis-tools has the server as well: it is the program that checks its files.
SERVER = "redis-check-rdb"
CONFIGURATION = Path("images/recipes/redis/files/etc/redis/satchel.conf")

pytestmark = requires("redis-cli", SERVER)


@contextmanager
def server(folder: Path) -> Iterator[Path]:
    """Redis with the recipe's configuration, at a Unix socket."""
    program, place = folder / "redis-server", folder / "s"
    found = shutil.which(SERVER)
    assert found
    program.symlink_to(found)
    own = ["--port", "0", "--unixsocket", str(place), "--dir", str(folder), "--appendonly", "no"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, CONFIGURATION.absolute(), *own], stdout=log)
        try:
            assert eventually(lambda: listens(place))
            yield place
        finally:
            process.kill()
            process.wait()


def listens(place: Path) -> bool:
    """The socket is made some time before anybody is let in."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(place)) == 0


def executed(place: Path, operation: Operation) -> bytes:
    """What an agent's service answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(place))
        connection.sendall(operation.payload)
        return b"".join(iter(lambda: connection.recv(65536), b""))


class Bench:
    """A front of a session whose one replica is two servers, which have to answer the same."""

    def __init__(self, places: list[Path]) -> None:
        self.session = Session(Journal(None, None), stateful=True, response_seconds=60.0)
        self.asked: list[Operation] = []
        replica = InProcess(HOME)

        def says(operation: Operation) -> bytes:
            self.asked.append(operation)
            asked = places[:1] if redis.label(operation) == "COMMAND" else places
            answers = {redis.normalise(executed(p, operation), operation) for p in asked}
            assert len(answers) == 1, answers
            return answers.pop()

        replica.says = says
        self.session.add(replica, OperationNumber(0))
        self.front = open_front("redis", self.session, 0)

    def cli(self, *words: str, says: str = "") -> str:
        """What redis-cli prints; says: lines that are typed into one connection of it. It asks for
        COMMAND DOCS then, whose order is each server's own."""
        argv = ["redis-cli", "-p", str(self.front.port), *words]
        done = subprocess.run(
            argv, input=says, capture_output=True, text=True, timeout=60, check=True
        )
        return (done.stdout + done.stderr).strip()

    def close(self) -> None:
        self.session.close()
        self.front.close()


@pytest.fixture
def bench(short_path: Path) -> Iterator[Bench]:
    folders = [short_path / "1", short_path / "2"]
    for folder in folders:
        folder.mkdir()
    with server(folders[0]) as one, server(folders[1]) as two:
        executed(two, Operation(OperationNumber(1), 2, 3, redis.encode([b"PING"])))
        made = Bench([one, two])  # whose servers have had other numbers of connections
        yield made
        made.close()


def test_a_database_stays_chosen(bench: Bench) -> None:
    assert bench.cli("-n", "1", "SET", "a", "one") == "OK"
    assert bench.cli("GET", "a") == ""
    assert bench.cli("-n", "1", "GET", "a") == "one"
    assert bench.cli(says="SELECT 1\nGET a\nSELECT 99\nGET a\nSELECT 0\nGET a\n") == (
        "OK\none\nERR DB index is out of range\n\none\nOK"
    )
    assert "a" not in bench.cli("KEYS", "*")


def test_a_transaction_is_one_operation(bench: Bench) -> None:
    typed = "MULTI\nSET a 1\nINCR a\nSELECT 2\nSET b 3\nEXEC\nGET b\nSELECT 0\nGET a\n"
    said = bench.cli(says=typed).split("\n")
    assert said == ["OK", *["QUEUED"] * 4, "OK", "2", "OK", "OK", "3", "OK", "2"]
    labels = [
        redis.label(operation) for operation in bench.asked if redis.label(operation) != "COMMAND"
    ]
    assert labels == ["MULTI", "GET", "SELECT", "GET"]


def test_a_transaction_that_is_discarded_or_broken_changes_nothing(bench: Bench) -> None:
    assert bench.cli(says="MULTI\nSET a 1\nDISCARD\nGET a\n").split("\n") == ["OK", "QUEUED", "OK"]
    said = bench.cli(says="MULTI\nSET a 1\nSUBSCRIBE c\nEXEC\nGET a\n")
    assert "needs a connection that stays" in said
    assert "EXECABORT" in said
    assert "EXECABORT" in bench.cli(says="MULTI\nSET a 1\nSET a\nEXEC\nGET a\n")
    assert bench.cli("EXEC") == "ERR EXEC without MULTI"
    assert "nested" in bench.cli(says="MULTI\nMULTI\nDISCARD\n")
    assert bench.cli("EXISTS", "a") == "0"


def test_resp3_is_spoken_by_connections_that_ask_for_it(bench: Bench) -> None:
    bench.cli("HSET", "h", "field", "word")
    raw = b"HELLO 3\r\nHGETALL h\r\nMULTI\r\nHGETALL h\r\nGET none\r\nEXEC\r\nQUIT\r\n"
    with socket.create_connection(("127.0.0.1", bench.front.port), 60) as connection:
        connection.sendall(raw)
        said = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"$5\r\nproto\r\n:3\r\n" in said
    reply = b"%1\r\n$5\r\nfield\r\n$4\r\nword\r\n"
    assert said.endswith(
        reply + b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + reply + b"_\r\n" + b"+OK\r\n"
    )
    assert bench.cli("-3", "HGETALL", "h") == "field word"


@pytest.mark.parametrize(
    "command",
    [
        *("WATCH a", "SUBSCRIBE a", "PSUBSCRIBE a*", "SSUBSCRIBE a", "MONITOR"),
        *("BLPOP a 0", "XREAD BLOCK 0 STREAMS s $", "WAIT 1 0", "CLIENT REPLY OFF"),
    ],
    ids=lambda command: command.split()[0],
)
def test_what_cannot_be_kept_is_refused_and_is_no_operation(bench: Bench, command: str) -> None:
    said = bench.cli(*command.split())
    assert "ERR" in said
    assert "carry it" in said
    assert bench.asked == []


def test_a_connection_that_is_reset_is_a_new_one(bench: Bench) -> None:
    assert bench.cli(says="SELECT 1\nSET a 1\nRESET\nEXISTS a\n").split("\n")[-1] == "0"
    assert bench.cli(says="MULTI\nRESET\nEXISTS a\n").split("\n")[-1] == "0"


def test_what_only_reads_does_so_in_any_database(bench: Bench) -> None:
    def judged(*commands: list[bytes]) -> bool:
        operation = Operation(OperationNumber(1), 2, 3, redis.encode(*commands))
        return redis.changes_nothing(operation, ["/"])

    assert judged([b"SELECT", b"1"], [b"get", b"a"])
    assert not judged([b"SELECT", b"1"], [b"SET", b"a", b"1"])
    assert not judged([b"MULTI"], [b"GET", b"a"], [b"EXEC"])


@pytest.mark.parametrize(
    "said",
    [
        lambda reply: reply[:-1],
        lambda reply: reply.replace(b"+OK\r\n", b"", 1),
        lambda reply: b"+OK\r\n" + reply,
        lambda reply: reply.replace(b"$1\r\n", b"$9\r\n"),
        lambda reply: b"*99999999999\r\n" + reply,
        lambda reply: b"*" * 100_000 + reply,
        lambda reply: b"",
    ],
)
def test_a_reply_that_is_not_whole_is_an_error(said: Callable[[bytes], bytes]) -> None:
    asked = Operation(OperationNumber(1), 2, 3, redis.encode([b"SELECT", b"1"], [b"GET", b"a"]))
    good = b"+OK\r\n$1\r\nx\r\n+OK\r\n"
    assert redis.normalise(good, asked) == b"$1\r\nx\r\n"
    assert redis.normalise(said(good), asked).startswith(b"-ERR the service gave no whole answer")
