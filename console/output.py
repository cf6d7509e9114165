# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One answer, two faces: a table for people, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 10_000
"""Columns where the output is no terminal: a row is a line, for `grep` and `cut`."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
"""As JSON has it."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def show(
    rows: Any, *, as_json: bool, columns: Sequence[str] | None = None, empty: str = ""
) -> None:
    """Print `rows`: as JSON exactly as given, else as a table.

    A list of dicts is a table with one line each (`columns` chooses and orders the keys); a dict
    is a table of keys and values. empty: what a person is told in place of a table without rows.
    """
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if isinstance(rows, dict):
        print_table(_pairs(rows))
        return
    if not rows:
        if empty:
            note(empty)
        return  # a line would be a row to `wc -l`
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    names = list(columns or rows[0].keys())
    for name in names:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(name, row.get(name))) for name in names))
    if _fits(table):
        print_table(table)
        return
    for number, row in enumerate(rows):
        if number:
            click.echo()
        print_table(_pairs({name: row[name] for name in names if row.get(name) is not None}))


def _pairs(row: dict[str, Any]) -> Table:
    """Return a table of keys and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in row.items():
        table.add_row(key.replace("_", " "), Text(_cell(key, value)))
    return table


def _fits(table: Table) -> bool:
    """Return whether a row takes one line at most, so that no heading and no id is broken."""
    from rich.console import Console

    console = Console()
    return not console.is_terminal or console.measure(table).maximum < console.width


def print_table(table: Table) -> None:
    """On standard output: as wide as the terminal, a row a line where it is none."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(table)
        return
    piped = Console(width=PIPE_WIDTH)
    with piped.capture() as captured:
        piped.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def size(count: int) -> str:
    """Bytes for people: `1.4 MiB`."""
    value = float(count)
    for unit in UNITS:
        if abs(value) < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def note(text: str) -> None:
    """Tell a person something beside the answer: on standard error."""
    click.echo(text, err=True)


def _is_bytes(key: str) -> bool:
    return key.endswith("size") or "bytes" in key.split("_")


def _cell(key: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if isinstance(value, int) and _is_bytes(key):
        return size(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_cell(key, item)}" for name, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(item, dict) for item in value) else ", "
        return between.join(_cell("", item) for item in value) or "-"
    return _moment(value) if _MOMENT.fullmatch(str(value)) else str(value)


def _moment(text: str) -> str:
    """By the person's clock, as `forget --keep-daily` counts days."""
    from datetime import datetime

    with contextlib.suppress(ValueError, OverflowError):
        return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"
    return text
