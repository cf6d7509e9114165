# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of the evaluation, after the kind of OFS's Figures 7 to 12, each with its series as CSV.

latency-20ms, latency-60ms    Figure 7: mean I/O latency of each policy on each workload
reads-20ms, writes-20ms, ...  Figure 8: the same of reads and of writes
traffic-20ms, traffic-60ms    Figure 9: bytes by kind of message
overwrites-20ms, ...          Figure 10: writes of blocks for each block that was transferred
relaxation-latency, -traffic  Figures 11, 12: by seconds of relaxation, by what it is with 0
waits-20ms, waits-60ms        seconds by what they were for, opens among them
"""

from __future__ import annotations

import csv
import importlib
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from papers.ofs.replay import ReplayResult
from papers.ofs.waits import KINDS

Series = dict[str, dict[str, ReplayResult]]
"""Runs by policy and workload."""

CONTENT = ("Blocks", "Ownership", "RecallReply", "Flush", "Push", "Update")
"""Kinds that carry content; the others are drawn together."""

CONTROL = "control"


def draw_latency(out: Path, series: Mapping[float, Series]) -> None:
    """series: by round trip, in seconds."""
    _draw_each(out, series, "latency", lambda run: run.latency * 1e3, "mean I/O latency, ms")
    _draw_each(
        out, series, "reads", lambda run: _mean(run.reads) * 1e3, "mean latency of reads, ms"
    )
    name = "mean latency of writes, ms"
    _draw_each(out, series, "writes", lambda run: _mean(run.writes) * 1e3, name)


def draw_overwrites(out: Path, series: Mapping[float, Series]) -> None:
    """series: as for `draw_latency`."""
    name = "writes of blocks for each that was transferred"
    _draw_each(out, series, "overwrites", lambda run: run.overwrites, name)


def _mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def _draw_each(
    out: Path,
    series: Mapping[float, Series],
    what: str,
    of_run: Callable[[ReplayResult], float],
    label: str,
) -> None:
    """A bar for each policy on each workload."""
    for round_trip, found in series.items():
        name = f"{what}-{round_trip * 1e3:.0f}ms"
        names = list(next(iter(found.values())))
        values = {policy: [of_run(runs[each]) for each in names] for policy, runs in found.items()}
        rows = ([each, *(values[p][at] for p in values)] for at, each in enumerate(names))
        _write(out / f"{name}.csv", ["workload", *values], rows)
        figure, axes = _canvas()
        width = 0.8 / len(values)
        for place, (policy, of) in enumerate(values.items()):
            axes.bar([at + place * width for at in range(len(names))], of, width, label=policy)
        axes.set_ylabel(label)
        axes.set_title(f"round trip of {round_trip * 1e3:.0f} ms")
        _finish(figure, axes, names, out / f"{name}.png")


def draw_traffic(out: Path, series: Mapping[float, Series]) -> None:
    """Bars of one workload are the policies', in their order; each by kind of message."""
    for round_trip, found in series.items():
        name = f"traffic-{round_trip * 1e3:.0f}ms"
        _stacked(out / name, found, (*CONTENT, CONTROL), _by_kind, "traffic, kB")


def draw_waits(out: Path, series: Mapping[float, Series]) -> None:
    """As traffic, by what was waited for."""
    for round_trip, found in series.items():
        name = f"waits-{round_trip * 1e3:.0f}ms"
        _stacked(out / name, found, KINDS, lambda run: run.waits, "s")


def _stacked(
    path: Path,
    found: Series,
    kinds: tuple[str, ...],
    parts_of: Callable[[ReplayResult], Mapping[str, float]],
    label: str,
) -> None:
    names = list(next(iter(found.values())))
    parts = {
        (policy, each): parts_of(run)
        for policy, runs in found.items()
        for each, run in runs.items()
    }
    rows = ([*key, *(of.get(kind, 0.0) for kind in kinds)] for key, of in parts.items())
    _write(path.with_suffix(".csv"), ["policy", "workload", *kinds], rows)
    figure, axes = _canvas()
    width = 0.8 / len(found)
    for number, kind in enumerate(kinds):
        places, bottoms, heights = [], [], []
        for place, policy in enumerate(found):
            for at, each in enumerate(names):
                of = parts[policy, each]
                places.append(at + place * width)
                bottoms.append(sum(of.get(before, 0.0) for before in kinds[:number]))
                heights.append(of.get(kind, 0.0))
        axes.bar(places, heights, width, bottom=bottoms, label=kind)
    axes.set_ylabel(label)
    axes.set_title(f"{', '.join(found)}; {path.name}")
    _finish(figure, axes, names, path.with_suffix(".png"))


def draw_relaxation(
    out: Path, series: Mapping[float, Mapping[float, Mapping[str, ReplayResult]]]
) -> None:
    """series: by round trip, then by relaxation, both in seconds."""
    for what in ("latency", "traffic"):
        table: dict[float, list[float]] = {}
        figure, axes = _canvas()
        for round_trip, of in series.items():
            base = {name: _measure(run, what) for name, run in of[0.0].items()}
            line = [
                statistics.fmean(_measure(run, what) / base[name] for name, run in runs.items())
                for runs in of.values()
            ]
            table[round_trip] = line
            axes.plot(list(of), line, marker="o", label=f"{round_trip * 1e3:.0f} ms")
        seconds = list(next(iter(series.values())))
        rows = ([each, *(line[at] for line in table.values())] for at, each in enumerate(seconds))
        _write(out / f"relaxation-{what}.csv", ["relaxation", *map(str, table)], rows)
        axes.set_xlabel("relaxation, s")
        axes.set_ylabel(f"{what} by that with 0 s")
        axes.set_ylim(bottom=0)
        _finish(figure, axes, [], out / f"relaxation-{what}.png")


def _measure(run: ReplayResult, what: str) -> float:
    return run.latency if what == "latency" else run.traffic.total


def _by_kind(run: ReplayResult) -> dict[str, float]:
    """In kB."""
    of = {kind: run.traffic.bytes[kind] / 1e3 for kind in CONTENT}
    return of | {CONTROL: run.traffic.total / 1e3 - sum(of.values())}


def _write(path: Path, head: list[str], rows: Iterable[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def _canvas() -> tuple[Any, Any]:
    plots: Any = importlib.import_module("matplotlib.figure")
    figure = plots.Figure(figsize=(11, 5), layout="constrained")
    return figure, figure.subplots()


def _finish(figure: Any, axes: Any, names: list[str], path: Path) -> None:
    if names:
        axes.set_xticks([at + 0.4 for at in range(len(names))], names, rotation=40, ha="right")
    axes.legend(fontsize="small", loc="upper right")
    figure.savefig(path, dpi=110)


__all__ = ["Series", "draw_latency", "draw_relaxation", "draw_traffic", "draw_waits"]
