# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The machines under faults: what programs saw could have been one memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shares.protocol import (
    Block,
    Decision,
    DelayedUpdate,
    FileId,
    Optimal,
    PushPolicy,
    WriteInvalidate,
    WriteUpdate,
)
from tests.shares.history import check, check_staleness
from tests.shares.protocol.faults import FAULTS, Plan, Run, play
from tests.shares.protocol.world import Link, World
from tests.shares.tree_history import one_tree


def often() -> PushPolicy:
    """Pushes about every second write, whatever that is good for."""
    count = iter(range(1 << 40))
    return Optimal(lambda file, number: next(count) % 2 == 0)


class Lively(WriteInvalidate):
    """Does whatever a policy may do, all the time."""

    def unasked(self, file: FileId, block: Block) -> float:
        return 0

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return tuple(Decision)[int(now * 1000) % 3]

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return number % 2 == 0


POLICIES: dict[str, Callable[[], PushPolicy]] = {
    "write-invalidate": WriteInvalidate,
    "write-update": WriteUpdate,
    "delayed-update": DelayedUpdate,
    "often": often,
    "lively": Lively,
}


EVERYTHING = Plan(
    faults=(*FAULTS, "leave"),
    between=0.3,
    files=3,
    holds=5.0,
    closes=0.6,
    evicts=0.1,
    attributes=True,
    late=True,
    ahead=True,
    cuts=0.04,
    longer=0.3,
    makes=0.1,
    removes=0.2,
    windows=True,
    full=0.01,
)
"""Nodes do all that they can, and all goes wrong that may."""

NAMES = replace(EVERYTHING, tree=0.5, removes=0.0, holds=4.0)
"""The same with names in folders."""

CROWDED = Plan(
    operations=300,
    faults=(),
    lease=inf,
    log="off",
    policy=WriteInvalidate,
    files=1,
    blocks=4,
    closes=0.05,
    holds=40,
    writes=0.7,
    attributes=True,
    longer=0.3,
    spans=0.7,
    patience=6.0,
)
"""All want several blocks of one file at a time, and every access ends."""

LOGS = ("sync", "async", "off")


def assert_one_memory(plan: Plan) -> Run:
    run = play(plan)
    assert run.ended >= plan.operations
    assert not (run.orderly and run.refused)
    if plan.relaxation:
        assert check_staleness(run.judged, plan.relaxation) == []
    else:
        assert check(run.judged) == []
    assert one_tree(frozenset(), run.names)
    return run


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_thousands_of_operations_of_three_nodes_are_one_memory(
    policy: Callable[[], PushPolicy], log: str
) -> None:
    """27,000 in all, with pauses, stalls and partitions that outlast the lease, lost memberships,
    deaths, nodes that leave and full disks."""
    run = assert_one_memory(replace(EVERYTHING, seed=7, operations=1500, policy=policy, log=log))
    assert set(run.faults) == {*FAULTS, "leave"}
    assert run.lost > 5
    assert run.native > 20
    does = {"open", "close", "cut", "stat", "make", "remove"}
    assert set(run.did) == (does - {"make", "remove"} if log == "sync" else does)
    assert sum(op.ended is not None for op in run.history) > 1350


@pytest.mark.parametrize("log", LOGS)
def test_files_that_get_and_lose_names_are_one_memory_and_one_tree(log: str) -> None:
    names = 0
    for seed in range(4):
        policy = list(POLICIES.values())[(seed + 2 * LOGS.index(log)) % len(POLICIES)]
        plan = replace(NAMES, seed=seed, operations=400, policy=policy, log=log)
        names += assert_one_memory(plan).did["name"]
        assert_one_memory(replace(plan, relaxation=0.2))
        assert_one_memory(replace(plan, faults=(), cuts=0.1, closes=0.9))
    assert names > 100


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_opens_whose_answers_are_overtaken_leave_one_memory(
    policy: Callable[[], PushPolicy],
) -> None:
    """What was written under a grant that the late answer knew nothing of was refused."""
    faults = Plan(log="off", faults=("pause", "stall", "break"), lease=inf, between=0.2)
    for seed in range(8):
        plan = replace(faults, seed=seed, operations=400, nodes=2 + seed % 2, policy=policy)
        assert_one_memory(replace(plan, closes=0.2, late=True, attributes=seed % 4 > 1))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_content_that_is_asked_for_with_opens_is_one_memory(
    policy: Callable[[], PushPolicy],
) -> None:
    """Invalidates, Engage and NativeGrant come to files whose open is not answered yet."""
    quiet: dict[str, Any] = {"log": "off", "faults": ("pause", "stall", "break"), "lease": inf}
    for seed in range(8):
        plan = Plan(seed=seed, operations=300, nodes=2 + seed % 2, policy=policy, between=0.1)
        plan = replace(plan, ahead=True, closes=0.2, evicts=0.1 * (seed % 3))
        assert_one_memory(plan)
        assert_one_memory(replace(plan, relaxation=0.2))
        assert_one_memory(replace(plan, **quiet, late=True))


