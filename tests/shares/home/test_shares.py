# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A share with several nodes, in one process, on real files."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shares.home import share_status
from shares.home.nodes.detector import MARGIN
from shares.node import ROOT, Buffer, Changes, LockKind, Node
from shares.node.content import content
from shares.protocol import BLOCK, HOME, Action, FileId
from tests.shares.home.homes import LEASE, LocalHome, unreached
from tests.waiting import eventually

READ_WRITE = os.O_RDWR
UID, GID = os.getuid(), os.getgid()


def make(node: Node, name: bytes = b"file", content: bytes = b"") -> tuple[FileId, int]:
    entry, handle = node.create(ROOT, name, 0o644, READ_WRITE, UID, GID)
    if content:
        node.write(handle.number, 0, content)
    return entry.attributes.file, handle.number


def test_what_one_node_writes_the_other_reads_at_once(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file, writer = make(one, content=b"before")
    reader = two.open(file, os.O_RDONLY).number
    for turn in range(30):
        content = f"turn {turn}".encode() * (turn * 50 + 1)
        one.write(writer, 0, content)
        assert two.read(reader, 0, 1 << 20)[: len(content)] == content
        assert two.attributes(file, reader).size == one.attributes(file, writer).size


def test_a_closed_file_is_in_homes_folder_and_as_long_as_it_should_be(home: LocalHome) -> None:
    home.add()
    one = home.join("one").node
    content = random.Random(2).randbytes(700 * BLOCK + 1)
    _, handle = make(one, content=content)
    one.release(handle, 0)
    assert eventually(lambda: (home.root / "file").read_bytes() == content)


def test_a_file_that_was_there_before_is_read_by_every_node(home: LocalHome) -> None:
    content = random.Random(3).randbytes(100_000)
    (home.root / "file").write_bytes(content)
    home.add()
    for name in ("one", "two"):
        node = home.join(name).node
        file = node.lookup(ROOT, b"file").attributes.file
        assert node.read(node.open(file, os.O_RDONLY).number, 0, 1 << 20) == content


def test_names_that_one_node_changes_are_changed_for_the_other(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    for turn in range(20):
        with pytest.raises(FileNotFoundError):
            two.lookup(ROOT, b"name")
        file, handle = make(one, b"name")
        one.release(handle, 0)
        assert two.lookup(ROOT, b"name").attributes.file == file
        one.change(file, Changes(mode=0o600 + turn), None)
        assert two.attributes(file, None).mode & 0o777 == 0o600 + turn
        two.rename(ROOT, b"name", ROOT, b"other", 0)
        with pytest.raises(FileNotFoundError):
            one.lookup(ROOT, b"name")
        one.unlink(ROOT, b"other")


def test_a_size_is_the_latest_for_who_has_not_opened_the_file(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file, handle = make(one, content=b"x" * 10)
    assert two.lookup(ROOT, b"file").attributes.size == 10
    one.write(handle, 0, b"y" * 10_000)
    assert two.attributes(file, None).size == 10_000


def test_three_nodes_append_at_once_and_nothing_is_lost(home: LocalHome) -> None:
    home.add()
    nodes = [home.join(str(n)).node for n in range(3)]
    file, first = make(nodes[0])
    nodes[0].release(first, 0)

    def append(which: int) -> None:
        handle = nodes[which].open(file, os.O_WRONLY | os.O_APPEND).number
        for line in range(30):
            text = f"{which}:{line}:{'x' * (line * 7)}\n".encode()
            assert nodes[which].write(handle, 0, text) == len(text)
        nodes[which].release(handle, 0)

    run_all([lambda which=which: append(which) for which in range(3)])  # type: ignore[misc]
    expected = sorted(
        f"{which}:{line}:{'x' * (line * 7)}" for which in range(3) for line in range(30)
    )
    # A write that the policy pushed is on its way home, and a close does not wait for its answer.
    assert eventually(lambda: sorted((home.root / "file").read_text().splitlines()) == expected), (
        home.root / "file"
    ).read_text()


def run_all(tasks: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(tasks)) as threads:
        for task in [threads.submit(task) for task in tasks]:
            task.result(60)


def test_an_answer_that_is_too_long_is_an_error_and_not_silence(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.add()
    node = home.join().node
    for number in range(50):
        (home.root / f"file {number}").touch()
    assert len(node.hub.entries(ROOT, 0)) == 50
    monkeypatch.setattr("shares.home.nodes.session.ANSWER_LIMIT", 1000)
    with pytest.raises(OSError) as refused:
        node.entries(ROOT)
    assert refused.value.errno == errno.EOVERFLOW


def test_a_fault_of_homes_own_is_an_error_and_not_silence(home: LocalHome) -> None:
    """A damaged index raises what is no OSError."""
    home.add()
    node = home.join().node
    home.share.tree._index._base.execute("DROP TABLE names")
    with pytest.raises(OSError) as refused:
        node.make_folder(ROOT, b"sub", 0o755, UID, GID)
    assert refused.value.errno == errno.EIO


def test_a_node_that_cannot_answer_is_lost_and_holds_nobody_up(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one"), home.join("two").node
    file, handle = make(one.node, content=b"written here")
    one.node.sync(handle, False)

    def fault(payload: bytes, reply: object) -> None:
        raise ValueError("a fault of the node's")

    one.membership.serve(fault)
    one.gone = True
    assert two.read(two.open(file, os.O_RDONLY).number, 0, 99) == b"written here"
    assert [session.name for session in home.share.sessions.values()] == ["two"]


def test_locks_are_homes_and_fair(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file, first = make(one)
    second = two.open(file, READ_WRITE).number
    one.set_lock(first, 1, 0, 99, LockKind.WRITE, 11, False)
    assert two.get_lock(second, 1, 50, 60, LockKind.READ) == (0, 99, LockKind.WRITE, 11)
    with pytest.raises(OSError) as refused:
        two.set_lock(second, 1, 50, 60, LockKind.READ, 22, False)
    assert refused.value.errno == errno.EAGAIN
    two.set_lock(second, 1, 100, 200, LockKind.WRITE, 22, False)
    got: list[int] = []

    def wait(node: Node, handle: int, pid: int) -> None:
        node.set_lock(handle, pid, 0, 0, LockKind.WRITE, pid, True)
        got.append(pid)
        node.set_lock(handle, pid, 0, 0, LockKind.UNLOCK, pid, False)

    with ThreadPoolExecutor(6) as threads:
        waiting = []
        for pid in range(100, 106):
            node, handle = (one, first) if pid % 2 else (two, second)
            waiting.append(threads.submit(wait, node, handle, pid))
            assert eventually(lambda: waits(home) == len(waiting))
        one.set_lock(first, 1, 0, 99, LockKind.UNLOCK, 11, False)
        for task in waiting:
            task.result(20)
    assert got == list(range(100, 106))


def waits(home: LocalHome) -> int:
    return sum(map(len, home.share.locks._waiting.values()))


def test_a_deadlock_of_locks_is_refused(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file, first = make(one)
    second = two.open(file, READ_WRITE).number
    one.set_lock(first, 1, 0, 9, LockKind.WRITE, 1, False)
    two.set_lock(second, 1, 10, 19, LockKind.WRITE, 2, False)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(one.set_lock, first, 1, 10, 19, LockKind.WRITE, 1, True)
        assert eventually(lambda: waits(home) == 1)
        with pytest.raises(OSError) as refused:
            two.set_lock(second, 1, 0, 9, LockKind.WRITE, 2, True)
        assert refused.value.errno == errno.EDEADLK
        two.set_lock(second, 1, 10, 19, LockKind.UNLOCK, 2, False)
        waiting.result(60)


def test_a_lost_node_leaves_blocks_locks_and_files_to_the_others(home: LocalHome) -> None:
    home.add(log="sync")
    lost, other = home.join("lost", wait=0.5), home.join("other").node
    file, first = make(lost.node, content=b"old" * 2000)
    second = other.open(file, READ_WRITE).number
    assert other.read(second, 0, 3) == b"old"
    lost.node.sync(first, False)
    lost.node.write(first, 5000, b"NEW")
    lost.node.set_lock(first, 1, 0, 9, LockKind.WRITE, 1, False)
    began = time.monotonic()
    lost.cut_off()
    got = other.read(second, 4998, 7)
    assert time.monotonic() - began > LEASE / 2  # not before the lease was over
    assert got == (b"old" * 2000)[4998:5000] + b"NEW" + (b"old" * 2000)[5003:5005]
    other.write(second, 0, b"mine")
    other.set_lock(second, 1, 0, 9, LockKind.WRITE, 2, False)
    assert home.share.blocks.restored.records >= 1
    assert [session.name for session in home.share.sessions.values()] == ["other"]


def test_what_the_only_user_of_a_file_wrote_is_there_under_sync(home: LocalHome) -> None:
    home.add(log="sync")
    lost, other = home.join("lost"), home.join("other").node
    file, handle = make(lost.node)
    content = random.Random(4).randbytes(3 * BLOCK + 5)
    lost.node.write(handle, 0, content)
    lost.cut_off()
    assert other.read(other.open(file, os.O_RDONLY).number, 0, 1 << 20) == content


def test_the_only_user_of_a_file_brings_what_it_wrote_after_its_lease(home: LocalHome) -> None:
    """Home did not say under which grant a native file is written: nothing of it was taken."""
    home.add(log="off")
    one = home.member("one")
    _, handle = make(one.node, content=b"written before the lease was over")
    with unreached(home.lines["one"]):
        assert eventually(lambda: not home.share.sessions)
    assert eventually(lambda: len(home.share.sessions) == 1)
    other = home.join("other").node
    file = other.lookup(ROOT, b"file").attributes.file
    wanted = b"written before the lease was over"
    reader = other.open(file, os.O_RDONLY).number
    assert eventually(lambda: other.read(reader, 0, 99) == wanted)
    assert one.node.read(handle, 0, 99) == wanted
    one.close()


def test_home_has_a_native_file_as_soon_as_another_node_opens_it(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.node.opened.file_handles.WRITE_BACK_SECONDS", 1000.0)
    home.add(log="async")
    one, two = home.join("one").node, home.join("two").node
    file, _ = make(one, content=b"native" * 1000)
    two.open(file, os.O_RDONLY)
    assert eventually(lambda: (home.root / "file").read_bytes() == b"native" * 1000)


def test_home_is_not_far_behind_of_a_native_file(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.node.opened.file_handles.WRITE_BACK_SECONDS", 1000.0)
    monkeypatch.setattr("shares.node.content.content.LAG_BYTES", 8 * BLOCK)
    home.add(log="async")
    one = home.join("one").node
    _, handle = make(one)
    for block in range(100):
        one.write(handle, block * BLOCK, bytes([block]) * BLOCK)
        assert one.status()["files"][0]["home_is_behind_blocks"] <= 8


def test_a_write_that_was_acknowledged_by_the_log_outlasts_home_and_node(home: LocalHome) -> None:
    home.add(log="sync")
    one, two = home.join("one", wait=0.5), home.join("two", wait=0.5)
    file, first = make(one.node, content=bytes(3 * BLOCK))
    second = two.node.open(file, READ_WRITE).number
    for turn in range(100):
        one.node.write(first, turn * 100, b"%03d" % turn)
    assert two.node.read(second, 0, 1) == b"0"
    lag = home.share.log.lag()
    assert lag.records
    for member in (one, two):
        member.cut_off()
    home.begin_again()
    content = (home.root / "file").read_bytes()
    assert all(content[turn * 100 : turn * 100 + 3] == b"%03d" % turn for turn in range(100))
    assert home.share.blocks.replay_seconds >= 0


def test_the_status_says_who_is_behind(home: LocalHome) -> None:
    home.add()
    one, two = home.join("one").node, home.join("two").node
    file, first = make(one, content=bytes(3 * BLOCK))
    second = two.open(file, READ_WRITE).number
    two.read(second, 0, 3 * BLOCK)
    one.write(first, 0, bytes(2 * BLOCK))
    status = share_status(home.share)
    by_name = {node["name"]: node for node in status["nodes"]}
    assert by_name["two"]["behind_blocks"] >= 2
    assert by_name["home"]["behind_bytes"] >= 2 * BLOCK
    assert by_name["one"]["behind_blocks"] == 0
    kinds = {entry["kind"] for entry in status["traffic"]}
    assert {"Acquire", "Invalidate", "create"} <= kinds
    assert status["files"][0]["path"] == "file"


def test_a_node_says_which_files_home_is_behind_of_and_since_when(home: LocalHome) -> None:
    home.add(log="off")
    node = home.join("one").node
    folder = node.make_folder(ROOT, b"deep", 0o755, UID, GID).attributes.file
    _, handle = node.create(folder, b"file", 0o644, READ_WRITE, UID, GID)
    began = time.monotonic()
    node.write(handle.number, 0, bytes(3 * BLOCK))
    time.sleep(0.3)
    (found,) = node.status()["files"]
    assert (found["path"], found["home_is_behind_bytes"]) == ("deep/file", 3 * BLOCK)
    assert 0.3 <= found["home_is_behind_seconds"] <= time.monotonic() - began
    node.content.table.sync(node.content._files[found["file"]])
    (found,) = node.status()["files"]
    assert (found["home_is_behind_blocks"], found["home_is_behind_seconds"]) == (0, 0.0)
    node.write(handle.number, 0, bytes(BLOCK))
    (found,) = node.status()["files"]
    assert found["home_is_behind_seconds"] < 0.3


def test_a_node_is_not_lost_by_how_long_home_takes_over_what_it_said(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To cut a file of 2.5 GB took home longer than a lease; the node's heartbeats were not read
    meanwhile, and the node was taken for silent."""
    home.add()
    one = home.join("one").node
    file, handle = make(one, content=b"x" * BLOCK)
    one.release(handle, 0)
    answer = home.share.coherence.directory.request
    slow, judged = [1.5 * MARGIN * LEASE], []

    def slowly(*arguments: Any) -> list[Action]:
        if slow and arguments[0] != HOME:
            time.sleep(slow.pop())
            judged.append(home.share.sessions[arguments[0]].over(MARGIN * LEASE))
        return answer(*arguments)

    monkeypatch.setattr(home.share.coherence.directory, "request", slowly)
    handle = one.open(file, READ_WRITE).number
    two = home.join("two").node
    other = two.open(file, READ_WRITE).number
    assert two.read(other, 0, 1) == b"x"
    one.write(handle, 0, b"y")
    assert two.read(other, 0, 1) == b"y"
    assert judged == [None]
    assert not share_status(home.share)["taken_over"]


class SlowDisk(Buffer):
    """Takes half a lease to give something back."""

    shrunk = 0

    def shrink(self, file: FileId, size: int, most: int) -> bool:
        self.shrunk += 1
        time.sleep(LEASE / 2)
        return super().shrink(file, size, most)


def test_a_node_is_not_lost_by_how_long_it_takes_to_cut_a_file(
    home: LocalHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel frees a gigabyte of cached pages in a second, if it has nothing else to do."""
    monkeypatch.setattr(content, "TRIMMED", 2 * BLOCK)
    monkeypatch.setattr("shares.node.content.copies.CUT_HERE_BYTES", 0)
    home.add()
    disk = SlowDisk(tmp_path / "slow")
    member = home.join("one", buffer=disk)
    one = member.node
    file, handle = make(one, content=b"x" * 16 * BLOCK)
    one.change(file, Changes(size=0), handle)
    assert disk.shrunk == 8  # four leases
    one.write(handle, 0, b"y")
    two = home.join("two").node
    assert two.read(two.open(file, os.O_RDONLY).number, 0, 9) == b"y"
    assert not member.over
    assert not share_status(home.share)["taken_over"]


def test_home_that_begins_again_gets_what_a_node_wrote(home: LocalHome) -> None:
    """Without a log, too: the node that owned the blocks is there, and joins again."""
    home.add(log="off")
    one, two = home.member("one"), home.member("two")
    file, first = make(one.node, content=b"before")
    second = two.node.open(file, READ_WRITE).number
    assert two.node.read(second, 0, 6) == b"before"
    two.node.write(second, 0, b"after!")
    home.begin_again()
    assert eventually(lambda: len(home.share.sessions) == 2)
    assert one.node.read(first, 0, 6) == b"after!"
    assert two.node.read(second, 0, 6) == b"after!"
    one.close()
    two.close()
    assert (home.root / "file").read_bytes() == b"after!"


def test_home_that_begins_again_does_not_wait_for_a_node_that_is_back_and_has_nothing(
    home: LocalHome,
) -> None:
    home.add()
    idle = home.member("idle")
    home.begin_again()
    home.share.grace._until += 3600.0
    two = home.join("two").node
    make(two, content=b"no hour later")
    assert home.share.grace.over
    idle.close()


def test_a_node_that_leaves_is_not_waited_for(
    home: LocalHome, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    share = home.add()
    staying = home.member("leaves")
    file, handle = make(staying.node, content=b"left behind")
    staying.node.set_lock(handle, 7, 0, 9, LockKind.WRITE, 1, wait=False)
    staying.close()
    assert eventually(lambda: "(leaves): it has left" in caplog.text)
    assert not share.sessions
    two = home.join("two").node
    reader = two.open(file, READ_WRITE).number
    assert two.read(reader, 0, 100) == b"left behind"
    two.set_lock(reader, 7, 0, 9, LockKind.WRITE, 1, wait=False)
