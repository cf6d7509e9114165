# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk without room, home's or a node's: nothing is acknowledged that is nowhere, nothing is read
that was never written, and it goes on when there is room."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from shares.node import ROOT, Buffer, Node
from shares.protocol import BLOCK, FileId, Update, UpdateReply
from tests.chunkstore.mounts import fill, tmpfs
from tests.needs import requires
from tests.shares.home.homes import LocalHome, Member
from tests.waiting import eventually

pytestmark = requires("root", "mount")

READ_WRITE = os.O_RDWR
UID, GID = os.getuid(), os.getgid()
BYTES = random.Random(6).randbytes(64 * BLOCK)


def make(node: Node, name: bytes = b"file", content: bytes = b"") -> tuple[FileId, int]:
    entry, handle = node.create(ROOT, name, 0o644, READ_WRITE, UID, GID)
    if content:
        node.write(handle.number, 0, content)
    return entry.attributes.file, handle.number


class AtHome:
    """Home's disk is small; the nodes' are not."""

    def __init__(self, folder: Path) -> None:
        self.disk = folder / "disk"
        self.home = LocalHome(self.disk)
        self._folder = folder
        self._others: Path | None = None

    def join(self, name: str) -> Member:
        return self.home.join(name, buffer=Buffer(self._folder / name, 1 << 24))

    def fill(self) -> None:
        self.make_room()
        self._others = fill(self.disk)

    def make_room(self) -> None:
        if self._others:
            self._others.unlink(missing_ok=True)


@pytest.fixture
def at_home(tmp_path: Path) -> Iterator[AtHome]:
    with tmpfs(tmp_path / "disk", "96m"):
        world = AtHome(tmp_path)
        yield world
        world.make_room()
        world.home.close()


def test_a_write_that_home_cannot_log_is_not_acknowledged(at_home: AtHome) -> None:
    """It was: home noted in its own log that there was no room, and said that it was done."""
    at_home.home.add(log="sync")
    node = at_home.join("one").node
    _, handle = make(node, content=b"before")
    at_home.fill()
    with pytest.raises(OSError) as caught:
        node.write(handle, 0, BYTES)
    assert caught.value.errno == errno.ENOSPC
    at_home.make_room()
    assert node.write(handle, 0, BYTES) == len(BYTES)


def test_what_was_logged_is_not_lost_where_it_cannot_be_restored_yet(at_home: AtHome) -> None:
    """The log was thrown away when a node was lost while the disk was full."""
    home = at_home.home
    home.add(log="sync")
    one = at_home.join("one")
    file, _ = make(one.node, content=BYTES)
    at_home.fill()
    one.cut_off()
    assert eventually(lambda: len(home.share.lost_since(0.0)) == 1)
    two = at_home.join("two").node
    assert two.read(two.open(file, os.O_RDONLY).number, 0, len(BYTES)) == BYTES
    assert home.share.log.lag().bytes >= len(BYTES)
    at_home.make_room()
    assert eventually(lambda: (home.root / "file").read_bytes() == BYTES)
    assert eventually(lambda: home.share.log.lag().records == 0)


def test_what_the_log_cannot_take_hinders_nobody(at_home: AtHome) -> None:
    """A block that home was given, of which the log had something, had no answer any more: who had
    asked for it waited for ever."""
    at_home.home.add(log="sync")
    one, two = at_home.join("one").node, at_home.join("two").node
    file, handle = make(one, content=BYTES)
    at_home.fill()
    reader = two.open(file, READ_WRITE).number
    assert two.read(reader, 0, len(BYTES)) == BYTES
    one.release(handle, 0)
    at_home.make_room()
    two.write(reader, 0, b"after")
    two.sync(reader, data_only=False)
    assert (at_home.home.root / "file").read_bytes() == b"after" + BYTES[5:]


def test_who_writes_more_than_homes_disk_has_room_for_is_told(at_home: AtHome) -> None:
    """Home kept all of it in memory, however much that was."""
    home = at_home.home
    home.add()
    node = at_home.join("one").node
    file, handle = make(node)
    at_home.fill()
    written = 0
    with pytest.raises(OSError) as caught:
        for turn in range(64):
            node.write(handle, turn << 20, BYTES * 4)
            written += 1 << 20
    assert caught.value.errno == errno.ENOSPC
    assert home.share.blocks.holds(file)
    at_home.make_room()
    node.sync(handle, data_only=False)
    assert (home.root / "file").read_bytes()[:written] == BYTES * 4 * (written >> 20)


