# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How many operations go to a replica at once, whose answers somebody waits for."""

import pytest

from client.pace import BATCH, BATCH_SECONDS, Portion


def settled(way: float, each: float) -> int:
    """Where the round trip and each operation take so long, and there is always enough to send."""
    portion = Portion()
    for _ in range(50):
        count = portion.size
        portion.note(count, way + count * each)
        portion.note(1, way + each)
        portion.note(count, way + count * each)
    return portion.size


def test_nothing_known_or_fast_operations_go_in_whole_batches() -> None:
    assert Portion().size == BATCH
    assert settled(0.3, 0.001) == BATCH


@pytest.mark.parametrize("way", [0.0, 0.035, 0.5])
def test_slow_ones_go_in_small_ones_however_long_the_way_is(way: float) -> None:
    size = settled(way, 0.016)
    assert BATCH_SECONDS / 0.016 <= size <= 2 * BATCH_SECONDS / 0.016
    assert settled(way, 1.5) == 1


def test_one_that_was_slow_and_is_fast_again_gets_more() -> None:
    portion = Portion()
    for _ in range(5):
        portion.note(1, 2.0)
        portion.note(1, 0.01)
    assert portion.size < BATCH
    for _ in range(20):
        portion.note(portion.size, 0.02)
    assert portion.size == BATCH
