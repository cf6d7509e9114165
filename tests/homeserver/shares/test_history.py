# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes at real sockets, whose connections break, judged by what programs saw of blocks."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from overlay.coherence import BLOCK, FileId
from overlay.coherence.history import INITIAL, Operation, check, dump
from overlay.shares import ROOT
from tests.homeserver.shares.conftest import Home, Member

NODES = 3
BLOCKS = 3
PROGRAMS = 2 * NODES
OPERATIONS = 333 * PROGRAMS
CUTS = 60
VALUE = 16


class Recorder:
    """Programs' accesses to one file's blocks, one register for each block. Thread-safe."""

    def __init__(self, file: FileId) -> None:
        self.file = file
        self.history: list[Operation] = []
        self._numbers = itertools.count(1)
        self._all = threading.Barrier(PROGRAMS)

    def run(self, member: Member, number: int) -> None:
        """Take part; opens and closes the file now and then."""
        chance = random.Random(number)
        node, handle = member.node, member.node.open(self.file, os.O_RDWR).number
        self._all.wait(20)
        for _ in range(OPERATIONS // PROGRAMS):
            if chance.random() < 0.02:
                node.release(handle, 0)
                handle = node.open(self.file, os.O_RDWR).number
            self._access(member, number, handle, chance)
        node.release(handle, 0)

    def _access(self, member: Member, number: int, handle: int, chance: random.Random) -> None:
        block = chance.randrange(BLOCKS)
        writes = chance.random() < 0.4
        value = f"{number}:{next(self._numbers)}".ljust(VALUE, ".") if writes else ""
        began = time.monotonic()
        if writes:
            whole = chance.random() < 0.5
            data = value.encode().ljust(BLOCK if whole else VALUE, b".")
            member.node.write(handle, block * BLOCK, data)
        else:
            data = member.node.read(handle, block * BLOCK, VALUE)
            value = data.decode() if data.strip(b"\0") else INITIAL
        ended = time.monotonic()
        self.history.append(Operation(number, str(block), writes, value, began, ended))


@pytest.mark.parametrize("options", [{}, {"log": "sync"}, {"policy": "write-update"}])
def test_what_programs_see_over_connections_that_break_is_one_memory(
    home: Home, options: dict[str, str]
) -> None:
    home.add(**options)
    members = [home.join(str(number)) for number in range(NODES)]
    entry, handle = members[0].node.create(ROOT, b"f", 0o644, os.O_RDWR, os.getuid(), os.getgid())
    members[0].node.write(handle.number, 0, bytes(BLOCKS * BLOCK))
    recorder = Recorder(entry.attributes.file)
    over = threading.Event()

    def cut() -> None:
        chance = random.Random(7)
        for _ in range(CUTS):
            if over.wait(0.03):
                return
            caller = members[chance.randrange(NODES)].membership._caller
            caller.duplex.cut()  # type: ignore[attr-defined]

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        with ThreadPoolExecutor(PROGRAMS) as programs:
            tasks = [
                programs.submit(recorder.run, members[which % NODES], which)
                for which in range(PROGRAMS)
            ]
            for task in tasks:
                task.result(120)
    finally:
        over.set()
        cutting.join()
    assert len(recorder.history) == OPERATIONS
    violations = check(recorder.history)
    assert not violations, dump(violations[0].operations)
    assert not any(member.over for member in members)