def test_names_are_said_to_have_no_room_and_are_taken_away_all_the_same(at_home: AtHome) -> None:
    """Home's index of names has no room: that was an error of the disk's, also of what was done."""
    home = at_home.home
    share = home.add()
    share.tree._index._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    node = at_home.join("one").node
    _, handle = make(node, b"known")
    node.release(handle, 0)
    for number in range(3000):
        (home.root / f"a name that nobody has asked for, {number}").touch()
    at_home.fill()
    with pytest.raises(OSError) as caught:
        node.entries(ROOT)
    assert caught.value.errno == errno.ENOSPC
    share.tree._index._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    at_home.fill()
    node.unlink(ROOT, b"known")
    assert not (home.root / "known").exists()
    at_home.make_room()
    assert len(node.entries(ROOT)) == 3000


class AtTheNode:
    """One node's disk is small, and full but for some blocks."""

    def __init__(self, home: LocalHome, folder: Path) -> None:
        self.home, self._folder = home, folder
        self.member = home.join("small", buffer=Buffer(folder / "blocks", 1 << 24))
        self.node = self.member.node
        self.other = home.join("other").node
        self._others: Path | None = None

    def fill(self) -> None:
        self._others = fill(self._folder)

    def make_room(self) -> None:
        if self._others:
            self._others.unlink(missing_ok=True)

    def shared(self, content: bytes = BYTES) -> tuple[FileId, int, int]:
        """A file that both have open; the handles of the small node and of the other."""
        file, other = make(self.other, content=content)
        return file, self.node.open(file, READ_WRITE).number, other


@pytest.fixture
def small(tmp_path: Path) -> Iterator[AtTheNode]:
    with tmpfs(tmp_path / "small", "1m"):
        home = LocalHome(tmp_path)
        home.add()
        world = AtTheNode(home, tmp_path / "small")
        yield world
        world.make_room()
        home.close()
        home.windows.clear()


def test_what_a_nodes_disk_does_not_take_is_not_read_as_zeros(small: AtTheNode) -> None:
    """The machine had the blocks for valid when there was no room for their content."""
    _, handle, _ = small.shared()
    assert small.node.read(handle, 0, BLOCK) == BYTES[:BLOCK]
    small.fill()
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            small.node.read(handle, 8 * BLOCK, 16 * BLOCK)
        assert caught.value.errno == errno.ENOSPC
    small.make_room()
    assert small.node.read(handle, 0, len(BYTES)) == BYTES


def test_a_write_without_room_is_an_error_and_not_the_connections_end(small: AtTheNode) -> None:
    """It was made when home had granted it, on the thread that reads what home says."""
    file, handle, other = small.shared()
    small.fill()
    with pytest.raises(OSError) as caught:
        small.node.write(handle, 0, b"new" * 10 * BLOCK)
    assert caught.value.errno == errno.ENOSPC
    assert not small.node.content._files[file].demand.waiting
    caller = small.member.membership._caller.duplex
    assert caller.connected
    assert small.other.read(other, 0, len(BYTES)) == BYTES
    small.make_room()
    small.node.write(handle, 0, b"new" * 10 * BLOCK)
    assert small.other.read(other, 0, len(BYTES)) == b"new" * 10 * BLOCK + BYTES[30 * BLOCK :]


def test_an_update_without_room_is_declined(small: AtTheNode) -> None:
    file, handle, _ = small.shared()
    small.fill()
    said: list[UpdateReply] = []
    update = Update(file, 9, 1, (9,), b"new".ljust(BLOCK, b"x"), versions=(1 << 60,))
    small.node.content.answer(update, said.append)  # type: ignore[arg-type]
    assert [answer.kept for answer in said] == [(False,)]
    small.make_room()
    assert small.node.read(handle, 9 * BLOCK, BLOCK) == BYTES[9 * BLOCK : 10 * BLOCK]
