# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The agent's relay of a mount, as a process of the host: the kernel that asks is this host's."""

import fcntl
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from guestshares import SharesLine
from replay import AgentChannel, agent_program
from tests.conftest import requires
from tests.guestshares.share_tree import READ, SETLKW, WRITE, ShareTree
from tests.waiting import eventually

pytestmark = requires("root", "fuse")


@dataclass
class Mounted:
    """An agent whose shares are mounted on this host, and the tree behind them."""

    where: Path
    port: Path
    channel: AgentChannel
    tree: ShareTree

    def names(self) -> list[str]:
        return sorted(path.name for path in self.where.iterdir())

    @contextmanager
    def host(self) -> Iterator[SharesLine]:
        line = SharesLine.attach(self.port, self.channel)
        self.tree.serve(line.session)
        try:
            yield line
        finally:
            line.close()


@pytest.fixture
def mounted(short_path: Path) -> Iterator[Mounted]:
    where, port = short_path / "satchel", short_path / "shares"
    where.mkdir()
    description = short_path / "service"
    description.write_text(f"command=exec sleep 600\nshares={where}\n")
    argv: list[str | Path] = [agent_program(), "--no-init", "--listen", short_path / "agent"]
    argv += ["--shares", port, "--config", description]
    with subprocess.Popen(argv) as process:
        try:
            with AgentChannel.connect(short_path / "agent") as channel:
                channel.hello(20)
                yield Mounted(where, port, channel, ShareTree())
        finally:
            process.terminate()
            process.wait(20)
            subprocess.run(["umount", "-l", where], check=False, capture_output=True)


def test_files_below_the_mount_are_those_of_the_tree(mounted: Mounted) -> None:
    with mounted.host() as line:
        file = mounted.where / "a"
        file.write_bytes(bytes(range(256)) * 3000)
        assert file.read_bytes() == bytes(range(256)) * 3000
        assert mounted.names() == ["a"]
        assert bytes(mounted.tree.files[2]) == bytes(range(256)) * 3000
        with pytest.raises(FileNotFoundError):
            (mounted.where / "none").read_bytes()
        assert line.failure is None


def test_an_open_file_and_its_lock_go_on_with_the_next_host(mounted: Mounted) -> None:
    with mounted.host():
        file = os.open(mounted.where / "a", os.O_RDWR | os.O_CREAT)
        os.write(file, b"first ")
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert mounted.tree.locks
    with mounted.host() as line:
        os.write(file, b"second")
        assert os.pread(file, 100, 0) == b"first second"
        fcntl.lockf(file, fcntl.LOCK_UN)
        assert not mounted.tree.locks
        os.close(file)
        assert line.failure is None
    assert mounted.tree.asked[26] == 2


def test_what_had_no_answer_is_asked_of_the_next_host_once(mounted: Mounted) -> None:
    tree, answers = mounted.tree, []
    with mounted.host():
        file = os.open(mounted.where / "a", os.O_RDWR | os.O_CREAT)
        os.write(file, b"content")
        tree.hold, before = {READ}, tree.asked[READ]
        tree.held.clear()
        asker = threading.Thread(target=lambda: answers.append(os.pread(file, 7, 0)))
        asker.start()
        assert tree.waiting.wait(20)
    tree.hold = set()
    with mounted.host():
        asker.join(20)
        tree.held.set()
        assert answers == [b"content"]
        assert tree.asked[READ] == before + 2
        os.close(file)


def test_requests_made_while_there_is_no_host_wait_for_one(mounted: Mounted) -> None:
    answers: list[bytes] = []
    asker = threading.Thread(
        target=lambda: answers.append(b"%d" % (mounted.where / "b").write_bytes(b"xy"))
    )
    asker.start()
    asker.join(0.3)
    assert asker.is_alive()
    with mounted.host():
        asker.join(20)
        assert answers == [b"2"]


def test_settled_means_that_the_host_has_answered_everything(mounted: Mounted) -> None:
    tree, channel = mounted.tree, mounted.channel
    with mounted.host():
        file = os.open(mounted.where / "a", os.O_RDWR | os.O_CREAT)
        tree.hold = {WRITE}
        tree.held.clear()
        writer = threading.Thread(target=lambda: os.write(file, b"late"))
        writer.start()
        assert tree.waiting.wait(20)
        assert not channel.settle_shares(0.2)
        tree.held.set()
        assert channel.settle_shares(20)
        writer.join(20)
        assert bytes(tree.files[2]) == b"late"
        other = threading.Thread(target=lambda: os.pread(file, 4, 0))
        before = tree.asked[READ]
        other.start()
        other.join(0.2)
        assert other.is_alive()
        assert tree.asked[READ] == before
        channel.resume_shares()
        other.join(20)
        assert tree.asked[READ] == before + 1
        os.close(file)


def test_who_waits_for_a_lock_does_not_hold_up_a_checkpoint(mounted: Mounted) -> None:
    tree = mounted.tree
    with mounted.host():
        file = os.open(mounted.where / "a", os.O_RDWR | os.O_CREAT)
        tree.locks[2] = 12345
        waiter = threading.Thread(target=lambda: fcntl.lockf(file, fcntl.LOCK_EX))
        waiter.start()
        assert eventually(lambda: tree.asked[SETLKW] == 1)
        assert mounted.channel.settle_shares(20)
    tree.locks.clear()
    with mounted.host():
        waiter.join(20)
        assert not waiter.is_alive()
        assert tree.asked[SETLKW] == 2
        os.close(file)


def test_a_host_that_would_promise_something_else_is_not_the_next_one(mounted: Mounted) -> None:
    with mounted.host():
        assert mounted.names() == []
    mounted.tree.flags ^= 1 << 1
    with mounted.host() as line:
        assert eventually(lambda: line.failure is not None)
        assert "another Satchel" in str(line.failure)


def test_a_notice_of_a_session_stays_on_the_host(mounted: Mounted) -> None:
    with mounted.host() as line:
        mounted.names()
        notice = struct.pack("<IiQ", 32, 2, 0) + struct.pack("<QQ", 1, 0)
        line.session.sendall(notice)
        assert mounted.names() == []
        assert line.failure is None


def test_a_task_that_splices_a_file_of_a_share_into_its_output(mounted: Mounted) -> None:
    """The agent reads that pipe, which is locked until the kernel has its answer."""
    with mounted.host():
        file = mounted.where / "a"
        file.write_bytes(b"content" * 1000)
        splice = f"import os; os.splice(os.open({str(file)!r}, 0), 1, 7000)"
        status, output = mounted.channel.run([sys.executable, "-c", splice], 20)
        assert (status, output) == (0, b"content" * 1000)
