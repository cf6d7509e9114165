# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from uplink.policy import BadRadio, Interface, RadioState, built_in_radios, read_radios

LTE = built_in_radios()["4g"]


def test_the_models_are_those_of_their_source() -> None:
    assert LTE.up_watts(0) == pytest.approx(1.28804)
    assert LTE.up_watts(1) - LTE.up_watts(0) == pytest.approx(0.43839)
    assert LTE.overhead_joules == pytest.approx(0.260 * 1.2107 + 11.576 * 1.060)
    assert all(model.source for model in built_in_radios().values())


def test_two_transfers_far_apart_pay_for_two_promotions_and_tails() -> None:
    interface = Interface(LTE)
    end = interface.transfer(0.0, up=1_000_000, rate=8.0)
    assert end == pytest.approx(0.26 + 1.0)
    interface.transfer(end + 60, up=1_000_000, rate=8.0)
    ledger = interface.finish()
    assert ledger.promotions == 2
    assert ledger.seconds[RadioState.TAIL] == pytest.approx(2 * LTE.tail_seconds)


def test_a_transfer_within_the_tail_pays_for_the_tail_up_to_it() -> None:
    interface = Interface(LTE)
    end = interface.transfer(0.0, up=1_000_000, rate=8.0)
    interface.transfer(end + 5, up=1_000_000, rate=8.0)
    ledger = interface.finish()
    assert ledger.promotions == 1
    assert ledger.seconds[RadioState.TAIL] == pytest.approx(5 + LTE.tail_seconds)


def test_the_states_between_transfers() -> None:
    interface = Interface(LTE)
    assert interface.state(0.0) is RadioState.IDLE
    end = interface.transfer(0.0, up=1_000_000)
    assert interface.state(end - 0.1) is RadioState.ACTIVE
    assert interface.state(end + 11) is RadioState.TAIL
    assert interface.state(end + 12) is RadioState.IDLE


def test_looking_at_the_ledger_changes_nothing() -> None:
    interface = Interface(LTE)
    end = interface.transfer(0.0, up=1_000_000)
    looks = [interface.settle(end + 3).total for _ in range(3)]
    assert looks[0] == looks[2]
    assert interface.settle(end + 100).total == pytest.approx(interface.finish().total)


@pytest.mark.parametrize(
    "text",
    [
        "x =",
        "[x]\nrate = 1",
        "x = 1",
        "[x]\nalpha-up = -1\nalpha-down = 1\nbeta = 1\nrate = 1\nsource = ''\n"
        "promotion = { ms = 1, mw = 1 }\ntail = [{ ms = 1, mw = 1 }]",
        "[x]\nalpha-up = 1\nalpha-down = 1\nbeta = 1\nrate = 1\nsource = ''\n"
        "promotion = { ms = 1, mw = 1 }\ntail = []",
        "[x]\nalpha-up = 1\nalpha-down = 1\nbeta = 1\nrate = true\nsource = ''\n"
        "promotion = { ms = 1 }\ntail = [{ ms = 1, mw = 1 }]",
    ],
)
def test_what_is_no_model_is_refused(text: str) -> None:
    with pytest.raises(BadRadio):
        read_radios(text)
