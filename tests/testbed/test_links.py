# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of an emulated link, which every implementation keeps on a busy machine too."""

import statistics
from collections.abc import Callable

import pytest

from satchel.errors import UsageError
from testbed import PAPER, TODAY, Counters, Host, Shape, TestbedFailed, measure
from testbed.links import MTU, End, LinkMaker, queue_for
from testbed.measure import Pair

pytestmark = pytest.mark.netns

RATE_TOLERANCE = 0.05
DELAY_TOLERANCE = 0.05
DELAY_ALLOWANCE = 0.001


TRIES = 10
"""Measurements of which one has to fit: what else this machine has to do spoils some of them, and
a link that is wrong spoils all."""


def bounded(rate: int) -> Shape:
    return Shape(rate=rate, queue=4 << 20)


def best(measured: Callable[[], float], low: float, high: float) -> float:
    """The first measurement within the bounds, or the last one."""
    for _ in range(TRIES):
        found = measured()
        if low <= found <= high:
            break
    return found


def check_rate(measured: Callable[[], float], rate: float) -> None:
    low, high = rate * (1 - RATE_TOLERANCE), rate * (1 + RATE_TOLERANCE)
    assert low <= best(measured, low, high) <= high


def check_delay(one: Host, other: Host, delay: float) -> None:
    high = delay * (1 + DELAY_TOLERANCE) + DELAY_ALLOWANCE
    shortest = []

    def median() -> float:
        found = measure.delays(one, other)
        shortest.append(found[0])
        return statistics.median(found)

    assert best(median, delay, high) <= high
    assert min(shortest) >= delay


@pytest.mark.parametrize(
    ("rate", "count"),
    [
        (PAPER.home_up, 20),
        (PAPER.hotspot, 60),
        (PAPER.wifi, 150),
        (TODAY.home_up, 250),
        (TODAY.hotspot, 800),
        (TODAY.wifi, 1500),
    ],
)
def test_rate_is_within_five_percent(pair: Pair, rate: int, count: int) -> None:
    pair.link.shape(up=bounded(rate), down=bounded(2 * rate))
    check_rate(lambda: measure.rate(pair.leaf, pair.core, count=count), rate)
    check_rate(lambda: measure.rate(pair.core, pair.leaf, count=count), 2 * rate)


def test_rate_counts_every_byte_of_small_packets(pair: Pair) -> None:
    pair.link.shape(up=bounded(1_000_000))
    check_rate(lambda: measure.rate(pair.leaf, pair.core, count=300, size=100), 1_000_000)


@pytest.mark.parametrize("milliseconds", [0, 2.5, 15, 100])
def test_delay_is_within_a_millisecond_and_five_percent(pair: Pair, milliseconds: float) -> None:
    delay = milliseconds / 1000
    pair.link.shape(up=Shape(delay=delay), down=Shape(delay=delay / 2))
    check_delay(pair.leaf, pair.core, delay)
    check_delay(pair.core, pair.leaf, delay / 2)


def test_transmission_takes_its_time_before_the_delay(pair: Pair) -> None:
    pair.link.shape(up=Shape(rate=PAPER.home_up, delay=0.010, queue=1 << 20))
    expected = MTU * 8 / PAPER.home_up + 0.010
    high = expected * (1 + DELAY_TOLERANCE) + DELAY_ALLOWANCE

    def shortest() -> float:
        return measure.delays(pair.leaf, pair.core, count=5, size=MTU, gap=0.06)[0]

    assert expected <= best(shortest, expected, high) <= high


def test_jitter_spreads_the_delay_and_keeps_the_order(pair: Pair) -> None:
    pair.link.shape(up=Shape(delay=0.020, jitter=0.010))
    arrivals = measure.datagrams(pair.leaf, pair.core, 200, size=100, gap=0.001)
    spread = sorted(arrival.delay for arrival in arrivals)
    assert [arrival.number for arrival in arrivals] == list(range(200))
    assert spread[0] >= 0.010
    assert spread[150] <= 0.030 + DELAY_ALLOWANCE
    assert spread[-10] - spread[10] > 0.003


