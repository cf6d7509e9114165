# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Locks between processes, through the session.

No process is started while this one, which serves the mount, has a file of it open: the child would
close it before its exec, and be answered by nobody, because the interpreter waits for that exec.
"""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.fuse.conftest import Mounter
from tests.shares.fuse.passthrough import Passthrough

pytestmark = requires("fuse", "fusermount3")

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.{kind}(file, fcntl.LOCK_EX{range})
print("locked", flush=True)
sys.stdin.read()
"""
WAIT = """
import fcntl, signal, sys
def interrupted(*_):
    raise InterruptedError
signal.signal(signal.SIGALRM, interrupted)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    fcntl.{kind}(open(sys.argv[1], "r+b"), fcntl.LOCK_EX)
except InterruptedError:
    print("interrupted")
"""


class Holder:
    """Another process that has the lock until `release`."""

    def __init__(self, path: Path, kind: str, where: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD.format(kind=kind, range=where), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"locked\n"

    def release(self) -> None:
        self.process.communicate()


@pytest.fixture(params=["lockf", "flock"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_lock_excludes_another_process(mount: Mounter, tree: Passthrough, kind: str) -> None:
    path = mount(tree).path / "file"
    path.touch()
    take = fcntl.lockf if kind == "lockf" else fcntl.flock
    holder = Holder(path, kind)
    with path.open("r+b") as file:
        with pytest.raises(BlockingIOError):
            take(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder.release()
        take(file, fcntl.LOCK_EX)  # it waits: the kernel may tell of a close after the close
        take(file, fcntl.LOCK_UN)


def test_a_lock_is_waited_for(mount: Mounter, tree: Passthrough, kind: str) -> None:
    """While it is waited for, the session answers others, even with one thread for them."""
    path = mount(tree).path / "file"
    path.touch()
    take = fcntl.lockf if kind == "lockf" else fcntl.flock
    holder = Holder(path, kind)
    got: list[bool] = []

    def wait() -> None:
        with path.open("r+b") as file:
            take(file, fcntl.LOCK_EX)
            got.append(True)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert path.read_bytes() == b""
    assert got == []
    holder.release()
    for thread in threads:
        thread.join()
    assert got == [True] * 3


def test_who_waits_for_a_lock_is_interrupted(mount: Mounter, tree: Passthrough, kind: str) -> None:
    path = mount(tree).path / "file"
    path.touch()
    holder = Holder(path, kind)
    argv = [sys.executable, "-c", WAIT.format(kind=kind), str(path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted\n"
    holder.release()


def test_ranges_are_locked_and_told(mount: Mounter, tree: Passthrough) -> None:
    path = mount(tree).path / "file"
    path.write_bytes(b"x" * 100)
    script = """
import fcntl, struct, sys
with open(sys.argv[1], "r+b") as file:
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    print(struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))[:4])
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
    print("other range")
"""
    holder = Holder(path, "lockf", ", 20, 30")
    argv = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    holder.release()
    assert done.stdout == f"({fcntl.F_WRLCK}, 0, 30, 20)\nother range\n"


def test_a_session_stops_while_a_lock_is_waited_for(mount: Mounter, tree: Passthrough) -> None:
    mounted = mount(tree)
    path = mounted.path / "file"
    path.touch()
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    fcntl.flock(first, fcntl.LOCK_EX)
    failed: list[OSError] = []

    def wait() -> None:
        try:
            fcntl.flock(second, fcntl.LOCK_EX)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    mounted.session.close()
    thread.join()
    assert len(failed) == 1
    for descriptor in (first, second):
        try:
            os.close(descriptor)
        except OSError as error:
            failed.append(error)
