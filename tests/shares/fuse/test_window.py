# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a window grants is answered without asking; everything else is asked, to the block."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shares.fuse import Window
from shares.node import Handle
from shares.node.clock import now
from shares.protocol import FileId
from tests.needs import requires
from tests.shares.fuse.conftest import Mounted, Mounter
from tests.shares.fuse.passthrough import Passthrough

BLOCK = 4096
BLOCKS = 16

pytestmark = requires("fuse", "fusermount3")


class Windowed(Passthrough):
    """Each open has the one window; nothing is granted by itself."""

    window: Window
    direct = True

    def open(self, file: FileId, flags: int) -> Handle:
        opened = super().open(file, flags)
        return replace(opened, window=self.window, direct=self.direct)


class Windows:
    """A mounted file of `BLOCKS` blocks, and its window. The window's file has other bytes than
    what is asked for, so that it is seen who answered."""

    def __init__(self, mount: Mounter, tmp_path: Path) -> None:
        root = tmp_path / "behind"
        root.mkdir()
        self.asked = root / "file"
        self.asked.write_bytes(b"p" * BLOCK * BLOCKS)
        self.here = tmp_path / "here"
        self.here.write_bytes(b"w" * BLOCK * BLOCKS)
        self.tree = Windowed(root)
        descriptor = os.open(self.here, os.O_RDWR)
        self.window = self.tree.window = Window(descriptor, BLOCK * BLOCKS)
        os.close(descriptor)
        self.mounted: Mounted = mount(self.tree)
        self.file = os.open(self.mounted.path / "file", os.O_RDWR)

    def read(self, first: int, count: int = 1) -> bytes:
        """Who answered, once."""
        answer = os.pread(self.file, BLOCK * count, BLOCK * first)
        assert len(answer) == BLOCK * count
        return bytes(sorted(set(answer)))

    def write(self, first: int, count: int = 1) -> str:
        before = self.window.writes
        assert os.pwrite(self.file, b"n" * BLOCK * count, BLOCK * first) == BLOCK * count
        return "window" if self.window.writes > before else "asked"


@pytest.fixture
def windows(mount: Mounter, tmp_path: Path) -> Iterator[Windows]:
    made = Windows(mount, tmp_path)
    yield made
    os.close(made.file)


def test_reads_are_answered_where_all_blocks_may_be_read(windows: Windows) -> None:
    windows.window.grant(2, 3)
    assert windows.read(2, 3) == b"w"
    assert windows.read(1, 2) == b"p"
    assert windows.read(4, 2) == b"p"
    assert windows.window.take_used() == [(2, 3)]
    assert windows.window.take_used() == []


def test_writes_are_answered_as_often_as_was_granted(windows: Windows) -> None:
    windows.window.grant(5, 2, writes=3)
    answers = [windows.write(5) for _ in range(4)]
    assert answers == ["window", "window", "window", "asked"]
    assert windows.window.counts(4, 4) == [0, 3, 0, 0]
    assert windows.window.take_dirty() == [(5, 1)]
    assert windows.window.take_dirty() == []
    assert windows.window.take_counts(5, 1) == [3]
    assert windows.write(5) == "window"
    assert windows.window.counts(5, 1) == [1]
    assert windows.here.read_bytes()[5 * BLOCK : 6 * BLOCK] == b"n" * BLOCK


def test_a_write_that_is_asked_is_not_counted(windows: Windows) -> None:
    windows.window.grant(0, 4, writes=1)
    assert windows.write(3) == "window"
    assert windows.write(0, 4) == "asked"
    assert windows.window.counts(0, 4) == [0, 0, 0, 1]
    assert windows.write(0, 3) == "window"


def test_writes_without_a_limit(windows: Windows) -> None:
    windows.window.grant(0, 1, writes=Window.UNLIMITED)
    assert {windows.write(0) for _ in range(50)} == {"window"}
    assert windows.window.counts(0, 1) == [50]


