# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What relaxation saves a writer, and what an old copy is not good for."""

from __future__ import annotations

from math import inf

from shares.protocol import (
    Acquire,
    Blocks,
    DelayedUpdate,
    FileId,
    Invalidate,
    Keep,
    NativeGrant,
    NodeMachine,
    Ownership,
    WriteUpdate,
)
from tests.shares.protocol.accesses import VALUE, Access
from tests.shares.protocol.simulated_home import SimHome
from tests.shares.protocol.simulated_node import SimNode
from tests.shares.protocol.world import World

FILE = FileId(1)


class Pair:
    """A writer and a reader, 10 ms from home each, with heartbeats every 0.1 s."""

    def __init__(self, relaxation: float) -> None:
        self.world = World()
        self.home = SimHome(self.world, relaxation=relaxation)
        self.writer = SimNode(self.home, 1, lambda: 0.01, DelayedUpdate)
        self.reader = SimNode(self.home, 2, lambda: 0.01, DelayedUpdate)
        for node in (self.writer, self.reader):
            node.open(FILE)
        self.rest(1.0)

    def rest(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            for node in (self.writer, self.reader):
                node.beat()
            self.world.run(self.world.now + 0.1)

    def access(self, node: SimNode, value: int | None) -> tuple[int | None, bool]:
        """What was read, and whether it waited."""
        data = None if value is None else str(value).encode().rjust(VALUE, b".")
        ended: list[float] = []
        began = self.world.now
        access = Access(FILE, [0], data, range(0), lambda _: ended.append(self.world.now), began)
        node.access(access)
        self.rest(0.2)
        seen = access.values.get(0)
        return (int(seen.lstrip(b".")) if seen else None), ended[0] > began


def test_who_writes_what_others_read_stays_the_owner() -> None:
    pair = Pair(relaxation=1.0)
    for value in range(20):
        pair.access(pair.writer, value)
        seen, _ = pair.access(pair.reader, None)
        assert seen is not None
        assert seen >= value - 3
    sent = pair.home.messages
    # The first grant, and one after the first read: from then on the block is lent.
    assert sent["Acquire"] == 2
    assert sent["Fetch"] < 10
    assert sent["Invalidate"] <= 1


def test_a_lent_copy_grows_old_although_nobody_says_so() -> None:
    pair = Pair(relaxation=0.5)
    for value in range(4):
        pair.access(pair.writer, value)
        pair.access(pair.reader, None)
    pair.access(pair.writer, 4)
    pair.rest(0.6)
    assert pair.access(pair.reader, None) == (4, True)


def test_what_nobody_writes_any_more_is_shared_again() -> None:
    pair = Pair(relaxation=0.5)
    for value in range(4):
        pair.access(pair.writer, value)
        pair.access(pair.reader, None)
    for _ in range(3):
        pair.rest(0.6)
        pair.access(pair.reader, None)
    fetched = pair.home.messages["Fetch"]
    pair.rest(2.0)
    assert pair.access(pair.reader, None) == (3, False)
    assert pair.home.messages["Fetch"] == fetched


def test_an_old_copy_is_not_what_a_native_file_is_written_on() -> None:
    """A write to a part of it would bring back what somebody else had overwritten."""
    node = NodeMachine()
    node.open(FILE, DelayedUpdate(), False, 5.0)
    node.heard(0.0)
    (fetch,) = node.to_read(FILE, 0, 1, 0.0)
    node.blocks(fetch, Blocks(FILE, 0, 1, (0,), b"", (1,), (False,)), 0.0)
    node.answer(Invalidate(FILE, 0, 1, Keep.STALE), 0.1)
    assert node.readable(FILE, 0, 0.2)
    node.answer(NativeGrant(FILE, 0, 0, 7), 0.3)
    assert not node.readable(FILE, 0, 0.4)
    assert not node.writable(FILE, 0, 0.4)
    assert node.writable(FILE, 0, 0.4, whole=True)


def test_who_reads_without_relaxation_is_lent_nothing() -> None:
    """Terms are of paths, and a file may have got others since a node opened it."""
    pair = Pair(relaxation=1.0)
    pair.home.relaxation = 0.0
    strict = SimNode(pair.home, 3, lambda: 0.01, DelayedUpdate)
    strict.open(FILE)
    pair.rest(0.2)
    pair.home.directory.open(pair.writer.id, FILE, None, 0.0, 1.0)
    for value in range(8):
        pair.access(pair.writer, value)
        assert pair.access(strict, None)[0] == value


def test_nothing_is_pushed_with_relaxation() -> None:
    """A file that was cut and written again and again went to its readers with each write."""
    node = NodeMachine()
    node.open(FILE, WriteUpdate(), False, 5.0)
    node.heard(0.0)
    (own,) = node.to_write(FILE, 0, 2, range(2), 0.0)
    assert isinstance(own, Acquire)
    granted = Ownership(FILE, 0, 2, (), b"", (1, 1), (False, True), (True, True), 3)
    node.granted(own, granted, 0.0)
    assert node.did_write(FILE, 0, 2, 0.0) == []
    (both,) = node.rights(FILE, range(2), 0.1)
    assert (both.first, both.count, both.writes) == (0, 2, inf)
