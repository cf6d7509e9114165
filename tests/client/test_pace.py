# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How many operations go to a replica at once, whose answers somebody waits for."""

import time

import pytest

from client.session.pace import BATCH, BATCH_SECONDS, SEEN, CatchUp, Portion


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


def caught_up(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> float | None:
    """Where each answer came so long after the one before it."""
    made, now = CatchUp(), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for number, passed in enumerate(seconds, start=41):
        now += passed
        made.note(number)
    return made.seconds_each()


def test_a_catch_up_is_as_fast_as_its_second_half(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [5.0, 3.0, 1.0, 1.0]
    assert caught_up(monkeypatch, [*waits, 0.2, 0.2, 0.3, 0.1]) == pytest.approx(0.2)
    assert caught_up(monkeypatch, [*waits, 0.2, 0.2]) is None
    assert caught_up(monkeypatch, []) is None


def test_a_long_catch_up_is_remembered_in_little_space(monkeypatch: pytest.MonkeyPatch) -> None:
    made, now = CatchUp(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for number in range(1, 5001):
        now += 1.0 if number < 1000 else 0.25
        made.note(number)
    assert made.seconds_each() == pytest.approx(0.25)
    assert len(made._seen) <= SEEN
