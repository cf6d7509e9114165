# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes at real sockets, whose connections break, judged by what programs saw of blocks."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

import pytest

from shares.node import ROOT, Member, Node
from shares.protocol import BLOCK
from tests.homeserver.shares.conftest import Home
from tests.homeserver.shares.history_node import VALUE, OpenHandles
from tests.needs import requires
from tests.shares.history import INITIAL, Operation, check, dump
from tests.waiting import eventually

NODES = 3
BLOCKS = 3
PROGRAMS = 2 * NODES
ROUNDS = 6
OPERATIONS = 56
"""Of each program in each round; 2,016 in all."""

AGAIN = 0.02
"""How often a program opens the file again, for each of its operations."""

CUTS = 60


class Files(Protocol):
    """What programs at one node do to a file."""

    def open(self) -> int: ...
    def read(self, handle: int, offset: int, size: int) -> bytes: ...
    def write(self, handle: int, offset: int, data: bytes) -> object: ...
    def open_again(self, handle: int) -> int:
        """The handle is released."""
        ...

    def release(self, handle: int) -> None: ...


class Mounted:
    """Files in a folder: a session of the node's answers by itself what it may."""

    def __init__(self, home: Home, node: Node) -> None:
        self._path = home.mount(node) / "f"

    def open(self) -> int:
        return os.open(self._path, os.O_RDWR)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        return os.pread(handle, size, offset)

    def write(self, handle: int, offset: int, data: bytes) -> int:
        return os.pwrite(handle, data, offset)

    def open_again(self, handle: int) -> int:
        self.release(handle)
        for _ in range(20):
            with suppress(OSError):
                return self.open()
        raise AssertionError("the file cannot be opened")

    def release(self, handle: int) -> None:
        with suppress(OSError):
            os.close(handle)


def files_of(home: Home, nodes: list[Node], through: str) -> list[Files]:
    if through == "mounts":
        return [Mounted(home, node) for node in nodes]
    return [OpenHandles(node) for node in nodes]


class Recorder:
    """Programs' accesses to one file's blocks, one register for each block.

    began: is told the number of each round, before which all programs have ended the last one
    """

    def __init__(self, nodes: list[Node], files: list[Files], began: Callable[[int], None]) -> None:
        self.history: list[Operation] = []
        self.failed = 0
        self._files = files
        created = nodes[0].create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())
        nodes[0].write(created[1].number, 0, bytes(BLOCKS * BLOCK))
        nodes[0].release(created[1].number, 0)
        self._numbers = itertools.count(1)
        rounds = itertools.count(0)
        self._all = threading.Barrier(PROGRAMS, action=lambda: began(next(rounds)))

    def run(self) -> None:
        """All programs, two for each node."""
        with ThreadPoolExecutor(PROGRAMS) as programs:
            for task in [programs.submit(self._program, which) for which in range(PROGRAMS)]:
                task.result(300)

    def _program(self, which: int) -> None:
        chance = random.Random(which)
        files = self._files[which % NODES]
        handle, block = files.open(), 0
        for _ in range(ROUNDS):
            self._all.wait(60)
            for _ in range(OPERATIONS):
                if chance.random() < AGAIN:
                    handle = files.open_again(handle)
                if chance.random() < 0.4:
                    block = chance.randrange(BLOCKS)
                self._access(files, which, handle, block, chance)
        files.release(handle)

    def _access(
        self, files: Files, which: int, handle: int, block: int, chance: random.Random
    ) -> None:
        writes = chance.random() < 0.4
        value = f"{which}:{next(self._numbers)}".ljust(VALUE, ".") if writes else ""
        whole = chance.random() < 0.5
        began = time.monotonic()
        ended = None
        try:
            if writes:
                data = value.encode().ljust(BLOCK if whole else VALUE, b".")
                files.write(handle, block * BLOCK, data)
            else:
                data = files.read(handle, block * BLOCK, VALUE)
                value = data.decode() if data.strip(b"\0") else INITIAL
            ended = time.monotonic()
        except OSError:
            self.failed += 1
        self.history.append(Operation(which, str(block), writes, value, began, ended))

    def judge(self) -> None:
        assert len(self.history) == PROGRAMS * ROUNDS * OPERATIONS
        violations = check(self.history)
        assert not violations, dump(violations[0].operations)


