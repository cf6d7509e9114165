# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""File sessions of applications, and how they move between nodes."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from satchel.errors import ConflictError, IntegrityError, StateError
from shares.node import open_file
from shares.session import (
    HandoffOver,
    HandoffRefused,
    Mode,
    OperationKind,
    OperationReply,
    SessionHost,
    SessionOperation,
)
from tests.homeserver.shares.conftest import Home
from tests.waiting import eventually

RATE = 200
APP = "app"
CREATE = os.O_RDWR | os.O_CREAT
REPOSITORY = Path(__file__).parents[3]
EXAMPLE = REPOSITORY / "docs" / "examples" / "handoff" / "handoff.py"


def lines(count: int) -> bytes:
    return b"".join(b"%08d\n" % line for line in range(count))


def asks(
    host: SessionHost, kind: OperationKind, number: int, value: int = 0, data: bytes = b""
) -> OperationReply:
    """Return the answer to an operation that succeeds."""
    answer = host.ask(APP, SessionOperation(kind, number, value, data)).result(60)
    assert not answer.error, os.strerror(answer.error)
    return answer


def fails(
    host: SessionHost, kind: OperationKind, number: int, value: int = 0, data: bytes = b""
) -> int:
    """Return the errno of an operation that fails."""
    error = host.ask(APP, SessionOperation(kind, number, value, data)).result(60).error
    assert error
    return error


def move(old: SessionHost, new: SessionHost) -> int:
    """Hand the session over; the number of operations that waited."""
    here, there = socket.socketpair()
    with here, there, ThreadPoolExecutor(1) as pool:
        restored = pool.submit(new.restore_handoff, APP, there)
        old.send_handoff(old.prepare_handoff(APP), here)
        return restored.result(60)


def test_a_session_has_the_calls_of_files(home: Home) -> None:
    home.add()
    host = SessionHost(home.join("app").node)
    host.begin(APP)
    asks(host, OperationKind.OPEN, 3, CREATE, b"f")
    asks(host, OperationKind.OPEN, 4, os.O_RDONLY, b"f")
    assert asks(host, OperationKind.WRITE, 3, data=b"0123456789").value == 10
    assert asks(host, OperationKind.READ, 4, 4).data == b"0123"
    asks(host, OperationKind.SEEK, 3, 2)
    assert asks(host, OperationKind.READ, 3, 3).data == b"234"
    asks(host, OperationKind.TRUNCATE, 3, 4)
    assert asks(host, OperationKind.READ, 4, 100).data == b""
    asks(host, OperationKind.OPEN, 5, os.O_WRONLY | os.O_APPEND, b"f")
    asks(host, OperationKind.WRITE, 5, data=b"!")
    asks(host, OperationKind.SEEK, 4, 0)
    assert asks(host, OperationKind.READ, 4, 100).data == b"0123!"
    assert fails(host, OperationKind.WRITE, 4, data=b"x") == errno.EBADF
    assert fails(host, OperationKind.OPEN, 6, os.O_RDONLY, b"nothing") == errno.ENOENT
    assert fails(host, OperationKind.OPEN, 5, os.O_RDONLY, b"f") == errno.EBADF
    asks(host, OperationKind.CLOSE, 4)
    assert fails(host, OperationKind.READ, 4, 1) == errno.EBADF
    with pytest.raises(ConflictError):
        host.begin(APP)


def test_the_dirty_queue_and_the_delayed_one(home: Home) -> None:
    """MEFS, Figure 5: an operation that reaches the old node waits, and the new node does it before
    those that reached the new node."""
    home.add()
    old, new = SessionHost(home.join("edge1").node), SessionHost(home.join("edge2").node)
    old.begin(APP)
    asks(old, OperationKind.OPEN, 3, CREATE, b"f")
    assert asks(old, OperationKind.WRITE, 3, data=b"one ").value == 4
    here, there = socket.socketpair()
    with here, there, ThreadPoolExecutor(1) as pool:
        restored = pool.submit(new.restore_handoff, APP, there)
        handoff = old.prepare_handoff(APP)
        dirty = old.ask(APP, SessionOperation(OperationKind.WRITE, 3, data=b"two "))
        assert eventually(lambda: APP in new._sessions)
        delayed = new.ask(APP, SessionOperation(OperationKind.WRITE, 3, data=b"three"))
        assert (old.mode(APP), new.mode(APP)) == (Mode.HANDOFF, Mode.RESTORE)
        assert not dirty.done()
        assert not delayed.done()
        old.send_handoff(handoff, here)
        assert restored.result(60) == 2, "one of each queue"
    assert (old.mode(APP), new.mode(APP)) == (Mode.GONE, Mode.NORMAL)
    with pytest.raises(HandoffOver):
        old.ask(APP, SessionOperation(OperationKind.READ, 3, 1))
    assert delayed.result(1).position == 13
    assert (dirty.result(1).value, dirty.result(1).position) == (4, 8)
    with open_file(home.join("other").node, "f") as file:
        assert file.read() == "one two three"


