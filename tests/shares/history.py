# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs saw of blocks, and whether one memory could have shown it to them.

A history is operations on registers, one for each block. Every write writes a value that no other
write to that register writes, so a read names the write that it saw. Then linearizability is
decided in O(n log n) by zones (Gibbons, Korach: Testing Shared Memories, SIAM J. Computing 26(4),
1997, Section 4; with incomplete writes as in Golab, Li, Shah: Analyzing Consistency Properties for
Fun and Profit, PODC 2011): a write and the reads that saw it are a cluster, which has to be in one
piece in any order of the operations. Cluster A is before B where some operation of A ended before
one of B began. There is an order exactly where no two clusters are each before the other.

Registers are independent, and linearizability is local, so each is judged alone.
"""

from __future__ import annotations

import bisect
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import inf

INITIAL = ""
"""The value of every register before its first write."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One access to one register by one node.

    began, ended: on one clock for all nodes, in any unit; ended is None where nobody knows whether
    the operation happened (the node died, the call failed). value: what was written, or what was
    read
    """

    node: int
    register: str
    writes: bool
    value: str
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Violation:
    """Operations of one register that no order explains."""

    register: str
    why: str
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class _Cluster:
    """A write and the reads that saw it. first_end and last_begin: over all of them."""

    first_end: float
    last_begin: float
    operations: list[Operation]


def dump(history: Iterable[Operation]) -> str:
    """A JSON object per line."""
    return "".join(json.dumps(asdict(operation)) + "\n" for operation in history)


def load(text: str) -> list[Operation]:
    """What `dump` wrote. Raises ValueError and TypeError for anything else."""
    return [Operation(**json.loads(line)) for line in text.splitlines()]


def check(history: Iterable[Operation]) -> list[Violation]:
    """The registers of the history that are not linearizable, one violation for each. Raises
    ValueError where two writes to a register write the same value."""
    found = []
    for register, operations in _registers(history).items():
        violation = _judge(register, operations)
        if violation is not None:
            found.append(violation)
    return found


def check_staleness(history: Iterable[Operation], bound: float) -> list[Violation]:
    """Reads that saw a value which was overwritten for longer than `bound` when they began: by a
    write that began after the seen one had ended, and that had itself ended by then."""
    found = []
    for register, operations in _registers(history).items():
        writes = {op.value: op for op in operations if op.writes}
        complete = sorted((op.began, op.ended) for op in writes.values() if op.ended is not None)
        begins = [began for began, _ in complete]
        earliest = [inf] * (len(complete) + 1)
        for place in range(len(complete) - 1, -1, -1):
            earliest[place] = min(earliest[place + 1], complete[place][1])
        for op in operations:
            if op.writes or op.ended is None:
                continue
            seen = writes.get(op.value)
            if seen is None and op.value != INITIAL:
                found.append(Violation(register, "it was never written", (op,)))
                continue
            after = -inf if seen is None else inf if seen.ended is None else seen.ended
            if earliest[bisect.bisect_right(begins, after)] < op.began - bound:
                found.append(Violation(register, f"older than {bound}", (op,)))
    return found


def _registers(history: Iterable[Operation]) -> dict[str, list[Operation]]:
    registers = defaultdict(list)
    for operation in history:
        registers[operation.register].append(operation)
    return registers


def _judge(register: str, operations: list[Operation]) -> Violation | None:
    clusters: dict[str, _Cluster] = {INITIAL: _Cluster(-inf, -inf, [])}
    for op in operations:
        if op.writes:
            if op.value in clusters:
                raise ValueError(f"{op.value!r} is written twice to {register}")
            end = inf if op.ended is None else op.ended
            clusters[op.value] = _Cluster(end, op.began, [op])
    for op in operations:
        if op.writes or op.ended is None:
            continue
        cluster = clusters.get(op.value)
        if cluster is None:
            return Violation(register, "it was never written", (op,))
        if op.value != INITIAL and op.ended < cluster.operations[0].began:
            return Violation(register, "read before it was written", (op, cluster.operations[0]))
        cluster.operations.append(op)
        cluster.first_end = min(cluster.first_end, op.ended)
        cluster.last_begin = max(cluster.last_begin, op.began)
    return _conflict(register, list(clusters.values()))


def _conflict(register: str, clusters: list[_Cluster]) -> Violation | None:
    """Two clusters each of which is before the other."""
    forward = sorted((c for c in clusters if c.first_end < c.last_begin), key=lambda c: c.first_end)
    latest: _Cluster | None = None
    for cluster in forward:
        if latest is not None and cluster.first_end < latest.last_begin:
            return _both(register, latest, cluster)
        latest = cluster
    starts = [cluster.first_end for cluster in forward]
    for cluster in clusters:
        if cluster.first_end < cluster.last_begin:
            continue
        # Forward zones do not overlap here, so only the last that began before can hold this one.
        place = bisect.bisect_left(starts, cluster.last_begin) - 1
        if place >= 0 and cluster.first_end < forward[place].last_begin:
            return _both(register, forward[place], cluster)
    return None


def _both(register: str, one: _Cluster, other: _Cluster) -> Violation:
    def ends(cluster: _Cluster) -> list[Operation]:
        first = min(cluster.operations, key=lambda op: inf if op.ended is None else op.ended)
        return [first, max(cluster.operations, key=lambda op: op.began)]

    operations = dict.fromkeys([*ends(one), *ends(other)]) if one.operations else {}
    return Violation(register, "each of two values was seen after the other", tuple(operations))
