# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is learnt of a file's blocks stays when the file is closed, cut, or native for a while."""

from __future__ import annotations

from math import inf

import pytest

from shares.protocol import (
    Block,
    Decision,
    DelayedUpdate,
    FileId,
    Optimal,
    PushPolicy,
    WriteInvalidate,
    WriteUpdate,
)
from shares.protocol.overwrites import Overwrites
from shares.protocol.policies import AHEAD
from tests.shares.protocol.accesses import VALUE, Access
from tests.shares.protocol.simulated_home import SimHome
from tests.shares.protocol.simulated_node import SimNode
from tests.shares.protocol.test_figure3 import FILE, Pair
from tests.shares.protocol.world import World

OTHER = FileId(2)


def waits(policy: type[PushPolicy], steps: list[tuple[str, int]]) -> int:
    """How many of the steps (W or R, block) had to wait for home."""
    world = World()
    home = SimHome(world)
    nodes = {
        what: SimNode(home, place + 1, lambda: 0.01, policy) for place, what in enumerate("WR")
    }
    for node in nodes.values():
        node.open(FILE)
    world.run()
    waited = []
    for number, (what, block) in enumerate(steps):
        value = str(number).encode().rjust(VALUE, b".") if what == "W" else None
        began = world.now

        def ended(access: Access) -> None:
            waited.append(world.now > access.began)

        nodes[what].access(Access(FILE, [block], value, range(0), ended, began))
        world.run()
    return sum(waited)


def learnt(pair: Pair) -> None:
    """Two overwrites before each read."""
    for step in "WWWRWWWR":
        if step == "W":
            pair.write()
        else:
            pair.read()


def closed(node: SimNode, pair: Pair) -> None:
    """At home as well."""
    node.unuse(FILE)
    pair.world.run()
    node.close(FILE)
    pair.world.run()


def test_a_threshold_outlives_a_close() -> None:
    pair = Pair()
    learnt(pair)
    closed(pair.writer, pair)
    assert pair.writer.machine.block(FILE, 0).threshold is None
    pair.writer.open(FILE)
    pair.world.run()
    assert pair.writer.machine.block(FILE, 0).threshold == 2
    assert [pair.write() for _ in range(3)] == ["asked", "local", "pushed"]
    assert pair.read() == "here"


class Behind(DelayedUpdate):
    """Nothing goes ahead of who opens a file."""

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return False


def test_what_is_written_natively_counts() -> None:
    pair = Pair(Behind)
    closed(pair.reader, pair)
    assert pair.writer.machine.native(FILE)
    assert [pair.write() for _ in range(4)] == ["asked", "local", "local", "local"]
    pair.reader.open(FILE)
    pair.world.run()
    pair.read()
    assert pair.block == (3, 3)


def test_a_block_without_a_threshold_goes_by_its_file() -> None:
    steps = [(what, block) for block in range(40) for what in "WR"]
    assert waits(WriteInvalidate, steps) == 80
    assert waits(DelayedUpdate, steps) <= 43


def test_a_push_that_nobody_read_is_not_done_again_by_the_files_threshold() -> None:
    policy, block = DelayedUpdate(), Block(valid=True, shared=False, threshold=0)
    policy.asked(FILE, 0, block, 0.0)
    wrong = Block(valid=True, shared=False, relearns=True)
    fresh = Block(valid=True, shared=False)
    assert policy.threshold(FILE, wrong) is None
    assert policy.threshold(FILE, fresh) == policy.threshold(OTHER, fresh) == 0


def test_what_is_kept_is_bounded() -> None:
    kept = Overwrites(limit=10)
    for file in range(8):
        kept.keep(FileId(file), {number: Block(threshold=1) for number in range(3)})
    assert len(kept) == 9
    assert not kept.take(FileId(0))
    assert [block.threshold for block in kept.take(FileId(7)).values()] == [1, 1, 1]
    policy = DelayedUpdate(files=2)
    for threshold, file in enumerate((1, 2, 3)):
        policy.asked(FileId(file), 0, Block(threshold=threshold), 0.0)
    assert policy.threshold(FileId(2), Block()) == 1
    assert policy.threshold(FileId(1), Block()) == 2  # the last of all files


def test_a_file_whose_blocks_are_used_again_is_remembered_longer() -> None:
    policy = DelayedUpdate(files=2)
    for threshold, file in enumerate((1, 2, 1, 3)):
        policy.asked(FileId(file), 0, Block(threshold=threshold), 0.0)
    assert policy.threshold(FileId(1), Block()) == 2
    assert policy.threshold(FileId(2), Block()) == 3  # the last of all files


WANTED, UNWANTED = Block(wanted=True), Block()


@pytest.mark.parametrize(
    ("policy", "block", "decision", "unasked"),
    [
        (WriteInvalidate(), WANTED, Decision.KEEP, inf),
        (WriteUpdate(), WANTED, Decision.PUSH, 0),
        (WriteUpdate(), UNWANTED, Decision.KEEP, inf),
        (DelayedUpdate(), WANTED, Decision.KEEP, inf),
        (Optimal(lambda file, number: number == 3), WANTED, Decision.PUSH_TO_EVERYONE, 0),
        (Optimal(lambda file, number: number == 4), WANTED, Decision.KEEP, 0),
        (DelayedUpdate(), Block(threshold=0), Decision.PUSH_TO_EVERYONE, 0),
        (DelayedUpdate(), Block(threshold=5, untouched=True), Decision.KEEP, 5),
        (DelayedUpdate(), Block(threshold=5, untouched=False), Decision.KEEP, 4),
        (DelayedUpdate(), Block(threshold=5, overwritten=2, untouched=False), Decision.KEEP, 2),
        (DelayedUpdate(), Block(threshold=1, overwritten=1), Decision.PUSH_TO_EVERYONE, 0),
        (DelayedUpdate(), Block(threshold=1, overwritten=4), Decision.PUSH_TO_EVERYONE, 0),
    ],
)
def test_writes_that_need_no_question_are_those_that_push_nothing(
    policy: PushPolicy, block: Block, decision: Decision, unasked: float
) -> None:
    assert policy.wrote(FILE, 3, block, 0.0) is decision
    assert policy.unasked(FILE, block) == unasked


@pytest.mark.parametrize(
    ("policy", "ahead"),
    [
        (WriteInvalidate(), set()),
        (WriteUpdate(), set()),
        (DelayedUpdate(), {0, AHEAD - 1}),
        (Optimal(lambda file, number: number == AHEAD), {AHEAD}),
    ],
)
def test_the_beginning_of_a_native_file_goes_ahead_of_who_opens_it(
    policy: PushPolicy, ahead: set[int]
) -> None:
    numbers = (0, AHEAD - 1, AHEAD)
    assert {n for n in numbers if policy.engaged(FILE, n, UNWANTED, 0.0)} == ahead
    due = isinstance(policy, DelayedUpdate)
    assert policy.engaged(FILE, 10 * AHEAD, Block(threshold=0), 0.0) is due


def test_updates_are_declined_unless_each_write_is_one() -> None:
    policies = (WriteInvalidate(), DelayedUpdate(), Optimal(lambda file, number: True))
    assert all(policy.declines for policy in policies)
    assert not WriteUpdate().declines
