# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""OFS's evaluation with recorded traces: `./scripts/bench ofs`, papers/ofs/README.md.

Mean I/O latency and traffic of each policy on the twelve workloads, over links of 20 and 60 ms, and
what relaxation saves. Of the mean of the twelve each workload is a twelfth: means are of ratios.
The pictures, with the series that they are drawn from, go to bench-out/ofs.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import Figure, figure
from papers.ofs.least import LEAST, least
from papers.ofs.local import local_figures
from papers.ofs.network import Link
from papers.ofs.offload import photo_figures
from papers.ofs.photographs import photograph_figures
from papers.ofs.plan import Plan
from papers.ofs.plots import (
    Series,
    draw_latency,
    draw_overwrites,
    draw_relaxation,
    draw_traffic,
    draw_waits,
)
from papers.ofs.replay import OPTIMAL, ReplayResult, replay
from papers.ofs.splits import paper_workloads, workloads
from papers.ofs.trace import traces
from papers.ofs.variants import VARIANTS
from papers.ofs.waits import KINDS
from shares.protocol import POLICIES, DelayedUpdate, WriteInvalidate, WriteUpdate

OUT = Path("bench-out") / "ofs"

ROUND_TRIPS = (0.020, 0.060)
RATE = 20e6 / 8
"""Bytes a second: a home's uplink of today."""

INVALIDATE, UPDATE, DELAYED = WriteInvalidate.name, WriteUpdate.name, DelayedUpdate.name

LATENCY_GOALS = {UPDATE: 0.79, INVALIDATE: 0.80}
TRAFFIC_GOALS = {UPDATE: 0.33, INVALIDATE: 1.14}
"""What delayed-update is to have of those, at most."""

NOTHING = 10e-6
"""Seconds of mean latency, of which no ratio is made."""

RELAXATIONS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
RELAXED = 5.0
ENDLESS = 1e9
"""Seconds: no copy is ever too old, so no bound of their age saves more."""

RELAXED_LATENCY, RELAXED_TRAFFIC = 0.6, 0.75
"""Of what it is with 0: opens are relaxed as well, so their waits are in the latency."""


def policies() -> tuple[str, ...]:
    """Those that are compared."""
    known = (INVALIDATE, UPDATE, DELAYED)
    return (*(name for name in known if name in POLICIES), OPTIMAL)


def plans() -> list[Plan]:
    """Of the twelve workloads."""
    return [Plan(workload) for workload in workloads(traces())]


def figures() -> Iterator[Figure]:
    yield from policy_figures(False)
    yield from relaxation_figures(False)
    yield from local_figures(False)
    yield from photo_figures(False)


def quick_figures() -> Iterator[Figure]:
    yield from policy_figures(True)
    yield from relaxation_figures(True)
    yield from local_figures(True)
    yield from photo_figures(True)


def policy_figures(quick: bool) -> Iterator[Figure]:
    """All policies on all workloads."""
    series: dict[float, Series] = {}
    every = plans()
    for round_trip in ROUND_TRIPS[:1] if quick else ROUND_TRIPS:
        found: Series = {
            name: {plan.workload.name: replay(plan, name, Link(round_trip, RATE)) for plan in every}
            for name in (*policies(), *VARIANTS)
        }
        series[round_trip] = found
        label = f"shares, {round_trip * 1e3:.0f} ms"
        yield from _of_workloads(label, found)
        yield from _means(label, found)
        yield from _bounds(label, found, every, Link(round_trip, RATE))
    _draw(OUT, series)


def _draw(out: Path, series: dict[float, Series]) -> None:
    draw_latency(out, series)
    draw_traffic(out, series)
    draw_overwrites(out, series)
    draw_waits(out, series)


def _of_workloads(label: str, found: Series) -> Iterator[Figure]:
    for workload, base in found[INVALIDATE].items():
        for name, runs in found.items():
            run = runs[workload]
            what = f"{label}, {workload}, {name}"
            latency = (INVALIDATE, base.latency * 1e3)
            yield figure(f"{what}: mean I/O latency", run.latency * 1e3, "ms", against=latency)
            traffic = (INVALIDATE, base.traffic.total / 1e3)
            yield figure(f"{what}: traffic", run.traffic.total / 1e3, "kB", against=traffic)


def _means(label: str, found: Series) -> Iterator[Figure]:
    none: dict[str, float] = {}
    measures = (
        ("latency", _latency, LATENCY_GOALS),
        ("traffic", _traffic, TRAFFIC_GOALS),
        ("latency with opens", _with_opens, none),
        ("traffic but for closes", _without_closes, none),
        ("latency of reads", _reads, none),
        ("latency of writes", _writes, none),
        ("overwrites for each transfer", lambda run: run.overwrites, none),
    )
    for measure, of, goals in measures:
        for name, other in itertools.product(found, (UPDATE, INVALIDATE, OPTIMAL)):
            if name == other:
                continue
            goal = goals.get(other) if name == DELAYED else None
            what = f"{label}: {measure} of {name} by that of {other}, mean of all"
            yield figure(what, _ratio(found[name], found[other], of), "1", at_most=goal)
    for name, runs in found.items():
        for kind in KINDS:
            part = statistics.fmean(
                run.waits[kind] / sum(run.waits.values()) for run in runs.values()
            )
            yield figure(f"{label}: part of {name}'s waits for {kind}, mean of all", part, "1")


