# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The workloads: each trace with some of it done on another node. There are two sets of twelve.

Those by use:

- thread offloading: what threads of some roles do is done there, beside the rest
- procedure offloading: during some procedures all is done there that belongs to them, and the
  caller waits

Which ones was written down before any policy had been replayed: what somebody would offload because
it computes, or because it goes on by itself.

Those by count, which are the paper's (Paiker et al., Section 6.1):

- thread offloading: the threads are sorted by how many calls they make, and are divided into two
  sets that make about 50 % of the calls each; one of the sets is away
- procedure offloading: of each thread the first 30 % of its calls are made on the mobile, the next
  50 % on the other node, and the last 20 % on the mobile again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from papers.ofs.trace import Trace

THREADS = "threads"
PROCEDURES = "procedures"
HALF_OF_THREADS = "threads 50/50"
MIDDLE_OF_THREADS = "procedures 30/50/20"

MIDDLE = (0.3, 0.8)
"""The parts of a thread's calls between which they are made on the other node."""

AWAY: dict[str, dict[str, frozenset[str]]] = {
    THREADS: {
        "compiler": frozenset({"worker"}),
        "editor": frozenset({"lint"}),
        "git": frozenset({"builder"}),
        "ledger": frozenset({"chart"}),
        "mail": frozenset({"filter"}),
        "photo": frozenset({"enhancer"}),
    },
    PROCEDURES: {
        "compiler": frozenset({"build"}),
        "editor": frozenset({"format", "search"}),
        "git": frozenset({"history", "pack"}),
        "ledger": frozenset({"statement", "export"}),
        "mail": frozenset({"search", "archive"}),
        "photo": frozenset({"sheet", "retouch"}),
    },
}
"""Kind and use to the roles or procedures that are away."""


@dataclass(frozen=True)
class Workload:
    """kind: THREADS or PROCEDURES. away: for each access of the trace, whether it is made on the
    other node."""

    kind: str
    trace: Trace
    away: tuple[bool, ...]

    @property
    def name(self) -> str:
        return f"{self.trace.use} {self.kind}"


def workloads(traces: Sequence[Trace]) -> Iterator[Workload]:
    """Those of the traces by use, first by threads, then by procedures."""
    for kind in AWAY:
        for trace in traces:
            yield split(trace, kind)


def paper_workloads(traces: Sequence[Trace]) -> Iterator[Workload]:
    """Those of the traces by count, first by threads, then by procedures."""
    for kind in (HALF_OF_THREADS, MIDDLE_OF_THREADS):
        for trace in traces:
            yield split(trace, kind)


def split(trace: Trace, kind: str) -> Workload:
    """One of them. Raises KeyError for a use that has no split."""
    if kind == HALF_OF_THREADS:
        return Workload(kind, trace, tuple(_half(trace)))
    if kind == MIDDLE_OF_THREADS:
        return Workload(kind, trace, tuple(_middle(trace)))
    names = AWAY[kind][trace.use]
    known = trace.roles if kind == THREADS else trace.procedures
    numbers = {number for number, name in enumerate(known) if name in names}
    away = tuple(
        (each.task if kind == THREADS else each.procedure) in numbers for each in trace.accesses
    )
    return Workload(kind, trace, away)


def _half(trace: Trace) -> Iterator[bool]:
    """The busiest thread stays; each following one goes where fewer calls are made so far."""
    made = Counter(access.task for access in trace.accesses)
    calls = {False: 0, True: 0}
    away: dict[int, bool] = {}
    for task, count in sorted(made.items(), key=lambda each: (-each[1], each[0])):
        away[task] = calls[True] < calls[False]
        calls[away[task]] += count
    return (away[access.task] for access in trace.accesses)


def _middle(trace: Trace) -> Iterator[bool]:
    made = Counter(access.task for access in trace.accesses)
    before: Counter[int] = Counter()
    first, last = MIDDLE
    for access in trace.accesses:
        part = before[access.task] / made[access.task]
        before[access.task] += 1
        yield first <= part < last


__all__ = [
    "AWAY",
    "HALF_OF_THREADS",
    "MIDDLE_OF_THREADS",
    "PROCEDURES",
    "THREADS",
    "Workload",
    "paper_workloads",
    "split",
    "workloads",
]