def test_loss_loses_that_fraction(pair: Pair) -> None:
    pair.link.shape(up=Shape(loss=0.1))
    arrivals = measure.datagrams(pair.leaf, pair.core, 3000, size=100, gap=1e-5)
    counters = pair.link.counters()["up"]
    assert counters == Counters(len(arrivals), len(arrivals) * 100, 3000 - len(arrivals))
    assert 0.07 < counters.drops / 3000 < 0.13


def test_a_full_queue_drops_what_comes_last(pair: Pair) -> None:
    pair.link.shape(up=Shape(rate=250_000, queue=20 * MTU))
    arrivals = measure.datagrams(pair.leaf, pair.core, 100)
    numbers = [arrival.number for arrival in arrivals]
    assert 18 <= len(numbers) <= 24
    assert numbers[:18] == list(range(18))
    assert pair.link.counters()["up"].drops == 100 - len(numbers)


def test_counters_are_the_bytes_that_were_sent(pair: Pair) -> None:
    before = pair.link.counters()
    for size in (28 + 16, 333, MTU):
        measure.datagrams(pair.leaf, pair.core, 10, size=size)
    measure.datagrams(pair.core, pair.leaf, 7, size=100)
    after = pair.link.counters()
    assert after["up"] - before["up"] == Counters(30, 10 * (44 + 333 + MTU), 0)
    assert after["down"] - before["down"] == Counters(7, 700, 0)


def test_a_cut_loses_everything_until_it_is_restored(pair: Pair) -> None:
    pair.link.cut()
    assert not measure.datagrams(pair.leaf, pair.core, 5)
    assert not measure.datagrams(pair.core, pair.leaf, 5)
    assert pair.link.counters()["up"].drops == 5
    pair.link.restore()
    assert len(measure.datagrams(pair.leaf, pair.core, 5)) == 5


def test_a_new_shape_applies_at_once_and_to_one_direction_only(pair: Pair) -> None:
    pair.link.shape(up=Shape(delay=0.005), down=Shape(delay=0.005))
    pair.link.shape(up=Shape(delay=0.050))
    assert measure.delays(pair.leaf, pair.core, count=5)[0] >= 0.050
    assert measure.delays(pair.core, pair.leaf, count=5)[0] < 0.050


def test_a_shape_that_changes_during_a_cut_does_not_end_it(pair: Pair) -> None:
    pair.link.cut()
    pair.link.shape(up=Shape(delay=0.001))
    assert not measure.datagrams(pair.leaf, pair.core, 3)


@pytest.mark.parametrize(
    ("rate", "delay", "size"),
    [
        (PAPER.home_up, 0.0325, 64 << 10),
        (PAPER.wifi, 0.0025, 2 << 20),
        (TODAY.wifi, 0.0025, 24 << 20),
    ],
)
def test_tcp_fills_the_link(pair: Pair, rate: int, delay: float, size: int) -> None:
    shape = Shape(rate=rate, delay=delay, queue=queue_for(rate))
    pair.link.shape(up=shape, down=shape)
    low, high = 0.8 * rate, 1.05 * rate
    assert low < best(lambda: measure.goodput(pair.leaf, pair.core, size), low, high) < high


def test_a_shape_out_of_range_is_refused() -> None:
    for wrong in ({"rate": -1}, {"delay": -0.1}, {"loss": 1.5}, {"queue": -1}):
        with pytest.raises(UsageError):
            Shape(**wrong)


def test_a_link_that_exists_is_refused(maker: LinkMaker, pair: Pair) -> None:
    end = End(pair.leaf.namespace, "link0")
    with pytest.raises(TestbedFailed):
        maker.connect("pair", end, end, Shape(), Shape())
    assert len(measure.datagrams(pair.leaf, pair.core, 3)) == 3
