# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What sessions answer without their node is what the node would have answered."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shares.fuse import MountSession, Window
from shares.node import ROOT, Node
from shares.protocol import BLOCK, FileId, Push
from tests.needs import requires
from tests.shares.node.conftest import NodesHome, watched
from tests.waiting import eventually

pytestmark = requires("fuse", "fusermount3")


@dataclass
class Place:
    """A node and where its session is mounted. windows: those that it has made"""

    node: Node
    path: Path
    session: MountSession
    thread: threading.Thread
    windows: list[Window] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return sum(window.reads + window.writes for window in self.windows)

    @property
    def hub(self) -> object:
        return self.node.hub

    def open(self, name: str = "file", flags: int = os.O_RDWR | os.O_CREAT) -> int:
        return os.open(self.path / name, flags)

    def posted(self, kind: type) -> list[object]:
        return [m for m in watched(self.node).posted if isinstance(m, kind)]


Mount = Callable[..., Place]


@pytest.fixture
def home(tmp_path: Path, patient: None) -> Iterator[NodesHome]:
    made = NodesHome(tmp_path, policy="write-invalidate")
    yield made
    made.close()


@pytest.fixture
def mount(home: NodesHome, tmp_path: Path) -> Iterator[Mount]:
    places: list[Place] = []

    def one(limit: int = 1 << 24, wait: float | None = 10.0) -> Place:
        windows = list[Window]()

        def make(descriptor: int, size: int) -> Window:
            windows.append(Window(descriptor, size))
            return windows[-1]

        node = home.node(limit, wait, make)
        path = tmp_path / f"mounted{node.hub.node}"
        path.mkdir()
        session = MountSession(node, path)
        thread = threading.Thread(target=session.run)
        thread.start()
        places.append(Place(node, path, session, thread, windows))
        return places[-1]

    yield one
    for place in places:
        watched(place.node).mend()
        place.session.close()
        place.thread.join()


def answers(place: Place, act: Callable[[], object]) -> bool:
    """Whether no node was asked for what is done."""
    before = place.answered
    act()
    return place.answered > before


def logged(home: NodesHome, node: Node) -> int:
    """How many writes of the node home has been told for its log."""
    return home.share.sessions[node.hub.node].traffic["in", "LogWrite"]


def shared(one: Place, two: Place, content: bytes) -> tuple[int, int]:
    """A file that both have open, with that content; the first one owns all of it."""
    first = one.open()
    second = two.open()
    os.pwrite(first, content, 0)
    assert os.pread(second, len(content), 0) == content
    os.pwrite(first, content, 0)
    return first, second


def test_a_native_file_is_written_and_read_without_asking(mount: Mount, home: NodesHome) -> None:
    one, two = mount(), mount()
    file = one.open()
    content = random.Random(1).randbytes(10 * BLOCK + 17)
    assert answers(one, lambda: os.write(file, content[:5000]))
    assert answers(one, lambda: os.write(file, content[5000:]))
    assert answers(one, lambda: os.pwrite(file, b"far", 30 * BLOCK + 5))
    expected = content + bytes(30 * BLOCK + 5 - len(content)) + b"far"
    assert answers(one, lambda: os.pread(file, 10, 0))
    assert os.pread(file, 1 << 20, 0) == expected
    assert os.fstat(file).st_size == len(expected)
    before = time.time_ns()
    os.pwrite(file, b"!", 0)
    expected = b"!" + expected[1:]
    with (two.path / "file").open("rb", buffering=0) as other:
        assert other.read() == expected
        status = os.fstat(other.fileno())
        assert (status.st_size, status.st_mtime_ns >= before) == (len(expected), True)
        os.pwrite(file, b"?", BLOCK)
        os.lseek(other.fileno(), BLOCK, os.SEEK_SET)
        assert other.read(1) == b"?"
    os.close(file)
    assert eventually(lambda: home.share.tree.read(FileId(2), 0, 2) == b"!" + content[1:2])