def _bounds(label: str, found: Series, every: list[Plan], link: Link) -> Iterator[Figure]:
    """The traffic that no policy goes below."""
    bound = {plan.workload.name: ReplayResult(traffic=least(plan)) for plan in every}
    for measure, of in (("traffic", _traffic), ("traffic but for closes", _without_closes)):
        for other in (UPDATE, INVALIDATE):
            what = f"{label}: {measure} of {LEAST} by that of {other}, mean of all"
            yield figure(what, _ratio(bound, found[other], of), "1")


def _latency(run: ReplayResult) -> float:
    return run.latency


def _reads(run: ReplayResult) -> float:
    return statistics.fmean(run.reads)


def _writes(run: ReplayResult) -> float:
    return statistics.fmean(run.writes)


def _with_opens(run: ReplayResult) -> float:
    return run.latency_with_opens


def _traffic(run: ReplayResult) -> float:
    return run.traffic.total


def _without_closes(run: ReplayResult) -> float:
    return run.traffic.total - run.traffic.closes


def _ratio(
    runs: dict[str, ReplayResult],
    others: dict[str, ReplayResult],
    of: Callable[[ReplayResult], float],
) -> float:
    """The mean of the workloads' ratios, but for those in which the others wait for nothing to
    speak of."""
    least = NOTHING if of in {_latency, _reads, _writes} else 0.0
    return statistics.fmean(
        of(runs[name]) / of(others[name]) for name in runs if of(others[name]) > least
    )


def relaxation_figures(quick: bool) -> Iterator[Figure]:
    """What older copies save, with the policies that push; the pictures are of the first one."""
    every = plans()
    for policy in (DELAYED,):
        series: dict[float, dict[float, dict[str, ReplayResult]]] = {}
        for round_trip in ROUND_TRIPS[:1] if quick else ROUND_TRIPS:
            link = Link(round_trip, RATE)
            series[round_trip] = {
                seconds: {plan.workload.name: replay(plan, policy, link, seconds) for plan in every}
                for seconds in (*((0.0, RELAXED) if quick else RELAXATIONS), ENDLESS)
            }
            label = f"shares, {round_trip * 1e3:.0f} ms, {policy}"
            yield from _of_relaxations(label, series[round_trip], policy == DELAYED)
            del series[round_trip][ENDLESS]  # no picture has room for it
        if policy == DELAYED:
            draw_relaxation(OUT, series)


def _of_relaxations(
    label: str, of: dict[float, dict[str, ReplayResult]], goals: bool
) -> Iterator[Figure]:
    for seconds, runs in of.items():
        for measure, value, goal in (
            ("latency", _latency, None),
            ("traffic", _traffic, RELAXED_TRAFFIC),
            ("latency with opens", _with_opens, RELAXED_LATENCY),
            ("traffic but for closes", _without_closes, None),
        ):
            if seconds:
                long = "without an end" if seconds == ENDLESS else f"of {seconds:g} s"
                what = f"{label}: {measure} with a relaxation {long} by that with 0"
                at_most = goal if goals and seconds == RELAXED else None
                ratio = _ratio(runs, of[0.0], value)
                yield figure(f"{what}, mean of all", ratio, "1", at_most=at_most)


def paper_figures(quick: bool) -> Iterator[Figure]:
    """The policies, and what a relaxation saves, on the paper's own splits (Section 6.1)."""
    every = [Plan(workload) for workload in paper_workloads(traces())]
    series: dict[float, Series] = {}
    relaxations: dict[float, dict[float, dict[str, ReplayResult]]] = {}
    for round_trip in ROUND_TRIPS[:1] if quick else ROUND_TRIPS:
        link, label = (
            Link(round_trip, RATE),
            f"shares, the paper's splits, {round_trip * 1e3:.0f} ms",
        )
        found: Series = {
            name: {plan.workload.name: replay(plan, name, link) for plan in every}
            for name in (*policies(), *VARIANTS)
        }
        series[round_trip] = found
        yield from _means(label, found)
        yield from _bounds(label, found, every, link)
        relaxed = {
            seconds: {plan.workload.name: replay(plan, DELAYED, link, seconds) for plan in every}
            for seconds in ((0.0, RELAXED) if quick else RELAXATIONS)
        }
        relaxations[round_trip] = relaxed
        yield from _of_relaxations(f"{label}, {DELAYED}", relaxed, True)
    _draw(OUT / "paper", series)
    draw_relaxation(OUT / "paper", relaxations)


PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "policies": policy_figures,
    "relaxation": relaxation_figures,
    "splits": paper_figures,
    "local": local_figures,
    "photo": photo_figures,
    "photographs": photograph_figures,
}

__all__ = ["PARTS", "figures", "plans", "policies", "quick_figures"]
