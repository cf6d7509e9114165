# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Figures, goals, and the list of benches."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType

from satchel.errors import NotFoundError, UsageError

PAPERS = Path(__file__).resolve().parent.parent / "papers"

BENCHES = {
    "carry": "bench.carry",
    "cell": "bench.cells",
    "link": "bench.link",
    "move": "bench.move",
    "replicas": "bench.replicas.figures",
    "resume": "bench.resume",
    "store": "bench.store.figures",
    "uplink": "bench.uplink.figures",
} | {
    path.parent.name: f"papers.{path.parent.name}.figures"
    for path in sorted(PAPERS.glob("*/figures.py"))
}
"""The module of each bench, and of each paper that is reproduced. It is imported when it is run.

`figures()` of a module yields its figures, `quick_figures()` a rough idea of them if there is one.
`PARTS` has the parts that run alone as NAME.PART: functions of `quick`. A module without
`figures()` runs these parts one after the other.
"""


@dataclass(frozen=True)
class Figure:
    """One measured number.

    compared_with: another contestant of the same run. ratio: the value divided by that one's value
    goal: as text: "<= 5 %", or "ratio >= 2" if it is about the ratio
    holds: whether the goal is met; None without a goal
    bound: the best possible value on this host or over this link, in the same unit
    bounded_by: the part of the host or the link that sets the bound
    """

    name: str
    value: float
    unit: str
    compared_with: str | None = None
    ratio: float | None = None
    goal: str | None = None
    holds: bool | None = None
    bound: float | None = None
    bounded_by: str | None = None

    def to_json(self) -> str:
        """One line, with every field, the numbers to four significant digits."""
        fields = dataclasses.asdict(self)
        rounded = {
            key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in fields.items()
        }
        return json.dumps(rounded)


def figure(
    name: str,
    value: float,
    unit: str,
    *,
    against: tuple[str, float] | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
    bound: tuple[str, float] | None = None,
) -> Figure:
    """Return a figure.

    against: the name of another contestant, and its value in the same unit. at_most, at_least: the
    goal, at most one of them; of the ratio if `against` is given, else of the value. bound: its
    cause (see HostRates), and the bound in the same unit.
    """
    assert at_most is None or at_least is None
    compared_with = ratio = goal = holds = None
    measured, prefix, suffix = value, "", f" {unit}"
    if against is not None:
        compared_with, other = against
        ratio = value / other if other else float("inf") if value else 1.0
        measured, prefix, suffix = ratio, "ratio ", ""
    if at_most is not None:
        goal, holds = f"{prefix}<= {at_most:g}{suffix}", measured <= at_most
    elif at_least is not None:
        goal, holds = f"{prefix}>= {at_least:g}{suffix}", measured >= at_least
    bounded_by, limit = bound or (None, None)
    return Figure(name, value, unit, compared_with, ratio, goal, holds, limit, bounded_by)


def figures_of(name: str, *, quick: bool = False) -> Iterator[Figure]:
    """Run a bench, or the part NAME.PART of one: its figures as they become known.

    quick: small inputs, for development. Raises NotFoundError for an unknown name, UsageError for
    a bench that has no quick way.
    """
    bench, _, part = name.partition(".")
    if bench not in BENCHES:
        raise NotFoundError(f"there is no bench {bench}", fix=f"there are {', '.join(BENCHES)}")
    module = importlib.import_module(BENCHES[bench])
    if part:
        return _part(module, bench, part)(quick)
    if not hasattr(module, "figures"):
        return chain.from_iterable(one(quick) for one in module.PARTS.values())
    if quick and not hasattr(module, "quick_figures"):
        raise UsageError(f"bench {bench} has no quick way", fix="run it without --quick")
    figures: Iterator[Figure] = module.quick_figures() if quick else module.figures()
    return figures


def _part(module: ModuleType, bench: str, part: str) -> Callable[[bool], Iterator[Figure]]:
    parts: Mapping[str, Callable[[bool], Iterator[Figure]]] = getattr(module, "PARTS", {})
    if part in parts:
        return parts[part]
    known = ", ".join(f"{bench}.{name}" for name in parts) or f"only the whole of {bench}"
    raise NotFoundError(f"bench {bench} has no part {part}", fix=f"there is {known}")
