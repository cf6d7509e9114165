# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The pace of tenants that ask at the same time, by a clock that stands still."""

import itertools

import pytest

from surrogate.tenants.pacer import LONGEST_SECONDS, PART, Pacer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.waited: list[float] = []

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pacer(clock: Clock) -> Pacer:
    return Pacer(clock, clock.waited.append)


def ask(pacer: Pacer, tenant: str, count: int, used: float = 0.001, kind: str = "api") -> None:
    for _ in range(count):
        pacer.begin(tenant, kind)
        pacer.end(tenant, kind, used)


def test_a_tenant_that_is_alone_never_waits(pacer: Pacer, clock: Clock) -> None:
    ask(pacer, "bert", 1000)
    assert clock.waited == []


def test_beside_another_its_requests_are_apart_by_its_share(pacer: Pacer, clock: Clock) -> None:
    pacer.begin("anna", "api")
    ask(pacer, "bert", 200)
    apart = 0.001 * 2 / PART
    steps = [b - a for a, b in zip(clock.waited, clock.waited[1:], strict=False)]
    assert steps[:50] == pytest.approx([apart] * 50)
    assert max(clock.waited) <= LONGEST_SECONDS


def test_whoever_uses_less_than_his_share_never_waits(pacer: Pacer, clock: Clock) -> None:
    for _ in range(100):
        ask(pacer, "bert", 20)
        del clock.waited[:]
        ask(pacer, "anna", 1)
        assert clock.waited == []
        clock.now += 0.02


def test_chunks_hold_up_no_operation(pacer: Pacer, clock: Clock) -> None:
    pacer.begin("anna", "api")
    ask(pacer, "bert", 50, used=0.1, kind="chunks")
    del clock.waited[:]
    ask(pacer, "bert", 1)
    assert clock.waited == []


def test_who_has_gone_has_no_share(pacer: Pacer, clock: Clock) -> None:
    ask(pacer, "anna", 1)
    ask(pacer, "bert", 100)
    clock.now += 3.0
    del clock.waited[:]
    ask(pacer, "bert", 1000)
    assert clock.waited == []


def test_requests_that_wait_together_begin_one_after_the_other(clock: Clock) -> None:
    """Eight connections with costly requests began all at once, after the longest wait."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) < 8:
            made.begin("bert", "api")

    made = Pacer(clock, sleep)
    ask(made, "anna", 1)
    ask(made, "bert", 21, used=5.0)
    del waited[:]
    made.begin("bert", "api")
    steps = [b - a for a, b in itertools.pairwise(waited)]
    assert steps == pytest.approx([LONGEST_SECONDS] * 7)


def test_who_reads_requests_rests_by_his_share(pacer: Pacer, clock: Clock) -> None:
    pacer.rest("bert", 0.1)
    assert clock.waited == []  # he is alone
    ask(pacer, "anna", 1)
    for _ in range(10):
        pacer.rest("bert", 0.00001)  # he has only looked
    assert clock.waited == []
    for _ in range(3):
        pacer.rest("bert", 0.1)
    assert clock.waited == pytest.approx([0.35, 0.75, LONGEST_SECONDS])
    del clock.waited[:]
    pacer.rest("anna", 0.01)
    assert clock.waited == []
