# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions that outlive their application, and that move between nodes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from homeserver.shares import Shares
from shares.home import ShareRecord, Suspect
from shares.node import open_file
from shares.session import HandoffOver, Host, Kind, MobileSession, Mode, Operation, Session
from tests.homeserver.shares import session_program
from tests.homeserver.shares.conftest import LEASE, Home
from tests.waiting import eventually

RATE = 200
LINES = 400
REPOSITORY = Path(__file__).parents[3]


def lines(count: int) -> bytes:
    return b"".join(b"%08d\n" % line for line in range(count))


# An application that is killed.


def test_an_application_that_is_killed_finds_offsets_and_writes(
    home: Home, short_path: Path, tmp_path: Path
) -> None:
    """At random moments, by SIGKILL, with its node in it: what it was told is written is there, and
    once."""
    home.add()
    chance = random.Random(5)
    kills, told = 0, -1
    for turn in range(40):
        kill_at = told + chance.randrange(20, 90) if kills < 6 else LINES
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                session_program.__name__,
                str(short_path / "s"),
                str(tmp_path / "app.session"),
                str(tmp_path / f"buffer{turn}"),
                str(LINES),
            ],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        begun = process.stdout.readline().split()
        assert begun[0] == "position"
        at = int(begun[1]) // session_program.WIDTH
        assert at in {told + 1, told + 2}, "it goes on where it was told that it was"
        for line in process.stdout:
            if line.strip() == "end":
                break
            told = int(line)
            if told >= kill_at and process.poll() is None:
                kill_at = LINES
                process.kill()
                kills += 1
        process.stdout.close()
        code = process.wait(60)
        if code == 0:
            break
        told = max(told, at - 1)
    assert kills > 3, "too few were killed before they were done"
    assert (home.root / "log").read_bytes() == lines(LINES)
    assert not (tmp_path / "app.session").exists()


def test_what_was_not_home_is_written_when_the_session_goes_on(home: Home, tmp_path: Path) -> None:
    home.add()
    lost = home.join("app")
    session = Session(lost.node, "app", tmp_path / "s")
    file = session.open("f", os.O_RDWR | os.O_CREAT)
    session.write(file, b"first ")
    session.sync(file)
    lost.cut_off()
    threading.Thread(target=lambda: session.write(file, b"second"), daemon=True).start()
    assert eventually(lambda: b"second" in (tmp_path / "s").read_bytes())
    kept = (tmp_path / "s").read_bytes()
    (tmp_path / "copy").write_bytes(kept)
    again = Session(home.join("app").node, "app", tmp_path / "copy")
    assert again.found
    assert again.position(file) == 12
    again.end()
    assert (home.root / "f").read_bytes() == b"first second"


def test_a_session_has_the_calls_of_files(home: Home) -> None:
    home.add()
    session = Session(home.join("app").node, "app")
    assert not session.found
    file = session.open("f", os.O_RDWR | os.O_CREAT)
    other = session.open("f", os.O_RDONLY)
    assert session.write(file, b"0123456789") == 10
    assert session.read(other, 4) == b"0123"
    session.seek(file, 2)
    assert session.read(file, 3) == b"234"
    session.truncate(file, 4)
    assert session.read(other, 100) == b""
    added = session.open("f", os.O_WRONLY | os.O_APPEND)
    session.write(added, b"!")
    session.seek(other, 0)
    assert session.read(other, 100) == b"0123!"
    with pytest.raises(OSError, match="descriptor"):
        session.write(other, b"x")
    with pytest.raises(FileNotFoundError):
        session.open("nothing", os.O_RDONLY)
    session.close(other)
    with pytest.raises(OSError, match="descriptor"):
        session.read(other, 1)
    assert session.files() == {file: "f", added: "f"}
    session.end()


# Moves.


def test_the_dirty_queue_and_the_delayed_one(home: Home) -> None:
    """MEFS, Figure 5: what comes to the old node waits and is done by the new one, before what came
    there."""
    home.add()
    old, new = Host(home.join("edge1").node), Host(home.join("edge2").node)
    old.begin("app")
    flags = os.O_RDWR | os.O_CREAT
    old.ask("app", Operation(1, Kind.OPEN, 3, flags, b"f")).result()
    assert old.ask("app", Operation(2, Kind.WRITE, 3, 0, b"one ")).result().value == 4
    new.expect_handoff("app")
    handoff = old.prepare_handoff("app")
    dirty = old.ask("app", Operation(3, Kind.WRITE, 3, 0, b"two "))
    delayed = new.ask("app", Operation(4, Kind.WRITE, 3, 0, b"three"))
    assert (old.mode("app"), new.mode("app")) == (Mode.HANDOFF, Mode.RESTORE)
    assert not dirty.done()
    assert not delayed.done()
    sent: list[bytes] = []
    old.send_handoff(handoff, sent.append)
    assert new.restore_handoff("app", sent[0]) == 2, "one of each queue"
    assert (old.mode("app"), new.mode("app")) == (Mode.GONE, Mode.NORMAL)
    with pytest.raises(HandoffOver):
        dirty.result(1)
    assert delayed.result(1).position == 13
    assert new.ask("app", Operation(3, Kind.WRITE, 3, 0, b"two ")).result(1).value == 4
    with open_file(home.join("other").node, "f") as file:
        assert file.read() == "one two three"