def test_what_home_lacks_goes_along_when_the_old_node_is_lost(home: Home) -> None:
    home.add()
    lost, new = home.join("edge1"), SessionHost(home.join("edge2").node)
    old = SessionHost(lost.node)
    old.begin(APP)
    asks(old, OperationKind.OPEN, 3, CREATE, b"f")
    asks(old, OperationKind.WRITE, 3, data=b"first ")
    asks(old, OperationKind.SYNC, 3)
    asks(old, OperationKind.WRITE, 3, data=b"second")
    lost.cut_off()
    assert move(old, new) == 0
    assert asks(new, OperationKind.WRITE, 3, data=b" third").position == 18
    asks(new, OperationKind.SYNC, 3)
    assert (home.root / "f").read_bytes() == b"first second third"


def test_a_handoff_that_nobody_takes_is_taken_back(home: Home) -> None:
    home.add()
    old, cut = SessionHost(home.join("edge1").node), home.join("edge2")
    old.begin(APP)
    asks(old, OperationKind.OPEN, 3, CREATE, b"f")
    asks(old, OperationKind.WRITE, 3, data=b"one ")

    new = SessionHost(cut.node)

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    cut.node.open = no_room  # type: ignore[method-assign,assignment]
    here, there = socket.socketpair()
    with here, there, ThreadPoolExecutor(1) as pool:
        restored = pool.submit(new.restore_handoff, APP, there)
        handoff = old.prepare_handoff(APP)
        waits = old.ask(APP, SessionOperation(OperationKind.WRITE, 3, data=b"two"))
        with pytest.raises(HandoffRefused):
            old.send_handoff(handoff, here)
        with pytest.raises(OSError, match="no room"):
            restored.result(60)
    with pytest.raises(StateError):
        old.prepare_handoff(APP)
    old.cancel_handoff(handoff)
    assert waits.result(1).position == 7
    asks(old, OperationKind.SEEK, 3, 0)
    assert asks(old, OperationKind.READ, 3, 100).data == b"one two"


@pytest.mark.parametrize("sent", [b"", b"\7", bytes(8), b"\5" + bytes(7) + b"wrong", b"\377" * 8])
def test_half_a_handoff_is_none(home: Home, sent: bytes) -> None:
    home.add()
    new = SessionHost(home.join("edge2").node)
    here, there = socket.socketpair()
    with there, ThreadPoolExecutor(1) as pool:
        restored = pool.submit(new.restore_handoff, APP, there)
        assert eventually(lambda: APP in new._sessions)
        waits = new.ask(APP, SessionOperation(OperationKind.READ, 3, 1))
        here.sendall(sent)
        here.close()
        with pytest.raises((OSError, IntegrityError)):
            restored.result(60)
    with pytest.raises(HandoffOver):
        waits.result(1)
    new.begin(APP)


def test_an_application_moves_while_it_writes_and_loses_nothing(home: Home) -> None:
    home.add()
    hosts = [SessionHost(home.join(f"edge{turn}").node) for turn in (1, 2)]
    hosts[0].begin(APP)
    asks(hosts[0], OperationKind.OPEN, 3, CREATE, b"f")
    stop = threading.Event()

    def write_at_a_rate() -> int:
        """Write numbered lines, RATE a second, without waiting for answers; how many."""
        began = time.monotonic()
        answers: list[Future[OperationReply]] = []
        at = 0
        while not stop.is_set():
            write = SessionOperation(OperationKind.WRITE, 3, data=b"%08d\n" % len(answers))
            try:
                answers.append(hosts[at].ask(APP, write))
            except HandoffOver:
                at = 1 - at
                continue
            time.sleep(max(0.0, began + len(answers) / RATE - time.monotonic()))
        assert all(answer.result(60).value == 9 for answer in answers)
        return len(answers)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write_at_a_rate)
        for turn in range(6):
            time.sleep(0.3)
            move(hosts[turn % 2], hosts[1 - turn % 2])
        stop.set()
        count = written.result(60)
    asks(hosts[0], OperationKind.SYNC, 3)
    assert count > RATE / 2
    assert (home.root / "f").read_bytes() == lines(count)
    asks(hosts[0], OperationKind.CLOSE, 3)


def test_the_example_moves_and_loses_nothing(home: Home, short_path: Path, tmp_path: Path) -> None:
    home.add()
    argv = [sys.executable, str(EXAMPLE), str(short_path / "s"), "photos", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    said = subprocess.check_output(argv, env=environment, text=True, timeout=120)
    assert said == "200 lines, the session is gone at the old node\n"
    expected = b"".join(b"line %d\n" % number for number in range(200))
    assert (home.root / "journal").read_bytes() == expected
