# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Volumes that fill, as people see them."""

import contextlib
import io
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from client.cli.livemap import volume_table
from client.cli.status import _sentence


def part(absent: int, fetching: int, present: int, dirty: int, source: str | None) -> Any:
    counts = {"absent": absent, "fetching": fetching, "present": present, "dirty": dirty}
    return counts | {"source": source}


def shown(*parts: Any, colour: bool = False) -> str:
    """The row of a volume of these parts."""
    blocks = sum(p[kind] for p in parts for kind in ("absent", "fetching", "present", "dirty"))
    volume = {"name": "ram", "blocks": blocks, "parts": list(parts)}
    table = volume_table([{"name": "cafe", "volumes": [volume], "quiet_seconds": 2.4}])
    console = Console(
        file=io.StringIO(),
        width=100,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()[1]


@pytest.mark.parametrize(
    ("absent", "fetching", "present", "dirty", "character"),
    [
        (100, 0, 0, 0, "."),
        (60, 40, 0, 0, "-"),
        (99, 0, 1, 0, "░"),
        (30, 21, 49, 0, "░"),
        (50, 0, 50, 0, "▒"),
        (0, 25, 50, 25, "▓"),
        (1, 0, 99, 0, "▓"),
        (0, 0, 90, 10, "█"),
    ],
)
def test_a_part_looks_as_full_as_it_is(
    absent: int, fetching: int, present: int, dirty: int, character: str
) -> None:
    row = shown(part(absent, fetching, present, dirty, None))
    assert row.split()[:3] == ["cafe", "ram", character]


def test_a_row_says_how_much_is_here_under_way_and_changed() -> None:
    row = shown(part(2, 1, 4, 1, "media"), part(8, 0, 0, 0, None))
    assert " ".join(row.split()) == "cafe ram ▒. 31.2% 4.0 KiB 4.0 KiB 2 s"


def test_on_a_terminal_the_source_has_a_colour_and_what_is_changed_a_line() -> None:
    row = shown(
        *(part(0, 0, 9, 0, name) for name in ("media", "home", "cache", "peer-b")), colour=True
    )
    places = [row.index(f"\x1b[{colour}m█") for colour in (32, 33, 90, 36)]
    assert places == sorted(places)
    assert "\x1b[4;32m█" in shown(part(0, 0, 8, 1, "media"), colour=True)


def test_home_which_fetches_nothing_has_no_map() -> None:
    assert volume_table([{"name": "home", "volumes": None}]) is None


PAINTS = """\
import os, subprocess, sys
from client.cli.livemap import _in_foreground
print(_in_foreground(), flush=True)
if len(sys.argv) == 1:
    subprocess.run([sys.executable, os.environ["SCRIPT"], "again"], process_group=0)
"""


def test_a_job_in_the_background_does_not_paint_over_its_shell(tmp_path: Path) -> None:
    script = tmp_path / "paints.py"
    script.write_text(PAINTS)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["SCRIPT"] = str(script)
        os.execv(sys.executable, [sys.executable, str(script)])
    shown = b""
    with contextlib.suppress(OSError):  # Linux's end of a terminal
        while piece := os.read(terminal, 1000):
            shown += piece
    os.close(terminal)
    os.waitpid(pid, 0)
    assert shown.split() == [b"True", b"False"]


def test_a_status_begins_with_a_sentence() -> None:
    status = {"service": "guestbook", "replicas": [{"name": "home"}, {"name": "station"}]}
    counts = {"stateful": True, "last_operation": 12, "stable_operation": 12}
    at_station = "guestbook is at station"
    assert _sentence(status | counts) == f"{at_station}, everything is at home, 0 unsent"
    counts["stable_operation"] = 9
    assert _sentence(status | counts) == f"{at_station}, home lacks some, 3 unsent"
    assert _sentence(status | {"leader": "cafe"}) == "guestbook is at cafe"