def test_a_handoff_that_nobody_takes_is_taken_back(home: Home) -> None:
    home.add()
    old = Host(home.join("edge1").node)
    session = MobileSession(old, "app")
    file = session.open("f", os.O_RDWR | os.O_CREAT)
    session.write(file, b"one ")

    class Full(Host):
        def restore_handoff(self, name: str, data: bytes) -> int:
            raise OSError(28, "no room")

    with pytest.raises(OSError, match="no room"):
        session.move(Full(home.join("edge2").node))
    session.write(file, b"two")
    session.seek(file, 0)
    assert session.read(file, 100) == b"one two"


def at_a_rate(session: MobileSession, file: int, until: threading.Event) -> int:
    """Write numbered lines, RATE a second, without waiting for answers; how many."""
    began = time.monotonic()
    posted: list[int] = []
    while not until.is_set():
        posted.append(session.post(Kind.WRITE, file, data=b"%08d\n" % len(posted)))
        time.sleep(max(0.0, began + len(posted) / RATE - time.monotonic()))
    assert all(session.result(each).value == 9 for each in posted)
    return len(posted)


def test_an_application_moves_while_it_writes_and_loses_nothing(home: Home) -> None:
    home.add()
    hosts = [Host(home.join(f"edge{turn}").node) for turn in (1, 2)]
    session = MobileSession(hosts[0], "app")
    file = session.open("f", os.O_RDWR | os.O_CREAT)
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(at_a_rate, session, file, stop)
        for turn in range(1, 7):
            time.sleep(0.3)
            session.move(hosts[turn % 2])
        stop.set()
        count = written.result(60)
    session.sync(file)
    assert count > RATE / 2
    assert (home.root / "f").read_bytes() == lines(count)
    session.close(file)


def test_the_old_node_is_lost_in_the_middle_and_nothing_is(home: Home) -> None:
    """Home goes on without it from its log, and the new one does again what home has perhaps
    not."""
    home.add()
    lost = home.join("edge1")
    session = MobileSession(Host(lost.node), "app")
    file = session.open("f", os.O_RDWR | os.O_CREAT)
    session.write(file, b"%08d\n" % 0)
    session.sync(file)
    stop = threading.Event()
    posted: list[int] = []

    def write() -> None:
        while not stop.is_set():
            line = len(posted) + 1
            posted.append(session.post(Kind.WRITE, file, data=b"%08d\n" % line))
            time.sleep(1 / RATE)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    time.sleep(0.5)
    lost.cut_off()
    time.sleep(0.2)
    session.recover(Host(home.join("edge2").node))
    time.sleep(0.5)
    stop.set()
    thread.join(30)
    assert all(session.result(each).value == 9 for each in posted)
    session.sync(file)
    assert (home.root / "f").read_bytes() == lines(len(posted) + 1)


# Who says that a node is lost.


class Told:
    """A detector that somebody tells, say the network that nodes are in."""

    def __init__(self) -> None:
        self.dead: set[str] = set()

    def over(self, node: Suspect, lease: float) -> str | None:
        return "the network says so" if node.name in self.dead else node.over(lease * 1000)


def test_home_takes_another_detector(home: Home, short_path: Path) -> None:
    home.shares.close()
    told = Told()
    home.shares = Shares(home.shelf, short_path / "s", LEASE, told)
    home.shares.add(ShareRecord("photos", str(home.root)))
    lost, other = home.join("edge1"), home.join("edge2").node
    with open_file(lost.node, "f", "wb", buffering=0) as file:
        file.write(b"content")
        file.sync()  # type: ignore[attr-defined]
        lost.cut_off()
        assert not eventually(lambda: home.share.lost_since(0), 2.5 * LEASE), "it is only silent"
        told.dead.add("edge1")
        assert eventually(lambda: home.share.lost_since(0))
        (one,) = home.share.lost_since(0)
        assert (one.name, one.why) == ("edge1", "the network says so")
        with open_file(other, "f") as mine:
            assert mine.read() == "content"
