# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of a share that home has gone on without, and what it did with their write logs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from typing import Any

from shares.node import clock
from shares.protocol import NodeId

LOSSES_KEPT = 20
"""Lost nodes that are remembered; the newest."""


@dataclass(frozen=True)
class RestoreReport:
    """Of a write log: what was written into files, and what no file could take. A block that was
    written often counts once."""

    records: int = 0
    files: int = 0
    blocks: int = 0
    bytes: int = 0
    failed_blocks: int = 0
    failed_bytes: int = 0

    def __sub__(self, before: RestoreReport) -> RestoreReport:
        pairs = zip(astuple(self), astuple(before), strict=True)
        return RestoreReport(*(now - then for now, then in pairs))

    def __add__(self, more: RestoreReport) -> RestoreReport:
        return RestoreReport(*(a + b for a, b in zip(astuple(self), astuple(more), strict=True)))

    def __str__(self) -> str:
        if not self.records and not self.failed_bytes:
            return "its write log had nothing that home had not"
        told = f"its write log had {self.blocks} blocks of {self.files} files, {self.bytes} bytes"
        if not self.failed_bytes:
            return told
        return f"{told}; and {self.failed_blocks} that no file takes, {self.failed_bytes} bytes"


@dataclass(frozen=True)
class NodeLoss:
    """A node that had not left, and that home went on without. at: seconds since 1970 by home's
    clock; seconds_ago: when this is said"""

    node: NodeId
    name: str
    why: str
    at: float
    seconds_ago: float
    restored: RestoreReport


class Losses:
    """Those of one share, as its home tells a node. Thread-safe."""

    def __init__(self, tell: Callable[[NodeLoss], None]) -> None:
        """tell: is called once for each that home went on without from now on."""
        self._tell = tell
        self._lock = threading.Lock()
        self._began = clock.now()
        # With when that was by the clock here.
        self._known: deque[tuple[float, NodeLoss]] = deque(maxlen=LOSSES_KEPT)

    @property
    def latest(self) -> float:
        """`at` of the newest that is known; 0 for none."""
        with self._lock:
            return self._known[-1][1].at if self._known else 0.0

    def heard(self, found: list[NodeLoss]) -> None:
        """Home has told of these, the newest at the end; of some perhaps for the second time."""
        now = clock.now()
        for one in found:
            with self._lock:
                if any(one.at == known.at for _, known in self._known):
                    continue
                self._known.append((now - one.seconds_ago, one))
            if now - one.seconds_ago >= self._began:
                self._tell(one)

    def status(self) -> list[dict[str, Any]]:
        """For status pages, the newest at the end."""
        now = clock.now()
        with self._lock:
            return [asdict(one) | {"seconds_ago": now - since} for since, one in self._known]


COLUMNS = ("when", "node", "name", "why", "files", "blocks", "bytes", "not_restored")


def rows(taken_over: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a status says of lost nodes, as a table with COLUMNS has it; not_restored: blocks."""
    return [
        one
        | one["restored"]
        | {
            "when": f"{one['seconds_ago']:.0f} s ago",
            "not_restored": one["restored"]["failed_blocks"],
        }
        for one in taken_over
    ]