CUTS = Plan(operations=400, cuts=0.05, closes=0.2, attributes=True, longer=0.2, between=0.3)
"""Who cuts a file is given where it ends."""

QUIET_CUTS = replace(CUTS, log="off", faults=("pause", "stall", "break"), lease=inf, late=True)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_files_that_are_cut_are_one_memory(policy: Callable[[], PushPolicy]) -> None:
    cuts = 0
    for seed in range(2):
        for each in (CUTS, QUIET_CUTS, replace(CUTS, ahead=True), replace(CUTS, faults=())):
            plan = replace(each, seed=seed, nodes=2 + seed % 2, policy=policy)
            assert_one_memory(plan)
            assert_one_memory(replace(plan, relaxation=0.2))
            cuts += play(plan).did["cut"]
    assert cuts > 100


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_files_with_holes_are_one_memory(policy: Callable[[], PushPolicy]) -> None:
    cuts = 0
    for seed in range(2):
        for each in (CUTS, QUIET_CUTS, replace(CUTS, faults=())):
            plan = replace(each, seed=seed, nodes=3, policy=policy, cuts=0.1, holes=0.7, blocks=4)
            cuts += assert_one_memory(plan).did["cut"]
            assert_one_memory(replace(plan, relaxation=0.2))
    assert cuts > 100


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_access_ends_however_many_want_the_same_blocks(
    policy: Callable[[], PushPolicy], log: str
) -> None:
    """Two nodes took edges and whole blocks of one file from each other for ever. A message takes
    up to 0.02 s, also where copies may be only 0.001 s old. Six programs want the same blocks, and
    none waits for 6 s; not for 2 s where home cuts the file, so no node keeps block -1 until its
    time is over."""
    for seed, relaxation in ((0, 0.0), (1, 0.001), (2, 0.2)):
        plan = replace(CROWDED, seed=seed, policy=policy, log=log, relaxation=relaxation)
        assert_one_memory(plan)
        assert_one_memory(replace(plan, cuts=0.1, holes=0.5, patience=2.0))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_two_hundred_thousand_operations_of_three_nodes_are_one_memory(seed: int) -> None:
    policy, log = list(POLICIES.values())[seed % len(POLICIES)], LOGS[seed % len(LOGS)]
    plan = replace(EVERYTHING, seed=seed, operations=10_000, policy=policy, log=log, limit=inf)
    assert_one_memory(plan)


def test_what_is_sent_over_a_link_comes_in_its_order() -> None:
    """Times were rounded, and what was sent later could come first."""
    for seed in range(200):
        world = World(seed)
        link = Link(world, lambda: 0.02 - world.now)  # noqa: B023
        sent: list[int] = []
        came: list[int] = []

        def send(number: int) -> None:
            sent.append(number)  # noqa: B023
            link.send(lambda: came.append(number))  # noqa: B023

        for number in range(8):
            world.after(world.chance.random() / 100, partial(send, number))
        world.run()
        assert came == sent


def test_the_same_seed_is_the_same_run() -> None:
    plan = Plan(seed=5, operations=800)
    one, other = play(plan), play(plan)
    assert one.history == other.history
    assert one.steps == other.steps
    assert play(replace(plan, seed=6)).history != one.history


def test_no_read_is_older_than_the_relaxation() -> None:
    for relaxation in (0.05, 0.5):
        assert_one_memory(Plan(seed=3, operations=1500, relaxation=relaxation))


def test_relaxed_reads_are_older_than_strong_ones_would_be() -> None:
    """Or the bound would be kept for nothing."""
    run = play(Plan(seed=3, operations=1500, relaxation=0.5, faults=()))
    assert check_staleness(run.history, 0.1) != []


def test_without_a_log_nothing_is_lost_with_connections() -> None:
    plan = Plan(seed=2, operations=1500, log="off", lease=inf, faults=("pause", "stall", "break"))
    assert_one_memory(plan)


