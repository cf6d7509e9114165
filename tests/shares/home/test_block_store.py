# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home makes of blocks and of the write log, on real files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shares.home import Tree, WriteLog
from shares.home.storage import tree as tree_module
from shares.home.storage.block_store import BlockStore
from shares.home.storage.file_versions import Difference
from shares.node import KEEP_SIZE, PUNCH_HOLE, ROOT, Changes, Extent
from shares.protocol import ATTRIBUTES, BLOCK, FileId, LogWrite


class World:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "shared"
        self.root.mkdir()
        (self.root / "file").touch()
        self.tree = Tree(self.root, folder / "index")
        self.log = WriteLog(folder / "log")
        self.content = BlockStore("photos", self.tree, self.log, threading.RLock())
        self.file: FileId = self.tree.lookup(ROOT, b"file").attributes.file
        self.tree.open(self.file, writes=True)

    def append(self, offset: int, data: bytes) -> None:
        self.content.append(LogWrite(self.file, 0, 1, offset, data))

    def store(self, size: int, data: bytes) -> None:
        """As a node that gives a block and the size of its file: a block is padded."""
        extent = Extent(size, 0, 0, 0)
        self.content.store(self.file, ATTRIBUTES, extent.pack())
        self.content.store(self.file, 0, data.ljust(BLOCK, b"\0"))

    @property
    def bytes(self) -> bytes:
        return (self.root / "file").read_bytes()

    def close(self) -> None:
        self.log.close()
        self.tree.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.mark.parametrize("finished", [False, True])
def test_a_block_that_home_was_given_makes_no_file_longer_when_it_is_replayed(
    world: World, finished: bool
) -> None:
    """It is padded in the log; that made a file of 9 bytes one of 4096."""
    world.append(0, b"by a node")
    world.store(9, b"by others")
    if finished:
        world.content.finish(world.file)
    world.content.replay(world.file, None)
    world.content.finish(world.file)
    assert world.bytes == b"by others"


def test_what_home_was_given_is_not_undone_by_what_the_log_had_behind_it(world: World) -> None:
    world.append(0, b"longer than")
    world.store(11, b"short\0\0\0\0\0\0")
    world.content.replay(world.file, None)
    world.content.finish(world.file)
    assert world.bytes == b"short\0\0\0\0\0\0"


def test_a_lost_nodes_writes_make_the_file_as_long_as_they_reach(world: World) -> None:
    world.append(0, b"first")
    world.append(5, b" second\0")
    world.content.replay(world.file, None)
    world.content.finish(world.file)
    assert world.bytes == b"first second\0"
    assert world.content.restored.records == 2


def test_a_line_that_home_appends_before_a_nodes_content_comes_follows_no_zeros(
    world: World,
) -> None:
    world.store(6, b"first\n")
    world.content.complete = lambda file: False
    world.content.store(world.file, ATTRIBUTES, Extent(13, 0, 0, 0).pack())
    with (world.root / "file").open("ab") as file:
        file.write(b"home's\n")
    world.content.store(world.file, 0, b"first\nnode's\n".ljust(BLOCK, b"\0"))
    assert world.bytes == b"first\nhome's\n"
    (copy,) = world.root.glob("*conflict*")
    assert b"node's\n" in copy.read_bytes()


def test_content_that_comes_while_home_appends_goes_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store(6, b"first\n")
    really = tree_module._write

    def meanwhile(*about: Any) -> None:
        with (world.root / "file").open("ab") as file:
            file.write(b"home's\n")
        monkeypatch.setattr(tree_module, "_write", really)
        really(*about)

    monkeypatch.setattr(tree_module, "_write", meanwhile)
    world.content.store(world.file, 0, b"first\nnode's\n".ljust(BLOCK, b"\0"))
    assert world.bytes == b"first\nhome's\nnode's\n"
    assert world.content.changed_outside(world.file) is Difference.CONTENT


@pytest.mark.parametrize("after", [False, True])
def test_bytes_that_home_overwrites_while_a_block_comes_are_kept_and_noticed(
    world: World, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    world.store(BLOCK, bytes(BLOCK))
    really = tree_module._write

    def meanwhile(*about: Any) -> None:
        monkeypatch.setattr(tree_module, "_write", really)
        if after:
            really(*about)
        with (world.root / "file").open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"home's", 2100)
        if not after:
            really(*about)

    monkeypatch.setattr(tree_module, "_write", meanwhile)
    world.content.store(world.file, 0, b"node's".ljust(BLOCK, b"\0"))
    assert world.bytes.replace(b"\0", b"") == b"node'shome's"
    assert world.content.changed_outside(world.file) is Difference.CONTENT


def test_what_was_made_zeros_does_not_come_back_when_the_log_is_replayed(world: World) -> None:
    world.append(0, b"first")
    world.append(5, b" second")
    world.store(12, b"first second")
    world.content.zero(world.file, KEEP_SIZE | PUNCH_HOLE, 2, 7)
    assert world.bytes == b"fi\0\0\0\0\0\0\0ond"
    world.content.replay(world.file, None)
    world.content.finish(world.file)
    assert world.bytes == b"fi\0\0\0\0\0\0\0ond"


@pytest.mark.parametrize("size", [0, 3, 5, 8, BLOCK + 9])
def test_what_was_cut_off_does_not_come_back_when_the_log_is_replayed(
    world: World, size: int
) -> None:
    """The log had all that a node had written to the block that is cut in part."""
    world.append(0, b"first")
    world.append(5, b" second")
    world.content.append(LogWrite(world.file, 1, 1, 0, b"third"))
    world.store(12, b"first second")
    world.content.change(world.file, Changes(size=size))
    cut = b"first second"[:size].ljust(size, b"\0")
    cut = cut[:BLOCK] + b"third\0\0\0\0" if size > BLOCK else cut
    world.content.replay(world.file, None)
    world.content.finish(world.file)
    assert world.bytes == cut
