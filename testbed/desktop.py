# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's desktop workload, by an unmodified RFB client (vncdotool) at a local port.

    python -m testbed.desktop PORT [--times N] [--think SECONDS] [--document NAME] [--text TEXT]

Opens a document, inserts text at its beginning, saves, closes, and thinks; again and again.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import click

from console import run_program
from satchel.errors import UnavailableError

THINK_SECONDS = 10.0
"""Between two edits, as in the paper."""

PAUSE_SECONDS = 0.5
"""Between two steps of an edit: a person looks whether the window is there."""

TIMEOUT_SECONDS = 600.0

INTO_THE_EDITOR = ["move", "300", "300"]
"""The window manager gives the keyboard to the window under the pointer."""

VIEWER = Path(sys.executable).with_name("vncdo")


def edit(
    port: int,
    *,
    document: str = "letter.txt",
    text: str = "Inserted. ",
    think: float = THINK_SECONDS,
) -> float:
    """One edit at 127.0.0.1:`port`; returns after `think` seconds more. Seconds from the first key
    to the last one; what the last ones do may take longer. Raises
    UnavailableError where the desktop cannot be used."""
    pause = ["pause", str(PAUSE_SECONDS)]
    steps = [*INTO_THE_EDITOR, "key", "ctrl-o", *pause, "type", document, "key", "enter", *pause]
    steps += ["key", "ctrl-home", "type", text, *pause]
    steps += ["key", "ctrl-s", *pause, "key", "ctrl-w", *pause]
    argv = [str(VIEWER), "-s", f"127.0.0.1::{port}", "-t", f"{TIMEOUT_SECONDS:.0f}", *steps]
    began = time.monotonic()
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        why = done.stderr.strip()[-500:]
        raise UnavailableError(f"the desktop at port {port} cannot be used", why=why)
    seconds = time.monotonic() - began
    time.sleep(think)
    return seconds


@click.command()
@click.argument("port", type=int)
@click.option("--times", default=1, show_default=True, help="How many edits.")
@click.option("--think", default=THINK_SECONDS, show_default=True, help="Seconds after each.")
@click.option("--document", default="letter.txt", show_default=True, help="Which one.")
@click.option("--text", default="Inserted. ", show_default=True, help="What is inserted.")
def program(port: int, times: int, think: float, document: str, text: str) -> None:
    """Edit a document on the desktop whose local port is PORT."""
    for number in range(1, times + 1):
        seconds = edit(port, document=document, text=text, think=think)
        click.echo(f"edit {number}: {seconds:.1f} s")


if __name__ == "__main__":
    run_program(program, "testbed.desktop")
