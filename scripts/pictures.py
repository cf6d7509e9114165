# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/pictures anew: `satchel try`, and `whereis` and `stats` beside it, as a terminal shows
them, and its web pages in Chromium.

Run it from the root of the repository: `.venv/bin/python scripts/pictures.py`. It takes what
`satchel try` takes, and needs the packages of scripts/nightly-packages.txt.
"""

from __future__ import annotations

import functools
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser import Browser
from tests.pages import look, seen, take_picture, text
from tests.waiting import eventually

PROGRAM = str(Path(sys.executable).with_name("satchel"))
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

COLUMNS = 100
WIDTH = 1280
LAST = "Ctrl-C ends it"
CONFIG = re.compile(r"satchel --config (\S+) whereis")
PAGE = re.compile(r"web page, (\w+)[^:]*: (\S+)")
SEEN = {"session": "Routes elsewhere", "home": "notes", "surrogate": "account"}
"""What each page has once it is filled."""


def main() -> None:
    """Play the story once, and take the pictures at its end."""
    PICTURES.mkdir(exist_ok=True)
    argv = [PROGRAM, "try"]
    said: list[str] = []
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as story:
        assert story.stderr is not None
        for line in story.stderr:
            said.append(line.rstrip())
            print(line, end="", flush=True)
            if line.startswith(LAST):
                break
        if not said[-1:] or not said[-1].startswith(LAST):
            raise SystemExit("the story has failed; no picture is made")
        try:
            take_commands("\n".join(said))
            take_pages(dict(reversed(PAGE.findall("\n".join(said)))))
        finally:
            story.send_signal(signal.SIGINT)
            said += [line.rstrip() for line in story.stderr]
    take_terminal("try", [line for line in said if not PAGE.match(line)])


def take_commands(said: str) -> None:
    """What people type in another terminal meanwhile."""
    config = CONFIG.findall(said)[0]
    for name in ("whereis", "stats"):
        answer = subprocess.check_output([PROGRAM, "--config", config, name], text=True)
        take_terminal(name, answer.splitlines())


def take_pages(links: dict[str, str]) -> None:
    """Of each kind of page, the first one: light."""
    for name, link in links.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            seen(Path(folder, "browser"), link) as browser,
        ):
            look(browser, WIDTH, "light")
            if not eventually(functools.partial(_shows, browser, SEEN[name]), 60.0):
                raise SystemExit(f"the page of the {name} stays empty")
            take_picture(browser, PICTURES / f"{name}.png")


def _shows(browser: Browser, wanted: str) -> bool:
    return wanted in text(browser)


def take_terminal(name: str, lines: list[str]) -> None:
    """A command of the client's as an SVG, with fonts of the reader's."""
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text(f"$ satchel {name}", style="bold"))
        for line in lines:
            console.print(Text(line))
        svg = console.export_svg(title=f"satchel {name}")
    svg = re.sub(r" *<!--.*?-->\n?", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "monospace")
    (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
