# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The twelve workloads: each trace with some of it done on another node.

- thread offloading: what threads of some roles do is done there, beside the rest
- procedure offloading: during some procedures all is done there that belongs to them, and the
  caller waits

Which ones was written down before any policy had been replayed: what somebody would offload because
it computes, or because it goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.shares.trace import Trace

THREADS = "threads"
PROCEDURES = "procedures"

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
    """Those of the traces, first by threads, then by procedures."""
    for kind in AWAY:
        for trace in traces:
            yield split(trace, kind)


def split(trace: Trace, kind: str) -> Workload:
    """One of them. Raises KeyError for a use that has no split."""
    names = AWAY[kind][trace.use]
    known = trace.roles if kind == THREADS else trace.procedures
    numbers = {number for number, name in enumerate(known) if name in names}
    away = tuple(
        (each.task if kind == THREADS else each.procedure) in numbers for each in trace.accesses
    )
    return Workload(kind, trace, away)


__all__ = ["AWAY", "PROCEDURES", "THREADS", "Workload", "split", "workloads"]
