# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is learnt of a source: against links whose round trip and rate are known."""

import math
from collections.abc import Iterator

import pytest

from surrogate.fetching import Estimate, Prior

LINKS = {"paper": (0.005, 11e6 / 8), "today": (0.005, 200e6 / 8), "uplink": (0.065, 256e3 / 8)}
EVERY_LINK = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def pipeline(
    link: tuple[float, float], size: int, count: int, depth: int
) -> Iterator[tuple[float, float, bool]]:
    """(began, answered, alone) of requests for `size` bytes over a link, `depth` at a time."""
    round_trip, rate = link
    free, under_way = 0.0, [0.0] * depth
    for number in range(count):
        began = under_way.pop(0)
        free = max(free, began + round_trip) + size / rate
        under_way.append(free)
        yield began, free, depth == 1 or number == 0


def taught(link: tuple[float, float], size: int, count: int, depth: int = 1) -> Estimate:
    estimate = Estimate(Prior())
    events = []
    for began, ended, alone in pipeline(link, size, count, depth):
        events += [(began, 1, began, alone), (ended, 0, began, alone)]
    for at, sent, began, alone in sorted(events, key=lambda event: event[:2]):
        if sent:
            estimate.sent(at)
        else:
            predicted = estimate.seconds(size, 0)
            estimate.answered(at, began, size, predicted, alone=alone, full=depth > 1)
    return estimate


@EVERY_LINK
def test_a_pipeline_shows_the_rate_and_the_round_trip(link: tuple[float, float]) -> None:
    estimate = taught(link, 50_000, 40, depth=3)
    assert estimate.rate == pytest.approx(link[1], rel=0.2)
    lone = taught(link, 2_000, 20)
    assert lone.round_trip == pytest.approx(link[0] + 2000 / link[1], rel=0.6)


@EVERY_LINK
def test_lone_requests_one_after_the_other_show_both(link: tuple[float, float]) -> None:
    estimate = taught(link, 60_000, 30)
    assert estimate.seconds(60_000, 0) == pytest.approx(link[0] + 60_000 / link[1], rel=0.3)


def test_requests_too_small_say_nothing_about_the_rate() -> None:
    estimate = taught(LINKS["today"], 2_000, 10)
    assert not estimate.rate_known
    assert estimate.bandwidth_delay == 0.0


def test_a_source_that_slows_down_is_noticed_and_so_is_its_recovery() -> None:
    estimate = Estimate(Prior())
    now = 0.0
    for rate, goal in ((1e6, 1e6), (50e3, 50e3), (1e6, 1e6)):
        for _ in range(20):
            estimate.sent(now)
            took = 0.01 + 50_000 / rate
            estimate.answered(now + took, now, 50_000, took, alone=True, full=False)
            now += took
        assert estimate.rate == pytest.approx(goal, rel=0.25)


def test_a_round_trip_that_grew_is_believed_after_a_while() -> None:
    estimate = taught((0.005, 1e6), 2_000, 10)
    for number in range(40):
        estimate.sent(number)
        estimate.answered(number + 0.1, number, 2_000, 0.1, alone=True, full=False)
    assert estimate.round_trip == pytest.approx(0.1, rel=0.1)


def test_hits_are_learnt_and_forgotten() -> None:
    estimate = Estimate(Prior(hits=0.5))
    assert estimate.hits(0.0) == 0.5
    estimate.sent(0.0)
    estimate.answered(1.0, 0.0, 0, 1.0, alone=True, full=False)
    estimate.had(100, 0)
    assert estimate.hits(1.0) < 0.05
    assert estimate.hits(1000.0) == pytest.approx(0.5, abs=0.01)
    for _ in range(20):
        estimate.had(4, 4)
    assert estimate.hits(1.0) > 0.95


def test_an_answer_is_overdue_after_what_is_usual_for_this_source() -> None:
    steady = taught((0.05, 1e6), 2_000, 30)
    predicted = steady.seconds(2_000, 0)
    assert 0.1 < steady.overdue(predicted) < 0.5
    wavering = Estimate(Prior())
    for number in range(30):
        took = 0.05 if number % 2 else 0.6
        wavering.sent(number)
        wavering.answered(number + took, number, 2_000, 0.05, alone=True, full=False)
    assert wavering.overdue(0.05) > 1.0
    assert Estimate(Prior()).overdue(0.01) >= 1.0
    assert steady.idle_since(10.0) < math.inf
