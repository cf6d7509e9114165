# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a story did: one row per step, with its time and the bytes that crossed each link."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from satchel.errors import SatchelError
from testbed.bed import Testbed
from testbed.links import WAYS, Counters, LinkCounters

MEGABYTE = 1_000_000

WATCH_SECONDS = 1.0


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
    def step(self, what: str, where: str, expected: int | None = None) -> Iterator[Row]:
        """Measure a block as one row; its facts may be filled in meanwhile.

        On a terminal it is watched: the bytes over its busiest link, of about `expected`.
        """
        row = Row(what, where)
        before = self._bed.counters()
        began = time.monotonic()
        with self._watched(f"{what} ({where})", before, expected):
            yield row
        row.seconds = time.monotonic() - began
        for name, ways in self._bed.counters().items():
            earlier = before.get(name)
            row.up[name] = ways["up"].bytes - (earlier["up"].bytes if earlier else 0)
            row.down[name] = ways["down"].bytes - (earlier["down"].bytes if earlier else 0)
        self.rows.append(row)
        facts = ", ".join(f"{key} {value}" for key, value in row.facts.items())
        self._console.print(f"[bold]{what}[/] ({where}): {row.seconds:.1f} s  {facts}")

    @contextmanager
    def _watched(
        self, title: str, before: dict[str, LinkCounters], expected: int | None
    ) -> Iterator[None]:
        if not self._console.is_terminal:
            yield
            return
        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn(20)]
        columns += [DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn()]
        columns += [TimeRemainingColumn()] if expected else []
        ended = threading.Event()
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task(title, total=expected)

            def watch() -> None:
                while not ended.wait(WATCH_SECONDS):
                    with suppress(SatchelError):
                        progress.update(task, completed=self._busiest(before))

            watcher = threading.Thread(target=watch, name="watch", daemon=True)
            watcher.start()
            try:
                yield
            finally:
                ended.set()
                watcher.join()

    def _busiest(self, before: dict[str, LinkCounters]) -> int:
        """The most bytes that crossed a link in one direction since then."""
        nothing: LinkCounters = {"up": Counters(), "down": Counters()}
        return max(
            (ways[way] - before.get(name, nothing)[way]).bytes
            for name, ways in self._bed.counters().items()
            for way in WAYS
        )

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
