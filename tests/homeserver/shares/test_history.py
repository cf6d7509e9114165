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
from typing import Any

import pytest

from overlay.coherence import BLOCK, FileId
from overlay.coherence.history import INITIAL, Operation, check, dump
from overlay.shares import ROOT, Member, Node
from tests.homeserver.shares.conftest import Home
from tests.waiting import eventually

NODES = 3
BLOCKS = 3
PROGRAMS = 2 * NODES
ROUNDS = 6
OPERATIONS = 56
"""Of each program in each round; 2,016 in all."""

CUTS = 60
VALUE = 16


class Recorder:
    """Programs' accesses to one file's blocks, one register for each block.

    began: is told the number of each round, before which all programs have ended the last one
    """

    def __init__(self, nodes: list[Node], began: Callable[[int], None]) -> None:
        self.history: list[Operation] = []
        self.failed = 0
        self._nodes = nodes
        created = nodes[0].create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())
        self._file: FileId = created[0].attributes.file
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
        node = self._nodes[which % NODES]
        handle = node.open(self._file, os.O_RDWR).number
        for _ in range(ROUNDS):
            self._all.wait(60)
            for _ in range(OPERATIONS):
                if chance.random() < 0.02:
                    with suppress(OSError):
                        node.release(handle, 0)  # and the next access opens it again
                self._access(node, which, handle, chance)

    def _access(self, node: Node, which: int, handle: int, chance: random.Random) -> None:
        block = chance.randrange(BLOCKS)
        writes = chance.random() < 0.4
        value = f"{which}:{next(self._numbers)}".ljust(VALUE, ".") if writes else ""
        whole = chance.random() < 0.5
        began = time.monotonic()
        ended = None
        try:
            if writes:
                data = value.encode().ljust(BLOCK if whole else VALUE, b".")
                node.write(handle, block * BLOCK, data)
            else:
                data = node.read(handle, block * BLOCK, VALUE)
                value = data.decode() if data.strip(b"\0") else INITIAL
            ended = time.monotonic()
        except OSError:
            self.failed += 1
        self.history.append(Operation(which, str(block), writes, value, began, ended))

    def judge(self) -> None:
        assert len(self.history) == PROGRAMS * ROUNDS * OPERATIONS
        violations = check(self.history)
        assert not violations, dump(violations[0].operations)


@pytest.mark.parametrize("options", [{}, {"log": "sync"}, {"policy": "write-update"}])
def test_what_programs_see_over_connections_that_break_is_one_memory(
    home: Home, options: dict[str, str]
) -> None:
    home.add(**options)
    members = [home.join(str(number)) for number in range(NODES)]
    recorder = Recorder([member.node for member in members], lambda number: None)
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


class Faults:
    """In each round another one; it happens while the programs run."""

    def __init__(self, home: Home, members: list[Member]) -> None:
        self._home, self._members = home, members
        self._thread: threading.Thread | None = None
        self.lost = 0

    def begin(self, number: int) -> None:
        self.end()
        assert eventually(lambda: len(self._home.share.sessions) == NODES, 30)
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
        self.lost += eventually(lambda: len(self._home.share.sessions) < NODES, 30)
        caller._path = path


def test_what_was_logged_outlasts_leases_and_homes_and_is_one_memory(home: Home) -> None:
    home.add(log="sync")
    members = [home.member(str(number)) for number in range(NODES)]
    faults = Faults(home, members)
    try:
        recorder = Recorder([member.node for member in members], faults.begin)
        recorder.run()
        faults.end()
        recorder.judge()
        assert faults.lost == ROUNDS - 2
        assert recorder.failed < len(recorder.history) / 20
    finally:
        faults.end()
        for member in members:
            member.close()