def test_a_native_file_of_homes_is_whole_when_all_of_it_is_here(
    mount: Mount, home: NodesHome
) -> None:
    one, two = mount(), mount()
    content = random.Random(2).randbytes(200 * BLOCK)
    (two.path / "file").write_bytes(content)
    (found,) = home.share.tree.entries(ROOT)
    made = found.attributes.file
    # The kernel does not wait for a release; and then the other node gives the file up.
    assert eventually(lambda: not two.node.uses.of(made).handles)
    file = one.open()
    assert eventually(lambda: home.share.coherence.directory.native(made) == one.node.hub.node)
    os.pread(file, BLOCK, 0)
    assert not one.windows[-1].whole
    assert os.pread(file, len(content), 0) == content
    window = one.windows[-1]
    assert answers(one, lambda: os.pread(file, BLOCK, 50 * BLOCK))
    # It is looked at once in a second, and where a program asks.
    handle = one.node.open(FileId(os.fstat(file).st_ino), os.O_RDONLY).number
    assert eventually(lambda: bool(one.node.read(handle, 0, 1)) and window.whole)
    one.node.release(handle, 0)
    os.close(file)
    file = one.open()
    assert one.windows[-1].whole
    assert answers(one, lambda: os.pread(file, BLOCK, 50 * BLOCK))
    assert os.pread(file, BLOCK, 50 * BLOCK) == content[50 * BLOCK : 51 * BLOCK]
    os.close(file)


def test_what_another_node_writes_is_read_at_once(mount: Mount) -> None:
    one, two = mount(), mount()
    first, second = shared(one, two, b"x" * (4 * BLOCK))
    for turn in range(20):
        value = b"%08d" % turn
        assert os.pwrite(first, b"0", BLOCK) == 1
        assert os.pwrite(first, b"0", 2 * BLOCK) == 1
        assert answers(one, lambda: os.pwrite(first, value, BLOCK))  # noqa: B023
        assert answers(one, lambda: os.pwrite(first, value, 2 * BLOCK))  # noqa: B023
        assert os.pread(second, 8, BLOCK) == value
        assert answers(two, lambda: os.pread(second, 8, BLOCK))
        assert os.pread(second, 8, 2 * BLOCK) == value
        os.pwrite(second, value[::-1], 3 * BLOCK)
        assert os.pread(first, 8, 3 * BLOCK) == value[::-1]


def test_sizes_and_times_that_another_node_makes_are_seen_at_once(mount: Mount) -> None:
    one, two = mount(), mount()
    first, second = shared(one, two, b"x" * 100)
    for size in (5000, 9000, 200, 20000):
        os.ftruncate(second, size)
        assert len(os.pread(first, 1 << 20, 0)) == size
        assert os.fstat(first).st_size == size
        assert answers(one, lambda: os.pread(first, 1 << 20, 0))
        os.pwrite(first, b"end", size)
        assert os.fstat(second).st_size == size + 3
        assert os.pread(second, 10, size) == b"end"
    before = time.time_ns()
    os.pwrite(first, b"y", 0)
    assert answers(one, lambda: os.pwrite(first, b"z", 0))
    assert os.fstat(first).st_mtime_ns >= before
    assert os.fstat(second).st_mtime_ns >= before
    os.utime(one.path / "file", ns=(5, 7))
    assert os.fstat(second).st_mtime_ns == 7


def test_a_copy_is_not_read_after_the_lease(mount: Mount, home: NodesHome) -> None:
    """Home went on without the node, which hears nothing of it."""
    home.begin_again(lease=0.9)
    one, two = mount(), mount(wait=0.3)
    first, second = shared(one, two, b"old" + bytes(BLOCK))
    assert os.pread(second, 3, 0) == b"old"
    assert eventually(lambda: answers(two, lambda: os.pread(second, 3, 0)))
    time.sleep(1.0)  # the lease is home's by now, and goes on
    assert eventually(lambda: answers(two, lambda: os.pread(second, 3, 0)))
    hub = watched(two.node)
    hub.cut()
    time.sleep(home.lease + 0.1)
    home.lose(hub)
    os.pwrite(first, b"new", 0)
    with pytest.raises(OSError, match="Input/output") as caught:
        os.pread(second, 3, 0)
    assert caught.value.errno == errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        os.pwrite(second, b"late", 0)
    two.node.rejoin(home.join_again(hub))
    assert os.pread(second, 3, 0) == b"new"


def test_what_was_written_before_the_lease_was_over_is_brought(
    mount: Mount, home: NodesHome
) -> None:
    one, two = mount(), mount()
    first, second = shared(one, two, b"a" * (3 * BLOCK))
    os.pwrite(first, b"1", BLOCK)
    assert answers(one, lambda: os.pwrite(first, b"b" * BLOCK, BLOCK))
    native = one.open("native")
    assert answers(one, lambda: os.pwrite(native, b"n" * 5000, 0))
    hub = watched(one.node)
    hub.cut()
    assert answers(one, lambda: os.pwrite(first, b"c", BLOCK))
    home.lose(hub)
    one.node.rejoin(home.join_again(hub))
    assert os.pread(second, 3, BLOCK - 1) == b"acb"
    assert (two.path / "native").read_bytes() == b"n" * 5000
    os.pwrite(second, b"d", BLOCK)
    assert os.pread(first, 2, BLOCK) == b"db"


