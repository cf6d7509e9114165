# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's Redis, carried in real guests between home and surrogates, used by redis-cli and by
connections that stay open: nothing is lost or doubled by a move, and a loss is told."""

import functools
import hashlib
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.service import ServiceSession
from media import Media
from testbed.built import built_image
from tests.client.carried import CarriedWorld, RedisConnection, carried_world, redis_cli
from tests.client.world import carried_of, copy_now
from tests.machines import MACHINE
from tests.media_keys import sealed_for
from tests.needs import requires
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    requires(*MACHINE, "apt-get", "redis-cli", "sshd", "ssh"),
]

SERVICE = "redis"


@pytest.fixture
def world() -> Iterator[CarriedWorld]:
    built_image(SERVICE)
    with carried_world(SERVICE) as made:
        yield made


class Counting:
    """A program that counts over one connection, as fast as it is answered: `INCR`, again and
    again. If anything is lost, doubled or out of order, an answer is not the next number."""

    def __init__(self, port: int, key: str) -> None:
        self.count = 0
        self.error: BaseException | None = None
        self._connection = RedisConnection(port, timeout=300.0)
        self._key = key
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """Stop; how far it has counted."""
        self._ending.set()
        self._thread.join()
        self._connection.close()
        assert self.error is None, repr(self.error)
        return self.count

    def _run(self) -> None:
        try:
            while not self._ending.wait(0.01):
                answer = self._connection.says(f"INCR {self._key}")
                assert answer == f":{self.count + 1}", answer
                self.count += 1
        except BaseException as error:
            self.error = error


class Download:
    """A program that gets 64 KiB again and again over one connection, and hashes what comes."""

    def __init__(self, port: int) -> None:
        self._word = random.Random(5).randbytes(64 << 10)
        self._connection = RedisConnection(port, timeout=300.0)
        assert self._connection.asks(b"SET", b"big", self._word) == b"+OK"
        self._digest = hashlib.sha256()
        self._count = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop, and see that the stream was what it should be."""
        self._ending.set()
        self._thread.join()
        self._connection.close()
        assert self._count > 1
        wanted = hashlib.sha256()
        for _ in range(self._count):
            wanted.update(self._word)
        assert self._digest.digest() == wanted.digest()
        print(f"{self._count} downloads of 64 KiB through the move")

    def _run(self) -> None:
        while not self._ending.wait(0.1):
            self._digest.update(self._connection.asks(b"GET", b"big"))
            self._count += 1


def test_connections_go_on_through_a_move_and_a_loss_is_told(world: CarriedWorld) -> None:
    session = world.session()
    port = session.port
    (examined,) = world.home.home.service(SERVICE).diagnose()["ports"]
    assert examined["seconds"] is not None, examined
    assert redis_cli(port, "SET", "word", "x" * 100_000) == "OK"
    # A database that stays chosen, and a transaction that is open during the move.
    kept = RedisConnection(port)
    assert kept.says("SELECT 3") == "+OK"
    assert kept.says("SET where three") == "+OK"
    assert kept.says("MULTI") == "+OK"
    assert kept.says("INCR pending") == "+QUEUED"
    counting = Counting(port, "count")
    assert eventually(lambda: counting.count > 10 or counting.error)
    download = Download(port)
    moved = session.move("a")
    download.end()
    here = counting.count
    assert eventually(lambda: counting.count > here + 10 or counting.error)
    assert kept.says("EXEC") == "*1"
    assert kept.says("GET where") in (":1", "$5")
    assert redis_cli(port, "GET", "word") == "x" * 100_000
    total = counting.end()
    assert redis_cli(port, "GET", "count") == str(total)
    assert carried_of(session).relay.counts().reset == 0
    assert world.home.home.service(SERVICE).view().state == "down"
    print(moved)
    check_the_loss_is_told(world, kept)


def check_the_loss_is_told(world: CarriedWorld, kept: RedisConnection) -> None:
    """Home goes on from what was copied; connections of the machine that is lost are reset."""
    (session,) = world.sessions
    copy_now(session)
    world.spots["a"].cut()
    assert eventually(lambda: carried_of(session).losses)
    with pytest.raises(OSError, match=r"reset|ended|Broken"):
        for _ in range(1000):
            kept.says("PING")
    assert redis_cli(session.port, "GET", "word") == "x" * 100_000
    (loss,) = carried_of(session).losses
    assert loss.surrogate == "a"
    print(f"{loss}; {loss.successor} led after {loss.after_seconds:.1f} s")


@pytest.mark.nightly
def test_100_megabytes_and_counting_go_through_two_moves(world: CarriedWorld) -> None:
    session = world.session()
    luck = random.Random(3)
    words = [luck.randbytes(1 << 20) for _ in range(10)]
    connection = RedisConnection(session.port, timeout=600.0)
    for number, word in enumerate(words):
        assert connection.asks(b"SET", b"word%d" % number, word) == b"+OK"
    counting = Counting(session.port, "count")
    received: list[bool] = []

    def download() -> None:
        for number in range(100):
            answer = connection.asks(b"GET", b"word%d" % (number % 10))
            received.append(answer == words[number % 10])

    downloading = threading.Thread(target=download)
    downloading.start()
    for place in ("a", "b", "home"):
        assert eventually(lambda: counting.error or counting.count, 300.0)
        moved = session.move(place)
        print(f"to {place}: held {moved.held_seconds:.2f} s, deltas of {moved.deltas} bytes")
    downloading.join()
    assert received == [True] * 100
    total = counting.end()
    assert redis_cli(session.port, "GET", "count") == str(total)
    assert carried_of(session).relay.counts().reset == 0