class Opened(OpenHandles):
    """Files that are closed and opened again, with handles that count."""

    def open_again(self, handle: int) -> int:
        self._node.release(handle, 0)
        return self.open()


THROUGH = pytest.mark.parametrize(
    "through", ["nodes", pytest.param("mounts", marks=requires("fuse", "fusermount3"))]
)


@THROUGH
@pytest.mark.parametrize("options", [{}, {"log": "sync"}, {"policy": "write-update"}])
def test_what_programs_see_over_connections_that_break_is_one_memory(
    home: Home, options: dict[str, str], through: str
) -> None:
    home.add(**options)
    members = [home.join(str(number)) for number in range(NODES)]
    nodes = [member.node for member in members]
    recorder = Recorder(nodes, files_of(home, nodes, through), lambda number: None)
    over = threading.Event()

    def cut() -> None:
        chance = random.Random(7)
        for _ in range(CUTS):
            if over.wait(0.03):
                return
            caller: Any = members[chance.randrange(NODES)].membership._caller
            caller.duplex.cut()

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        recorder.run()
    finally:
        over.set()
        cutting.join()
    recorder.judge()
    assert recorder.failed == 0
    assert not any(member.over for member in members)
    assert (home.answered > len(recorder.history) / 20) == (through == "mounts")


@THROUGH
@pytest.mark.parametrize("options", [{}, {"policy": "write-update"}])
def test_files_that_are_closed_and_opened_all_the_time_are_one_memory(
    home: Home, options: dict[str, str], through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are closed with their last handles, and opened again after every fourth access."""
    monkeypatch.setattr("shares.node.opened.uses.IDLE_FILES", 0)
    monkeypatch.setattr("tests.homeserver.shares.test_history.AGAIN", 0.25)
    home.add(**options)
    nodes = [home.join(str(number)).node for number in range(NODES)]
    files = files_of(home, nodes, through)
    if through == "nodes":
        files = [Opened(node) for node in nodes]
    recorder = Recorder(nodes, files, lambda number: None)
    recorder.run()
    recorder.judge()
    assert recorder.failed == 0


class Faults:
    """In each round another one; it happens while the programs run."""

    def __init__(self, home: Home, members: list[Member]) -> None:
        self._home, self._members = home, members
        self._thread: threading.Thread | None = None
        self.lost = 0

    def begin(self, number: int) -> None:
        self.end()
        assert eventually(lambda: len(self._home.share.sessions) == NODES)
        if number:
            fault = self._begin_again if number == 3 else self._lose
            self._thread = threading.Thread(target=fault, args=(number,))
            self._thread.start()

    def end(self) -> None:
        if self._thread:
            self._thread.join()

    def _begin_again(self, number: int) -> None:
        self._home.begin_again()

    def _lose(self, number: int) -> None:
        """A node is not reached until its lease is over."""
        caller: Any = self._members[number % NODES]._membership._caller
        path = caller._path
        caller._path = path.with_name("nowhere")
        caller.duplex.cut()
        self.lost += eventually(lambda: len(self._home.share.sessions) < NODES)
        caller._path = path


@THROUGH
def test_what_was_logged_outlasts_leases_and_homes_and_is_one_memory(
    home: Home, through: str
) -> None:
    home.add(log="sync")
    members = [home.member(str(number)) for number in range(NODES)]
    faults = Faults(home, members)
    try:
        nodes = [member.node for member in members]
        recorder = Recorder(nodes, files_of(home, nodes, through), faults.begin)
        recorder.run()
        faults.end()
        recorder.judge()
        assert faults.lost == ROUNDS - 2
        assert recorder.failed < len(recorder.history) / 20
        assert (home.answered > 0) == (through == "mounts")
    finally:
        faults.end()
        home.unmount()
        for member in members:
            member.close()


@pytest.mark.nightly
@THROUGH
def test_a_hundred_thousand_operations_that_leases_and_homes_end_under_are_one_memory(
    home: Home, through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = int(os.environ.get("SATCHEL_HISTORY", "100000"))
    monkeypatch.setattr(f"{__name__}.OPERATIONS", -(-count // (PROGRAMS * ROUNDS)))
    test_what_was_logged_outlasts_leases_and_homes_and_is_one_memory(home, through)