def test_fsync_brings_home_what_was_written(mount: Mount, home: NodesHome) -> None:
    one, two = mount(), mount()
    first, second = shared(one, two, b"a" * BLOCK)
    assert answers(one, lambda: os.pwrite(first, b"b", 5))
    os.fsync(first)
    (found,) = [e.attributes.file for e in home.share.tree.entries(ROOT)]
    assert home.share.tree.read(found, 0, 10) == b"aaaaabaaaa"
    os.close(second)
    native = one.open("native")
    assert answers(one, lambda: os.write(native, b"n" * 9000))
    os.fsync(native)
    file = home.share.tree.lookup(ROOT, b"native").attributes.file
    assert home.share.tree.read(file, 0, 9000) == b"n" * 9000
    assert home.share.blocks.known(home.share.tree.attributes(file)).size == 9000


@pytest.mark.parametrize("policy", ["delayed-update", "write-update", "write-invalidate"])
def test_pushes_are_those_of_a_node_that_is_asked(
    mount: Mount, home: NodesHome, policy: str
) -> None:
    """As often as one node writes a block between two reads of the other one."""
    home.set(policy=policy)
    one, two = mount(), mount()
    asking = one.open("asked")
    file, asked = os.fstat(asking).st_ino, one.node.open
    first, second = one.open("file"), two.open("file")
    other = two.open("asked")
    handle = asked(FileId(file), os.O_RDWR).number
    for descriptor in (asking, first):
        os.pwrite(descriptor, bytes(BLOCK), 0)
    pushes = []
    for writes in (1, 3, 3, 3, 5, 2, 4, 4, 1, 0, 6):
        for turn in range(writes):
            os.pwrite(first, b"%d" % turn, 0)
        through_window = len(one.posted(Push))
        for turn in range(writes):
            one.node.write(handle, 0, b"%d" % turn)
        by_asking = len(one.posted(Push)) - through_window
        pushes.append((through_window, by_asking))
        assert os.pread(second, 9, 0) == os.pread(other, 9, 0)
        watched(one.node).posted.clear()
    assert [mine for mine, _ in pushes] == [asked for _, asked in pushes]
    assert any(mine for mine, _ in pushes) == (policy != "write-invalidate")
    assert one.answered > (0 if policy == "write-update" else 10)


def test_logged_writes_are_not_answered_before_they_are_logged(
    mount: Mount, home: NodesHome
) -> None:
    home.set(log="sync")
    one, two = mount(), mount()
    first, _ = shared(one, two, b"a" * BLOCK)
    native = one.open("native")
    for turn in range(20):
        before = logged(home, one.node)
        os.pwrite(first, b"%d" % turn, 0)
        os.pwrite(native, b"%d" % turn, 0)
        assert logged(home, one.node) >= before + 2
        assert os.pread(native, 9, 0) == os.pread(first, 2, 0).strip(b"a")
    assert sum(window.writes for window in one.windows) == 0
    assert answers(one, lambda: os.pread(first, 2, 0))
    assert answers(one, lambda: os.pread(native, 2, 0))


def test_what_is_not_logged_yet_is_not_read(mount: Mount, home: NodesHome) -> None:
    home.set(log="sync")
    one, two = mount(), mount()
    first, _ = shared(one, two, b"old" + bytes(BLOCK))
    assert os.pread(first, 3, 0) == b"old"
    assert answers(one, lambda: os.pread(first, 3, 0))
    watched(one.node).cut()
    writer = threading.Thread(target=os.pwrite, args=(first, b"new", 0))
    writer.start()
    assert eventually(lambda: one.node.content.unconfirmed == 1)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(os.pread(first, 3, 0)))
    reader.start()
    reader.join(0.5)
    assert not seen
    watched(one.node).mend()
    for thread in (writer, reader):
        thread.join()
    assert seen == [b"new"]


