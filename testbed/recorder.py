# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a story did: one row per step, with its time and the bytes that crossed each link."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from testbed.bed import Testbed

MEGABYTE = 1_000_000


@dataclass
class Row:
    """One step. Bytes are IP packets', up is towards the Internet."""

    step: str
    where: str
    seconds: float = 0.0
    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Rows as they come; one thread."""

    def __init__(self, bed: Testbed, console: Console) -> None:
        self.rows: list[Row] = []
        self._bed = bed
        self._console = console

    @contextmanager
    def step(self, what: str, where: str) -> Iterator[Row]:
        """Measure a block as one row; its facts may be filled in meanwhile."""
        row = Row(what, where)
        before = self._bed.counters()
        began = time.monotonic()
        with self._console.status(f"{what} ({where})"):
            yield row
        row.seconds = time.monotonic() - began
        for name, ways in self._bed.counters().items():
            earlier = before.get(name)
            row.up[name] = ways["up"].bytes - (earlier["up"].bytes if earlier else 0)
            row.down[name] = ways["down"].bytes - (earlier["down"].bytes if earlier else 0)
        self.rows.append(row)
        facts = ", ".join(f"{key} {value}" for key, value in row.facts.items())
        self._console.print(f"[bold]{what}[/] ({where}): {row.seconds:.1f} s  {facts}")

    def table(self) -> Table:
        """The rows for people: megabytes over each link, up/down."""
        links = sorted({n for row in self.rows for n in row.up if not n.startswith("surrogate")})
        table = Table("step", "where", "seconds", *(f"{n} MB" for n in links), box=None)
        for row in self.rows:
            cells = [f"{_mb(row.up.get(n, 0))}/{_mb(row.down.get(n, 0))}" for n in links]
            table.add_row(row.step, row.where, f"{row.seconds:.1f}", *cells)
        return table

    def write(self, path: Path, **more: Any) -> None:
        """The rows and whatever else, as JSON."""
        rows = [vars(row) for row in self.rows]
        path.write_text(json.dumps({"steps": rows, **more}, indent=2) + "\n")


def _mb(count: int) -> str:
    return f"{count / MEGABYTE:.1f}" if count >= MEGABYTE // 20 else "0"
