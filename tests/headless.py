# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Viewers as Debian has them, in an X server without a screen, which a test looks at."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.image

from tests.needs import requires
from tests.waiting import eventually

TIGERVNC = requires("Xvnc", "twm", "xtigervncviewer")

END_SECONDS = 20.0
MARGIN = 64
"""A viewer as large as the screen would take that for full screen, and show less."""

CORNER = 1, 20
"""Where a program of FLTK is at the least: it leaves room for a frame that nobody draws."""

TWMRC = "NoTitle", "BorderWidth 0", "RandomPlacement", 'UsePPosition "on"'

FONTS = "Title", "Menu", "Icon", "Resize", "IconManager"
"""Xvnc brings the font `fixed` along; without those that twm likes better it would end at once, and
nobody would give the viewer the keyboard."""

VNCDO = Path(sys.executable).with_name("vncdo")


@dataclass
class Headless:
    """A running viewer. size: of what it shows, at CORNER of its screen. prefix: what runs a
    program where the viewer is."""

    viewer: subprocess.Popen[bytes]
    port: int
    folder: Path
    size: tuple[int, int]
    prefix: Sequence[str]
    at: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it has its first connection still: it is told to make no second one."""
        return self.viewer.poll() is None

    def press(self, *keys: str) -> None:
        """Keys of the keyboard in front of the viewer."""
        self._vncdo(*self.at, *(word for key in keys for word in ("key", key)))

    def point(self, x: int, y: int) -> None:
        """The mouse in front of the viewer."""
        self.at = ("move", str(CORNER[0] + x), str(CORNER[1] + y))
        self._vncdo(*self.at)

    def types(self, text: str) -> None:
        self._vncdo(*self.at, "type", text)

    def picture(self) -> bytes:
        """What the viewer shows while the mouse is beside it: rows of red, green, blue."""
        away = [str(side + MARGIN - 1) for side in self.size]
        aside = ["move", *away, "pause", "0.1"]
        return captured(self.folder, self.port, self.prefix, aside, (*CORNER, *self.size))

    def _vncdo(self, *words: str) -> None:
        vncdo(self.port, self.prefix, *words)


def captured(
    folder: Path,
    port: int,
    prefix: Sequence[str] = (),
    before: Sequence[str] = (),
    area: tuple[int, int, int, int] | None = None,
) -> bytes:
    """What a client that connects to an RFB server for a moment sees there, or in an area (left,
    top, width, height) of that: rows of red, green, blue. before: what it does first."""
    path = folder / "picture.png"
    vncdo(port, prefix, *before, "capture", str(path))
    seen = matplotlib.image.imread(path)[:, :, :3]
    if area:
        left, top, width, height = area
        seen = seen[top : top + height, left : left + width]
    return bytes((seen * 255).round().astype("uint8").tobytes())


def vncdo(port: int, prefix: Sequence[str], *words: str) -> None:
    """Run vncdotool; prefix: see Headless. Without --nocursor, which asks for the pointer's shape:
    where that comes alone, as from Xvnc while a program paints, it would take it for the screen."""
    argv = [*prefix, str(VNCDO), "-s", f"127.0.0.1::{port}", "-t", "30", *words]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=60)  # it says why it failed


@contextlib.contextmanager
def viewing(
    folder: Path, port: int, size: tuple[int, int], prefix: Sequence[str] = ()
) -> Iterator[Headless]:
    """TigerVNC's viewer of that port, which has that size."""
    argv = [
        "xtigervncviewer",
        "-geometry",
        f"{size[0]}x{size[1]}+{CORNER[0]}+{CORNER[1]}",
        "-RemoteResize=0",
    ]
    argv += ["-ReconnectOnError=0", "-MenuKey=", f"127.0.0.1::{port}"]
    with showing(folder, argv, size, prefix) as viewer:
        yield viewer


@contextlib.contextmanager
def showing(
    folder: Path, argv: Sequence[str], size: tuple[int, int], prefix: Sequence[str] = ()
) -> Iterator[Headless]:
    """A program in an X server of more than that size. folder: is made. prefix: see Headless."""
    folder.mkdir()
    screen = folder / "display"
    whole = f"{size[0] + MARGIN}x{size[1] + MARGIN}"
    server = ["Xvnc", "-geometry", whole, "-depth", "24", "-nolisten", "tcp"]
    server += ["-SecurityTypes", "None", "-localhost", "-AlwaysShared", "-displayfd", "1", "-ac"]
    with (folder / "log").open("wb") as log, contextlib.ExitStack() as stack:
        with screen.open("wb") as out:
            stack.enter_context(running([*prefix, *server], {}, out, log))
        assert eventually(lambda: screen.read_text().endswith("\n")), folder
        number = int(screen.read_text())
        display = {"DISPLAY": f":{number}", "HOME": str(folder)}
        settings = folder / "twmrc"
        settings.write_text("\n".join([*TWMRC, *(f'{use}Font "fixed"' for use in FONTS)]) + "\n")
        twm = ["twm", "-f", str(settings)]  # gives the keyboard to who has the pointer
        stack.enter_context(running([*prefix, *twm], display, log, log))
        viewer = stack.enter_context(running([*prefix, *argv], display, log, log))
        yield Headless(viewer, 5900 + number, folder, size, prefix)


@contextlib.contextmanager
def running(
    argv: list[str], more: dict[str, str], out: Any, log: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A program with that environment besides, until the end of the block. twm sometimes does not
    end when it is told to, and is killed then."""
    environment = {**os.environ, **more}
    with subprocess.Popen(argv, env=environment, stdout=out, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
