# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The volumes of replicas as people see them fill: a character for each part of a volume.

    . absent   - some of it is being fetched   some ░   1/2 ▒   3/4 ▓   all of it █

On a terminal a part has the colour of the source that most of it came from, and what the machine
has changed is underlined.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from console import size
from satchel.errors import SatchelError
from satchel.ids import BLOCK_SIZE

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

SHADES = "░▒▓█"
ABSENT, FETCHING = ".", "-"

COLOURS = {"media": "green", "home": "yellow", "cache": "bright_black"}
OTHER_COLOUR = "cyan"

MAP = "map"
COLUMNS = ("replica", "volume", MAP, "here", "fetching", "changed", "quiet in")

MOVING_SECONDS = 1.0
QUIET_SECONDS = 5.0
"""How often it is looked while something is being fetched, and otherwise."""


def volume_table(replicas: Sequence[Mapping[str, Any]]) -> Table | None:
    """A row for each volume of each replica of a session's status; None where there are none."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        fixed = name != MAP
        table.add_column(name, no_wrap=fixed, overflow="fold", min_width=len(name))
    for replica in replicas:
        for volume in replica.get("volumes") or ():
            table.add_row(*_row(replica, volume))
    return table if table.row_count else None


def _row(replica: Mapping[str, Any], volume: Mapping[str, Any]) -> list[str | Text]:
    parts = volume["parts"]
    counts = {kind: sum(part[kind] for part in parts) for kind in ("fetching", "present", "dirty")}
    here = (counts["present"] + counts["dirty"]) / max(1, volume["blocks"])
    quiet = replica.get("quiet_seconds")
    return [
        replica["name"],
        volume["name"],
        _map(parts),
        f"{here:.1%}",
        size(counts["fetching"] * BLOCK_SIZE),
        size(counts["dirty"] * BLOCK_SIZE),
        "-" if quiet is None else f"{quiet:.0f} s",
    ]


def _map(parts: Sequence[Mapping[str, Any]]) -> Text:
    from rich.text import Text

    text = Text()
    for style, alike in itertools.groupby(parts, key=_style):
        text.append("".join(map(_character, alike)), style)
    return text


def _style(part: Mapping[str, Any]) -> str:
    colour = COLOURS.get(part["source"], OTHER_COLOUR) if part["source"] else ""
    return f"{colour} underline" if part["dirty"] else colour


def _character(part: Mapping[str, Any]) -> str:
    here = part["present"] + part["dirty"]
    if here:
        total = here + part["absent"] + part["fetching"]
        return SHADES[max(0, len(SHADES) * here // total - 1)]
    return FETCHING if part["fetching"] else ABSENT


@contextlib.contextmanager
def live(status: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Within it the volumes are shown on standard error, if that is a terminal and this its
    foreground: a job in the background would paint over its shell. A thread looks after them."""
    if not _in_foreground():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(status, ended), name="live-map", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _in_foreground() -> bool:
    """Return whether this process may paint on the terminal at standard error."""
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError as error:
        return error.errno == errno.ENOTTY  # no job control here: not the controlling terminal


def _follow(status: Callable[[], Mapping[str, Any]], ended: threading.Event) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as display:
        pause = 0.0
        while not ended.wait(pause):
            if not _in_foreground():
                pause = MOVING_SECONDS
                continue
            replicas: Sequence[Mapping[str, Any]] = ()
            with contextlib.suppress(SatchelError):  # not begun yet, or being ended
                replicas = status()["replicas"]
            display.update(volume_table(replicas) or "", refresh=True)
            # Home fetches nothing, and to ask it costs nothing.
            quiet = {r["quiet_seconds"] for r in replicas if r.get("volumes") is not None}
            pause = QUIET_SECONDS if quiet == {0.0} else MOVING_SECONDS


__all__ = ["live", "volume_table"]
