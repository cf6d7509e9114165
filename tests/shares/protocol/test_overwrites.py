# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is learnt of a file's blocks stays when the file is closed, cut, or native for a while."""

from __future__ import annotations

from shares.protocol import Block, DelayedUpdate, FileId, PushPolicy, WriteInvalidate
from shares.protocol.overwrites import Overwrites
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
