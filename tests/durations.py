# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a test run goes, by test and by folder.

tests/budget.txt names the seconds that each folder may take on a reference host. A slower host has
proportionally more, as measured by a fixed computation. A run with `--budget` fails if the sum of
all folders is over the sum of the budget, or if the budget lacks a folder.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from pathlib import Path

BUDGET = Path(__file__).with_name("budget.txt")
DEAREST = 10
REFERENCE_SECONDS = 0.17
"""What `calibrate` takes on the host that the budget was measured on."""


class Durations:
    """The seconds of the tests of one run, with their fixtures. Not thread-safe."""

    def __init__(self) -> None:
        self.tests: dict[str, float] = defaultdict(float)

    def add(self, name: str, seconds: float) -> None:
        self.tests[name] += seconds

    def folders(self) -> dict[str, float]:
        found: dict[str, float] = defaultdict(float)
        for name, seconds in self.tests.items():
            found[str(Path(name.split("::", 1)[0]).parent)] += seconds
        return found

    def write(self, path: Path) -> None:
        """Write the seconds of each folder and of each test, the dearest first."""
        rows = [*_dearest(self.folders()), *_dearest(self.tests)]
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{seconds:9.2f}  {name}\n" for name, seconds in rows))

    def report(self, budget: dict[str, float], slowness: float) -> tuple[list[str], bool]:
        """Return lines about the dearest folders, and whether the run is within its budget."""
        folders = self.folders()
        lines = ["  seconds    budget  folder"]
        for folder, seconds in _dearest(folders)[:DEAREST]:
            lines.append(f"{seconds:9.0f} {budget.get(folder, 0.0) * slowness:9.0f}  {folder}")
        took, allowed = sum(folders.values()), sum(budget.values()) * slowness
        lines.append(f"{took:9.0f} {allowed:9.0f}  all; this host takes {slowness:.2f} as long")
        unknown = sorted(folders.keys() - budget.keys())
        lines += [f"{BUDGET.name} has no line for {folder}" for folder in unknown]
        if took > allowed:
            lines.append(f"over the budget of {BUDGET.name}: make tests cheaper, or say why there")
        return lines, not unknown and took <= allowed


def _dearest(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: -item[1])


def read_budget() -> dict[str, float]:
    """Return the seconds of each folder on the reference host."""
    rows = [line.split("#")[0].split() for line in BUDGET.read_text().splitlines()]
    return {row[1]: float(row[0]) for row in rows if row}


def calibrate() -> float:
    """Return how many times as long as the reference host this one takes, at least 1."""

    def once() -> float:
        began = time.perf_counter()
        total = 0
        for number in range(2_000_000):
            total += number ^ (total & 0xFF)
        hashlib.sha256(bytes(100_000_000)).digest()
        return time.perf_counter() - began

    return max(1.0, min(once() for _ in range(5)) / REFERENCE_SECONDS)
