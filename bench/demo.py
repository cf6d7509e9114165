# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The demo of this checkout beside that of another one, say of the last release.

    python -m bench.demo ../release --rounds 2

Both play `scripts/demo` in turns, each with its own build and images. A JSON line for each step and
move: the median of this one's seconds by the median of the other's. Exits with 1 where something
that takes a second or more is slower by more than SLOWER.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bench.harness import Figure, figure
from console import run_program
from satchel.errors import UnavailableError

ROOT = Path(__file__).resolve().parent.parent

SLOWER = 1.15
"""So much longer may a step take: two runs of one checkout differ by that."""

SHORTEST_SECONDS = 1.0
"""What takes less is no goal: a step is polled for."""

Facts = Mapping[str, Any]


def facts_of(summary: Facts) -> dict[str, float]:
    """Seconds by name of what a demo's summary.json tells of: its steps, and its moves."""
    seconds: dict[str, float] = {}
    names = Counter[str]()
    for step in summary["steps"]:
        name = f"{step['step']}, {step['where']}"
        names[name] += 1
        seconds[name if names[name] == 1 else f"{name}, {names[name]}"] = step["seconds"]
    for move in summary["facts"]["moves"]:
        name = f"{move['service']} {move['mode']}"
        seconds[f"first response of {name}, without the operation"] = move["seconds"]
        seconds[f"operation of {name}"] = move["operation_seconds"]
    return seconds


def compared(ours: Sequence[Facts], theirs: Sequence[Facts]) -> Iterator[Figure]:
    """A figure for each name that both have, of summaries of both."""
    medians = _medians(ours), _medians(theirs)
    for name, value in medians[0].items():
        if name in medians[1]:
            other = medians[1][name]
            goal = SLOWER if max(value, other) >= SHORTEST_SECONDS else None
            yield figure(name, value, "s", against=("the other one", other), at_most=goal)


def _medians(summaries: Sequence[Facts]) -> dict[str, float]:
    seconds: dict[str, list[float]] = defaultdict(list)
    for summary in summaries:
        for name, value in facts_of(summary).items():
            seconds[name].append(value)
    return {name: statistics.median(values) for name, values in seconds.items()}


def play(checkout: Path, profile: str, out: Path) -> Facts:
    """Its demo's summary. Raises UnavailableError where it fails."""
    environment = {k: v for k, v in os.environ.items() if k != "SATCHEL_TEST_CACHE"}
    argv = [str(checkout / "scripts" / "demo"), "--profile", profile, "--out", str(out)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, cwd=checkout, env=environment, stdout=pipe, stderr=pipe, text=True
    ) as demo:
        try:
            said, _ = demo.communicate()
        except BaseException:  # of a demo that is killed, namespaces and mounts are left
            demo.terminate()
            demo.communicate()
            raise
    if demo.returncode != 0:
        raise UnavailableError(f"the demo of {checkout} failed", why=said[-1000:])
    return dict(json.loads((out / "summary.json").read_text()))


@click.command()
@click.argument("other", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--profile", default="today", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True)
def program(other: Path, profile: str, rounds: int) -> int:
    """Compare the demo of this checkout with that of the one at OTHER."""
    checkouts = ROOT, other.resolve()
    played: list[list[Facts]] = [[], []]
    with tempfile.TemporaryDirectory(prefix="satchel-demo-") as folder:
        for number in range(rounds):
            for which, checkout in enumerate(checkouts):
                out = Path(folder) / f"{number}-{which}"
                played[which].append(play(checkout, profile, out))
    figures = list(compared(*played))
    for one in figures:
        click.echo(one.to_json())
    return int(any(one.holds is False for one in figures))


if __name__ == "__main__":
    run_program(program, "bench.demo")
