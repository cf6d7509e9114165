# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's formulas, against the ledger of the states that they summarise."""

import pytest

from uplink.policy import (
    Batcher,
    Interface,
    RadioModel,
    Reason,
    built_in_radios,
    growth_per_mb,
)

RADIOS = built_in_radios()
EVERY_RADIO = pytest.mark.parametrize("name", sorted(RADIOS))


def burst_joules(model: RadioModel, size: int, rate: float) -> float:
    """Formula 2: E = alpha s + beta s/H + rho T_pt, of `size` bytes in one burst."""
    return model.up_watts(rate) * size * 8 / 1e6 / rate + model.overhead_joules


def saving_ratio(model: RadioModel, size: int, rate: float) -> float:
    """Formula 3: R = 1/(Ms + 1): the next upload's saving as a part of the cost of all."""
    slope = model.up_watts(rate) / rate * 8 / model.overhead_joules
    return 1 / (slope * size / 1e6 + 1)


@EVERY_RADIO
@pytest.mark.parametrize("rate", [1.0, 6.0])
def test_a_burst_costs_what_the_states_of_the_interface_cost(name: str, rate: float) -> None:
    interface = Interface(RADIOS[name])
    interface.transfer(0.0, up=3_000_000, rate=rate)
    assert interface.finish().total == pytest.approx(burst_joules(RADIOS[name], 3_000_000, rate))


@EVERY_RADIO
def test_growth_is_the_magnitude_of_the_derivative_of_the_saving(name: str) -> None:
    """The print has the sign wrong."""
    model, step = RADIOS[name], 100
    for size in (0, 100_000, 2_000_000, 9_000_000):
        before, after = (saving_ratio(model, x, 2.0) for x in (size, size + step))
        slope = (after - before) / (step / 1e6)
        assert slope < 0
        middle = size + step // 2
        assert growth_per_mb(model, middle, 2.0) == pytest.approx(-slope, rel=1e-3)


@EVERY_RADIO
def test_the_saving_is_a_promotion_and_a_tail_by_what_all_cost(name: str) -> None:
    model = RADIOS[name]
    together = burst_joules(model, 2_000_000, 2.0)
    assert saving_ratio(model, 2_000_000, 2.0) == pytest.approx(model.overhead_joules / together)


def test_the_sizes_at_which_a_batch_goes_are_those_of_the_papers_figures() -> None:
    """About 5.5 MB over 4G at 1 Mb/s; at once over Wi-Fi."""
    batcher = Batcher(RADIOS["4g"], 1.0)
    assert batcher.accepted(5_000_000) is None
    assert batcher.accepted(6_000_000) is Reason.ENOUGH
    assert Batcher(RADIOS["wifi"], 12.0).accepted(1_000_000) is Reason.ENOUGH


def test_each_condition_of_the_decision_flow() -> None:
    batcher = Batcher(RADIOS["4g"], 6.0, deadline=60.0)
    assert batcher.accepted(1000) is None
    assert batcher.accepted(1000, user=True) is Reason.USER
    assert batcher.accepted(1000, awake=True) is Reason.AWAKE
    assert batcher.waited(100.0, 159.0) is None
    assert batcher.waited(100.0, 160.0) is Reason.DEADLINE
    assert batcher.waited(2.2e9, 160.0) is Reason.DEADLINE, "the clock was ahead"


def test_the_rate_is_learnt_from_large_bursts_only() -> None:
    batcher = Batcher(RADIOS["4g"], 6.0)
    batcher.sent(1000, 10.0)
    assert batcher.rate == 6.0
    for _ in range(40):
        batcher.sent(1_000_000, 8.0)
    assert batcher.rate == pytest.approx(1.0, rel=0.01)