FOUND = {
    "what a cut had given came after a close, and was taken for the next open's": Plan(
        seed=9,
        threads=1,
        files=1,
        policy=WriteUpdate,
        log="off",
        faults=(),
        holds=1,
        closes=1.0,
        evicts=0.1,
        attributes=True,
        cuts=0.25,
    ),
    "what was written under an older grant came home after newer content": Plan(
        seed=2,
        nodes=2,
        threads=1,
        files=1,
        policy=WriteUpdate,
        closes=0.2,
        evicts=0.2,
        between=0.2,
        log="off",
        lease=inf,
        faults=("pause", "stall", "break"),
    ),
    "a copy that was asked for before the file became native replaced what was written": Plan(
        seed=7, threads=1, blocks=1, closes=0.2, evicts=0, between=0.2, relaxation=0.1
    ),
    "a file was closed while a write was on its way to the log": Plan(
        seed=8, blocks=1, policy=WriteUpdate, closes=0.2, evicts=0, between=0.05
    ),
    "a reply to the old connection came on the new one": Plan(
        seed=34,
        threads=4,
        files=1,
        blocks=1,
        between=0.05,
        log="off",
        lease=inf,
        faults=("pause", "stall", "break"),
    ),
    "an owner's second grant refused what it wrote under the first": Plan(
        seed=74,
        nodes=2,
        files=1,
        policy=WriteUpdate,
        closes=0,
        between=0.05,
        log="off",
        lease=inf,
        faults=("pause", "stall", "break"),
    ),
    "a block that was granted without content was read": Plan(
        seed=103, nodes=5, threads=4, files=3, blocks=1, closes=0.2, evicts=0.2, relaxation=1.0
    ),
    "a flush that crossed a native grant was counted for it": Plan(
        seed=719,
        threads=4,
        files=1,
        blocks=1,
        policy=WriteInvalidate,
        closes=0.2,
        between=0.5,
        log="off",
        lease=inf,
        faults=("pause", "stall", "break"),
    ),
    "a push was replaced by what had been asked for while the file was native": Plan(
        seed=18,
        nodes=2,
        threads=4,
        blocks=1,
        policy=often,
        closes=0.0,
        between=0.2,
        log="off",
        lease=inf,
        faults=("pause", "stall", "break"),
    ),
    "the same, with the log": Plan(
        seed=2, threads=4, blocks=1, policy=often, closes=0.2, between=0.05
    ),
    "an owner that home had given up took its copy for fresh": Plan(
        seed=0,
        nodes=4,
        files=1,
        blocks=1,
        policy=WriteInvalidate,
        faults=("pause",),
        between=0.05,
        closes=0.0,
        evicts=0.3,
        relaxation=0.2,
    ),
    "what came late with an open was put over what had been pushed since it was asked": Plan(
        seed=0,
        nodes=2,
        threads=1,
        files=1,
        blocks=0,
        policy=often,
        faults=("pause",),
        between=0.05,
        closes=0.2,
        evicts=0,
        attributes=True,
        late=True,
    ),
    "a clean block of a native file was thought to be newer at its node": Plan(
        seed=241, nodes=2, files=3, blocks=1, policy=WriteUpdate, closes=0.2, evicts=0.2
    ),
    "versions of blocks that were cut off were given again, and what had been there was read": Plan(
        policy=WriteInvalidate,
        seed=1003459,
        nodes=2,
        threads=1,
        files=3,
        faults=("stall",),
        between=0.2,
        closes=0.6,
        evicts=0,
        holds=3.0,
        ahead=True,
        cuts=0.05,
        longer=0.3,
        lease=0.2,
    ),
    "what a window wrote while home made the file was under no grant, and was refused": Plan(
        policy=WriteUpdate,
        seed=582,
        threads=4,
        files=1,
        blocks=2,
        faults=("pause",),
        between=0.05,
        closes=0,
        evicts=0.3,
        log="off",
        holds=1.0,
        ahead=True,
        makes=0.2,
        windows=True,
        lease=inf,
    ),
    "what was given in an answer was forgotten with a close before home had it": Plan(
        policy=WriteInvalidate,
        seed=1100878,
        nodes=5,
        threads=1,
        faults=("stall", "break"),
        between=0.05,
        closes=0.6,
        evicts=0.3,
        log="off",
        holds=1.0,
        attributes=True,
        ahead=True,
        longer=0.3,
        removes=0.2,
        windows=True,
        lease=0.2,
    ),
    "a node without room for what it was given wrote under a later grant, and was refused": Plan(
        policy=WriteInvalidate,
        seed=1103631,
        files=1,
        blocks=1,
        faults=("leave", "break"),
        between=0.05,
        closes=0,
        evicts=0.3,
        late=True,
        ahead=True,
        cuts=0.2,
        longer=0.3,
        removes=0.2,
        full=0.03,
    ),
}


@pytest.mark.parametrize("plan", FOUND.values(), ids=FOUND)
def test_what_the_simulator_found(plan: Plan) -> None:
    assert_one_memory(replace(plan, operations=1000))


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        Plan,
        seed=st.integers(0, 1 << 30),
        operations=st.just(250),
        nodes=st.integers(2, 5),
        threads=st.integers(1, 4),
        files=st.integers(1, 3),
        blocks=st.integers(1, 3),
        policy=st.sampled_from(list(POLICIES.values())),
        faults=st.sampled_from([(), *((kind,) for kind in FAULTS), FAULTS]),
        between=st.sampled_from([0.05, 0.2, 1.0]),
        closes=st.sampled_from([0.0, 0.02, 0.2]),
        evicts=st.sampled_from([0.0, 0.05, 0.3]),
        relaxation=st.sampled_from([0.0, 0.0, 0.2]),
        log=st.sampled_from(LOGS),
        holds=st.sampled_from([1.0, 8.0]),
        attributes=st.booleans(),
        late=st.booleans(),
        ahead=st.booleans(),
        cuts=st.sampled_from([0.0, 0.1]),
        longer=st.sampled_from([0.0, 0.3]),
        makes=st.sampled_from([0.0, 0.2]),
        removes=st.sampled_from([0.0, 0.2]),
        windows=st.booleans(),
        full=st.sampled_from([0.0, 0.03]),
    )
)
def test_any_plan_is_one_memory(plan: Plan) -> None:
    assert_one_memory(plan)
