# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replayed service that answers for long, in real guests: bounded memory, events at once."""

import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client import ServiceSession
from client.fronts.proxy import Proxy
from images import build, target
from replay import agent_program
from testbed.built import cache_folder
from tests.client import streaming_service
from tests.client.carried import CarriedWorld, carried_world
from tests.client.world import operations
from tests.machines import MACHINE
from tests.needs import requires
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "curl", "sshd", "ssh"),
]

MEBIBYTES = 200
FIRST_MEBIBYTES = 20
"""Of an answer before: three roles are in one process, each with buffers that fill once."""
GROWTH_BYTES = (MEBIBYTES << 20) // 4
"""Who kept an answer would grow by all of it. The allocator's heaps, one for each thread, settle at
38 MB more than the first answer left; 400 MiB after 420 add 5 MB."""
UPLOADED_MEBIBYTES = 64
"""More than one operation may have."""

PATIENCE_SECONDS = 300.0

PROGRAM = Path(streaming_service.__file__)
RECIPE = """
name = "streaming"
extends = "base"
packages = []
command = "exec /usr/bin/python3 /usr/lib/streaming/service.py 8080"
port = 8080
"""


class Session:
    """A person's: a replica at home, one at a surrogate, and a local port."""

    def __init__(self, world: CarriedWorld) -> None:
        self.world = world
        self.runner = ServiceSession(world.settings, "streaming", media=None)
        self.runner.start()
        self.runner.move("a")
        self.proxy = Proxy(operations(self.runner))

    def close(self) -> None:
        self.proxy.close()
        self.runner.close()

    @property
    def agreed(self) -> bool:
        """Whether the second replica has answered all that the first one has, and the same."""
        tally = operations(self.runner).tally
        assert tally.diverged == 0
        return tally.later_responses == sum(tally.first_responses.values())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("recipe") / "streaming"
    inside = folder / "files" / "usr" / "lib" / "streaming"
    inside.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    shutil.copy(PROGRAM, inside / "service.py")
    build(target(str(folder)), cache_folder() / "streaming", agent=agent_program())
    with carried_world("streaming") as world:
        made = Session(world)
        yield made
        made.close()


class Memory:
    """The most that each process of this test has had in memory while it is watched: this one,
    which has client, home and surrogate in it, and all below it but QEMU, whose memory is that of
    its guest."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self.growth: dict[str, int] = {}
        self._ending = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> dict[str, int]:
        """Bytes by program."""
        self._ending.set()
        self._thread.join()
        return self.growth

    def _run(self) -> None:
        while not self._ending.wait(0.2):
            self._look()

    def _look(self) -> None:
        listed = subprocess.run(
            ["ps", "-e", "-o", "pid=,ppid=,rss=,comm="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 3) for line in listed.stdout.splitlines()]
        family = {os.getpid()}
        for pid, parent, _, _ in rows:
            if int(parent) in family:
                family.add(int(pid))
        for pid, _, rss, name in rows:
            if int(pid) in family and not name.startswith(("qemu", "ps", "nbd")):
                size = int(rss) << 10
                grown = size - self._first.setdefault(int(pid), size)
                self.growth[name] = max(self.growth.get(name, 0), grown)


def test_200_mib_go_through_with_bounded_memory(session: Session) -> None:
    expected = hashlib.sha256()
    for block in streaming_service.blocks(MEBIBYTES):
        expected.update(block)
    url = f"http://127.0.0.1:{session.proxy.port}"
    first = ["curl", "-sS", "--fail", f"{url}/big/{FIRST_MEBIBYTES}"]
    subprocess.run(first, check=True, stdout=subprocess.DEVNULL)
    memory = Memory()
    began = time.monotonic()
    with subprocess.Popen(
        ["curl", "-sS", "--fail", f"{url}/big/{MEBIBYTES}"], stdout=subprocess.PIPE
    ) as curl:
        assert curl.stdout is not None
        found = hashlib.sha256()
        while piece := curl.stdout.read(1 << 16):
            found.update(piece)
    print(f"{time.monotonic() - began:.0f} s")
    assert curl.returncode == 0
    assert found.hexdigest() == expected.hexdigest()
    assert eventually(lambda: session.agreed, PATIENCE_SECONDS)
    grown = memory.end()
    print(grown)
    assert max(grown.values()) < GROWTH_BYTES


def test_an_upload_in_pieces_has_all_bytes(session: Session, tmp_path: Path) -> None:
    body, expected = tmp_path / "body", hashlib.sha256()
    with body.open("wb") as file:
        for block in streaming_service.blocks(UPLOADED_MEBIBYTES):
            file.write(block)
            expected.update(block)
    url = f"http://127.0.0.1:{session.proxy.port}/put"
    before = operations(session.runner).last
    done = subprocess.run(["curl", "-sS", "-T", body, url], capture_output=True, check=True)
    assert done.stdout.decode() == expected.hexdigest()
    assert operations(session.runner).last - before == UPLOADED_MEBIBYTES + 1
    assert eventually(lambda: session.agreed, PATIENCE_SECONDS)


def test_an_answer_with_its_length_keeps_it(session: Session) -> None:
    url = f"http://127.0.0.1:{session.proxy.port}/sized/6"
    done = subprocess.run(["curl", "-sS", "-i", url], capture_output=True, check=True)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert b"content-length: %d" % (6 << 20) in head.lower()
    assert body == b"".join(streaming_service.blocks(6))


def test_an_event_comes_before_the_answer_ends(session: Session) -> None:
    with socket.create_connection(("127.0.0.1", session.proxy.port), PATIENCE_SECONDS) as program:
        host = b"127.0.0.1:%d" % session.proxy.port
        program.sendall(b"GET /events HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
        said = b""
        while b"first" not in said:
            said += (piece := program.recv(1 << 16))
            assert piece, said
            assert b" 200 " in said.split(b"\r\n")[0], said
        assert b"second" not in said
        assert b"text/event-stream" in said
        while not said.endswith(b"0\r\n\r\n"):
            said += (piece := program.recv(1 << 16))
            assert piece, said
        assert b"second" in said
    assert eventually(lambda: session.agreed, PATIENCE_SECONDS)
