# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A progress bar with rate and time left, on standard error, where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from satchel.progress import Progress, silent

REDRAW_SECONDS = 0.1


@contextmanager
def bar(title: str, *, quiet: bool = False, steps: bool = False) -> Iterator[Progress]:
    """A progress to hand to a long step; its counts are bytes, or with `steps` just steps.

    Draws nothing when `quiet` or when standard error is not a terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    with _drawn(title, steps) as progress:
        yield progress


@contextmanager
def _drawn(title: str, steps: bool) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    counts: tuple[ProgressColumn, ...] = (MofNCompleteColumn(),)
    if not steps:
        counts = (DownloadColumn(binary_units=True), TransferSpeedColumn())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        *counts,
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        drawn, last = 0.0, 0

        def update(done: int, total: int) -> None:
            nonlocal drawn, last
            if done < last:
                progress.reset(task)
            last = done
            now = time.monotonic()
            if done < total and now - drawn < REDRAW_SECONDS:
                return
            drawn = now
            progress.update(task, completed=done, total=total or None)

        yield update