class Gigabyte:
    """A program that gets words of 1 MiB over one connection, a few asked for ahead, until it has
    a gibibyte, and hashes every byte that comes."""

    WORDS, COUNT, AHEAD = 16, 1024, 4

    def __init__(self, port: int) -> None:
        luck = random.Random(11)
        self._answers = []
        loading = RedisConnection(port, timeout=600.0)
        for number in range(self.WORDS):
            word = luck.randbytes(1 << 20)
            assert loading.asks(b"SET", b"part%d" % number, word) == b"+OK"
            self._answers.append(b"$%d\r\n%b\r\n" % (len(word), word))
        loading.close()
        self.received = 0
        self.error: BaseException | None = None
        self._digest = hashlib.sha256()
        self._thread = threading.Thread(target=self._run, args=(port,), daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        return len(self._answers[0]) * self.COUNT

    def flows(self, since: int) -> bool:
        """Whether more than so many bytes have come, or an error."""
        return self.received > since or self.error is not None

    def end(self) -> None:
        """Wait for the last byte, and see that the stream was what it should be."""
        self._thread.join()
        assert self.error is None, repr(self.error)
        wanted = hashlib.sha256()
        for number in range(self.COUNT):
            wanted.update(self._answers[number % self.WORDS])
        assert self.received == self.size
        assert self._digest.digest() == wanted.digest()

    def _run(self, port: int) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=600.0) as program:
                asked = 0
                while self.received < self.size:
                    while asked < min(self.COUNT, self.received // (1 << 20) + self.AHEAD):
                        program.sendall(b"GET part%d\r\n" % (asked % self.WORDS))
                        asked += 1
                    piece = program.recv(1 << 18)
                    if not piece:
                        raise ConnectionResetError("the connection ended")
                    self._digest.update(piece)
                    self.received += len(piece)
        except BaseException as error:
            self.error = error


@pytest.mark.nightly
@requires("redis-benchmark")
def test_a_gigabyte_goes_through_moves_under_load(world: CarriedWorld) -> None:
    """Others count, and write all the time into the memory that moves."""
    session = world.session()
    port = session.port
    counting, began = Counting(port, "count"), time.monotonic()
    gigabyte = Gigabyte(port)
    load = ["redis-benchmark", "-p", str(port), "-q", "-t", "set", "-l", "-c", "4", "-d", "1000"]
    with subprocess.Popen([*load, "-r", "2000"], stdout=subprocess.DEVNULL) as writers:
        try:
            for place in ("a", "b"):
                here = gigabyte.received
                assert eventually(functools.partial(gigabyte.flows, here), 300.0)
                moved = session.move(place)
                print(f"to {place}: {moved}, {gigabyte.received / 1e6:.0f} MB have come")
                assert gigabyte.received < gigabyte.size, "the stream was over before the move"
            assert writers.poll() is None
            gigabyte.end()
            assert carried_of(session).relay.counts().reset == 0
        finally:
            writers.terminate()
    total = counting.end()
    print(f"{gigabyte.size / 1e6 / (time.monotonic() - began):.1f} MB/s, {total} counted")
    assert redis_cli(port, "GET", "count") == str(total)


@pytest.mark.nightly
def test_a_thousand_connections_go_through_a_move(world: CarriedWorld) -> None:
    session = world.session()
    connections = [RedisConnection(session.port, timeout=300.0) for _ in range(1000)]
    for number, connection in enumerate(connections):
        assert connection.says(f"SET key{number} {number}") == "+OK"
    session.move("a")
    for number, connection in enumerate(connections):
        assert connection.says(f"INCR key{number}") == f":{number + 1}"
        connection.close()
    assert carried_of(session).relay.counts().reset == 0


@pytest.mark.nightly
def test_no_two_machines_of_one_checkpoint_draw_the_same(world: CarriedWorld) -> None:
    draw = ["dd", "if=/dev/urandom", "bs=32", "count=1", "status=none"]
    service = world.home.home.service(SERVICE)
    drawn = set()
    for _ in range(3):
        drawn.add(service.replica().run(draw, 60.0)[1])
        service.stop()
        service.launch()
    assert len(drawn) == 3
    drawn_at = float(service.replica().run(["date", "+%s"], 60.0)[1])
    assert drawn_at > 1.7e9  # the clock is this host's, not the checkpoint's first boot's


@pytest.mark.nightly
def test_without_home_the_next_surrogate_goes_on_from_the_stick(
    world: CarriedWorld, tmp_path: Path
) -> None:
    stick, home = tmp_path / "stick", world.home.home
    stick.mkdir()
    Media.init(stick, sealed_for(home.settings, world.key.public), home.settings.media_keys).close()
    home.carry(SERVICE, stick)
    session = world.session(media=stick)
    session.move("a")
    assert redis_cli(session.port, "SET", "word", "signed") == "OK"
    copy_now(session)
    wanted = session.manifest.id
    assert eventually(lambda: medium_of(session)["checkpoint"] == wanted)
    print(f"{session.status()['delta_bytes']} bytes home, {medium_of(session)}")
    session.close()
    world.home.cut()
    alone = world.session(media=stick)
    moved = alone.move("b")
    assert redis_cli(alone.port, "GET", "word") == "signed"
    assert redis_cli(alone.port, "SET", "word", "without home") == "OK"
    print(f"from the stick after {moved.seconds:.1f} s: {moved.fetched_bytes}")
    world.home.mend()
    assert eventually(lambda: alone.status()["deltas"] >= 1, 300.0)
    alone.move("home")
    assert redis_cli(alone.port, "GET", "word") == "without home"


def medium_of(session: ServiceSession) -> dict[str, Any]:
    """How far the medium's copy is."""
    (row,) = (one for one in session.status()["copies"] if one["place"] == "medium")
    return dict(row)
