# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a server has of the processor while another is there; time is the test's."""

import threading

import pytest

from wire import Pace, Portion
from wire.pace import BURST_SECONDS, PATIENCE_SECONDS, PRESENT_SECONDS, RATE

COST = 0.004
"""Seconds of a processor that a request takes here."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def served(clock: Clock, portion: Portion, seconds: float, workers: int = 8) -> int:
    """Requests that begin within so many seconds, where that many are asked at once, always."""
    free, until, count = [clock.now] * workers, clock.now + seconds, 0
    while True:
        clock.now = max(clock.now, free[0])
        if clock.now >= until:
            return count
        wait, counted = portion.begin()
        portion.end(counted, COST)
        count += wait == 0.0 or clock.now + wait < until
        free = sorted([*free[1:], clock.now + wait + COST])


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_who_is_alone_never_waits(clock: Clock) -> None:
    portion = Pace(clock).portion()
    assert served(clock, portion, 1.0) >= 8 / COST
    assert portion.read(10.0) == 0.0


def test_who_takes_more_is_held_to_its_rate_while_another_is_there(clock: Clock) -> None:
    pace = Pace(clock)
    quiet, greedy = pace.portion(), pace.portion()
    quiet.end(quiet.begin()[1], COST)
    count = served(clock, greedy, 10.0)
    assert count * COST <= 10.0 * RATE + BURST_SECONDS + 16 * COST
    assert count * COST >= 10.0 * RATE * 0.8
    for _ in range(20):  # and the other one, who takes less, does not wait meanwhile
        wait, counted = quiet.begin()
        quiet.end(counted, COST)
        assert wait == 0.0
        clock.now += COST / RATE


def test_who_has_been_away_is_not_waited_for(clock: Clock) -> None:
    pace = Pace(clock)
    quiet, greedy = pace.portion(), pace.portion()
    quiet.end(quiet.begin()[1], COST)
    clock.now += PRESENT_SECONDS + 1.0
    assert served(clock, greedy, 1.0) >= 8 / COST


def test_a_turn_that_took_long_delays_none_without_end(clock: Clock) -> None:
    pace = Pace(clock)
    quiet, greedy = pace.portion(), pace.portion()
    quiet.begin()
    greedy.end(greedy.begin()[1], 3600.0)
    assert all(greedy.begin()[0] <= PATIENCE_SECONDS + 1e-9 for _ in range(100))
    assert greedy.read(3600.0) < 0.1


@pytest.mark.parametrize("most", [60.0, 0.01])
def test_who_has_to_wait_gives_way_to_a_request_in_work_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, most: float
) -> None:
    monkeypatch.setattr("wire.pace.GIVE_WAY_SECONDS", most)
    pace = Pace()
    quiet, greedy = pace.portion(), pace.portion()
    begun = threading.Event()

    def take() -> None:
        greedy.end(0.0, BURST_SECONDS + PATIENCE_SECONDS)
        with greedy.turn():
            begun.set()

    taking = threading.Thread(target=take)
    with quiet.turn():
        taking.start()
        assert begun.wait(2.0 if most > 1.0 else 30.0) is (most < 1.0)
    assert begun.wait(30.0)
    taking.join()