def test_a_native_file_that_another_node_opens_is_written_by_asking(mount: Mount) -> None:
    """Home has all of it, so nothing of the first node's is asked for."""
    one, two = mount(), mount()
    first = one.open()
    os.write(first, b"a" * (3 * BLOCK))
    os.fsync(first)
    assert answers(one, lambda: os.pwrite(first, b"a", 0))
    os.fsync(first)
    second = two.open()
    assert os.pread(second, 1 << 20, 0) == b"a" * (3 * BLOCK)
    assert not answers(one, lambda: os.pwrite(first, b"b", BLOCK))
    assert os.pread(second, 3, BLOCK - 1) == b"aba"


def test_what_is_written_through_a_window_is_soon_at_home(mount: Mount, home: NodesHome) -> None:
    home.begin_again(lease=0.6)
    one, two = mount(), mount()
    first, _ = shared(one, two, b"a" * BLOCK + b"tail")
    file = FileId(os.fstat(first).st_ino)
    assert answers(one, lambda: os.pwrite(first, b"b", 7))
    assert eventually(lambda: home.share.tree.read(file, 7, 1) == b"b")
    os.pwrite(first, b"T", BLOCK)
    assert answers(one, lambda: os.pwrite(first, b"L", BLOCK + 3))
    assert eventually(lambda: home.share.tree.read(file, BLOCK, 4) == b"TaiL")


def test_a_file_as_long_as_homes_log_may_lag_is_written_again_without_asking(
    mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had been asked for and flushed counted on: each pass asked, and waited for a flush."""
    blocks = 16
    for module in ("copies", "content"):
        monkeypatch.setattr(f"shares.node.content.{module}.LAG_BYTES", blocks * BLOCK)
    one = mount()
    collect = one.node.content.table.collect
    monkeypatch.setattr(one.node.content.table, "collect", lambda: None)  # by heartbeats
    handle = one.open()
    for turn in range(5):
        if turn == 1:
            collect()
        before = one.answered
        for number in range(blocks):
            os.pwrite(handle, os.urandom(BLOCK), number * BLOCK)
    assert one.answered == before + blocks


def test_a_buffer_that_is_too_small_only_costs_messages(mount: Mount) -> None:
    one, two = mount(limit=40 * BLOCK), mount(limit=40 * BLOCK)
    blocks = 150
    first, second = shared(one, two, bytes(blocks * BLOCK))
    chance = random.Random(3)
    model = [bytes(8)] * blocks
    for turn in range(1500):
        number = chance.randrange(blocks)
        file = chance.choice((first, second))
        if chance.random() < 0.5:
            model[number] = b"%08d" % turn
            os.pwrite(file, model[number], number * BLOCK)
        else:
            assert os.pread(file, 8, number * BLOCK) == model[number]
    assert one.answered + two.answered > 100


def test_appends_through_a_window_are_at_the_end(mount: Mount) -> None:
    one, two = mount(), mount()
    mine = one.open(flags=os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    expected = b""
    for turn in range(10):
        line = b"mine %d\n" % turn
        assert answers(one, lambda: os.write(mine, line))  # noqa: B023
        expected += line
    with (two.path / "file").open("ab", buffering=0) as other:
        other.write(b"other\n")
        os.write(mine, b"both\n")
    expected += b"other\nboth\n"
    two.node.handles.close_idle(FileId(os.fstat(mine).st_ino))
    for turn in range(10):
        line = b"again %d\n" % turn
        os.write(mine, line)
        expected += line
    assert (one.path / "file").read_bytes() == expected
    assert (two.path / "file").read_bytes() == expected


def test_programs_that_ask_and_programs_that_do_not_see_one_file(mount: Mount) -> None:
    """The node's own file API beside a mount, and a file that gets longer in both ways."""
    one = mount()
    file = one.open()
    os.write(file, b"a" * 100)
    handle = one.node.open(FileId(os.fstat(file).st_ino), os.O_RDWR | os.O_APPEND).number
    for turn in range(20):
        os.lseek(file, 0, os.SEEK_END)
        os.write(file, b"m" * (turn * 300))
        assert one.node.write(handle, 0, b"n" * (turn * 100)) == turn * 100
    size = 100 + sum(turn * 400 for turn in range(20))
    assert os.fstat(file).st_size == size
    assert one.node.read(handle, 0, 1 << 20) == os.pread(file, 1 << 20, 0)
    assert os.pread(file, 1 << 20, 0).count(b"n") == sum(turn * 100 for turn in range(20))
    os.ftruncate(file, 50)
    os.ftruncate(file, 10000)
    os.pwrite(file, b"end", 20000)
    assert os.pread(file, 1 << 20, 0) == b"a" * 50 + bytes(19950) + b"end"