def test_revoked_blocks_are_asked(windows: Windows) -> None:
    windows.window.grant(0, BLOCKS, writes=100)
    windows.window.revoke(3, 2, read=False)
    assert (windows.write(3), windows.read(3)) == ("asked", b"w")
    windows.window.revoke(3, read=True)
    assert (windows.read(3), windows.read(4)) == (b"n", b"w")
    windows.window.revoke_all()
    assert windows.read(0, 3) == b"p"
    assert windows.write(0) == "asked"


def test_a_block_window_ends_at_its_size(windows: Windows) -> None:
    windows.window.grant(0, BLOCKS + 5, writes=100)
    windows.window.resize(BLOCK + 10)
    assert os.pread(windows.file, BLOCK, BLOCK) == b"w" * 10
    assert windows.write(1) == "asked"
    windows.window.resize(2 * BLOCK)
    assert windows.write(1) == "window"


def test_a_whole_file_grows_and_is_given_back(windows: Windows) -> None:
    windows.window.grant_whole(write=True)
    assert windows.window.modified == 0
    end = BLOCK * BLOCKS
    assert os.pwrite(windows.file, b"more", end) == 4
    assert (windows.window.size, windows.here.stat().st_size) == (end + 4, end + 4)
    assert windows.window.modified > 10**18
    assert windows.read(0, BLOCKS) == b"w"
    windows.window.revoke_all(read=False)
    assert (windows.write(0), windows.read(0)) == ("asked", b"w")
    windows.window.revoke_all()
    assert not windows.window.whole
    assert windows.read(1) == b"p"


def test_bytes_are_appended_by_asking_unless_the_file_is_whole(windows: Windows) -> None:
    windows.window.grant(0, BLOCKS * 2, writes=100)
    windows.window.resize(BLOCK * BLOCKS * 2)
    appending = os.open(windows.mounted.path / "file", os.O_WRONLY | os.O_APPEND)
    before = windows.window.writes
    os.write(appending, b"end")
    assert windows.window.writes == before
    windows.window.grant_whole(write=True)
    os.write(appending, b"end")  # the kernel takes another place for the end
    assert windows.window.writes == before
    windows.window.resize(os.stat(windows.asked).st_size)
    os.write(appending, b"end")
    assert windows.window.writes == before + 1
    os.close(appending)


def test_nothing_is_answered_after_the_end_of_the_rights(windows: Windows) -> None:
    windows.window.grant(0, 2, writes=100)
    windows.window.until(now() + 1000)
    assert (windows.read(0), windows.write(1)) == (b"w", "window")
    windows.window.until(now())
    assert (windows.read(0), windows.write(1)) == (b"p", "asked")
    windows.window.grant_whole(write=True)
    assert (windows.read(0), windows.write(1)) == (b"p", "asked")
    windows.window.until(now() + 1000)
    assert (windows.read(0), windows.write(0)) == (b"w", "window")
    windows.window.until(math.inf)
    assert windows.read(2) == b"w"
    windows.window.until(-math.inf)
    assert windows.read(2) == b"p"


def test_the_end_of_a_file_is_asked_for_while_it_is_unsure(windows: Windows) -> None:
    windows.window.grant(0, BLOCKS)
    windows.window.resize(BLOCK + 10)
    assert os.pread(windows.file, BLOCK, 2 * BLOCK) == b""
    windows.window.unsure()
    assert not windows.window.exact
    assert os.pread(windows.file, BLOCK, BLOCK) == b"p" * BLOCK
    assert os.pread(windows.file, 10, BLOCK) == b"w" * 10
    windows.window.resize(BLOCK + 20)
    assert os.pread(windows.file, BLOCK, BLOCK) == b"w" * 20


def test_no_more_is_written_than_is_allowed(windows: Windows) -> None:
    windows.window.grant(0, BLOCKS, writes=Window.UNLIMITED)
    windows.window.allow(writes=3, fresh=math.inf)
    assert [windows.write(0) for _ in range(4)] == ["window"] * 3 + ["asked"]
    windows.window.allow(writes=math.inf, fresh=2)
    assert [windows.write(0, 3), windows.write(1, 2), windows.write(2)] == [
        "window",  # two blocks that were not dirty
        "window",
        "window",
    ]
    assert windows.write(3) == "asked"
    windows.window.grant_whole(write=True)
    assert [windows.write(3), windows.write(0, 2)] == ["asked", "window"]
    windows.window.allow(writes=0, fresh=math.inf)
    assert windows.write(0) == "asked"


