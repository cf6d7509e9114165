# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the predictor learns that a threshold does not."""

from __future__ import annotations

import pytest

from shares.protocol import POLICIES, DelayedUpdate, FileId, Policy, Predicted, WriteInvalidate
from tests.shares.protocol.accesses import VALUE, Access
from tests.shares.protocol.simulated_home import SimHome
from tests.shares.protocol.simulated_node import SimNode
from tests.shares.protocol.world import World

FILE = FileId(1)


def waits(policy: type[Policy], steps: list[tuple[str, int]]) -> int:
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


def test_it_is_a_policy_that_shares_can_have() -> None:
    assert isinstance(POLICIES["predicted"](), Predicted)


def test_blocks_that_are_written_and_read_once_are_foreseen_by_their_file() -> None:
    """As of a file that one node makes and the other one reads, block after block."""
    steps = [(what, block) for block in range(40) for what in "WR"]
    assert waits(WriteInvalidate, steps) == 80
    assert waits(Predicted, steps) <= 43


@pytest.mark.parametrize("pattern", ["WWWR", "WR", "WWR"])
def test_a_steady_pattern_is_foreseen(pattern: str) -> None:
    steps = [(what, 0) for what in pattern * 12]
    # The first write after a push asks home; nothing else waits once the pattern is known.
    assert waits(Predicted, steps) <= 12 + 2 * len(pattern)


def test_a_pattern_that_alternates_is_foreseen_where_a_threshold_is_always_late() -> None:
    steps = [(what, 0) for what in ("WR" + "WWWR") * 12]
    assert waits(Predicted, steps) < waits(DelayedUpdate, steps)