def test_what_was_written_of_a_whole_file_is_known(windows: Windows) -> None:
    assert not windows.window.take_written()
    windows.window.grant_whole(write=True)
    windows.write(2)
    os.pwrite(windows.file, b"far", 5000 * BLOCK)
    assert windows.window.written
    assert windows.window.take_written()
    assert not windows.window.take_written()
    assert windows.window.take_dirty() == [(2, 1), (5000, 1)]
    modified = windows.window.modified
    assert modified > 10**18
    assert (windows.window.take_modified(), windows.window.modified) == (modified, 0)


def test_what_may_be_written_keeps_its_count_when_it_is_granted_again(windows: Windows) -> None:
    windows.window.grant(0, writes=2)
    windows.write(0)
    windows.window.grant(0, writes=2)
    assert windows.window.counts(0, 1) == [1]
    assert [windows.write(0), windows.write(0)] == ["window", "asked"]
    windows.window.revoke(0, read=False)
    windows.window.grant(0, writes=2)
    assert windows.window.counts(0, 1) == [0]


def test_a_handle_of_another_session_is_attached(windows: Windows) -> None:
    windows.window.grant(0, 1)
    alone = os.open(windows.mounted.path / "file", os.O_RDONLY)
    handle = max(windows.tree.handles)
    other = Window(alone, BLOCK)
    windows.mounted.session.attach(handle, other)
    assert os.pread(alone, 10, 0) == b"p" * 10
    os.close(alone)


def test_far_blocks_are_refused_and_none_are_none(windows: Windows) -> None:
    with pytest.raises(ValueError, match="blocks"):
        windows.window.grant(1 << 40)
    windows.window.grant(0, 0)
    windows.window.revoke(1 << 60, 1 << 60, read=True)
    assert windows.window.counts(1 << 60, 2) == [0, 0]


def test_no_write_is_answered_after_its_revocation(windows: Windows) -> None:
    """Under threads that write without pause, what is in the file does not change from the return
    of a revocation to the next grant."""
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            os.pwrite(windows.file, turn.to_bytes(8, "little") * 512, 0)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    changed = answered = 0
    for _ in range(300):
        before = windows.window.writes
        windows.window.grant(0, writes=Window.UNLIMITED)
        while windows.window.writes == before:
            pass
        windows.window.revoke(0, read=True)
        first = windows.here.read_bytes()[:BLOCK]
        answered += 1
        changed += windows.here.read_bytes()[:BLOCK] != first
        assert len({first[i : i + 8] for i in range(0, BLOCK, 8)}) == 1
    stop.set()
    for thread in threads:
        thread.join()
    assert (answered, changed) == (300, 0)
    assert windows.window.take_dirty() == [(0, 1)]


def test_the_kernel_forgets_what_is_invalidated(mount: Mounter, tmp_path: Path) -> None:
    Windowed.direct = False
    try:
        windows = Windows(mount, tmp_path)
    finally:
        Windowed.direct = True
    windows.window.grant(0, BLOCKS)
    assert windows.read(0, BLOCKS) == b"w"
    windows.window.revoke_all()
    assert windows.read(3) == b"w"
    inode = os.stat(windows.asked).st_ino
    windows.mounted.session.invalidate(inode, 3 * BLOCK, BLOCK)
    assert (windows.read(3), windows.read(2), windows.read(4)) == (b"p", b"w", b"w")
    windows.mounted.session.invalidate(inode)
    assert windows.read(0, BLOCKS) == b"p"
    windows.mounted.session.invalidate(1 << 50)
    windows.mounted.session.invalidate_entry(1, b"unknown")
    os.close(windows.file)


def test_a_window_lives_as_long_as_somebody_uses_it() -> None:
    """Windows are not leaked, nor their descriptors."""
    script = """
import os, tempfile
from shares.fuse import Window
with tempfile.TemporaryFile() as file:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        window = Window(file.fileno(), 1 << 30)
        window.grant(0, 1000)
        window.grant(200_000, 10)
    del window
    print(len(os.listdir("/proc/self/fd")) - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout == "0\n"
