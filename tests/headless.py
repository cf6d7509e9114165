# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Viewers as Debian has them, in an X server without a screen, which a test looks at."""

from __future__ import annotations

import contextlib
import os
import socket
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
NOVNC = requires("Xvnc", "twm", "websockify", "chromium")

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
        return self.picture_at(self.port)

    def picture_at(self, port: int) -> bytes:
        """What any RFB server there shows."""
        path = self.folder / "picture.png"
        away = [str(side + MARGIN - 1) for side in self.size]
        aside = ["move", *away, "pause", "0.1"] if port == self.port else []
        self._vncdo(*aside, "capture", str(path), port=port)
        seen = matplotlib.image.imread(path)[:, :, :3]
        if port == self.port:
            (left, top), (width, height) = CORNER, self.size
            seen = seen[top : top + height, left : left + width]
        return bytes((seen * 255).round().astype("uint8").tobytes())

    def _vncdo(self, *words: str, port: int = 0) -> None:
        server = f"127.0.0.1::{port or self.port}"
        argv = [*self.prefix, str(VNCDO), "-s", server, "-t", "30", "--nocursor", *words]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)


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
def browsing(folder: Path, port: int, size: tuple[int, int]) -> Iterator[Headless]:
    """noVNC in Chromium, which fills a screen of that size; the picture is somewhere in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        web = probe.getsockname()[1]
    argv = ["websockify", "--web", "/usr/share/novnc", f"127.0.0.1:{web}", f"127.0.0.1:{port}"]
    page = f"http://127.0.0.1:{web}/vnc_lite.html?scale=false"
    chromium = ["chromium", "--no-sandbox", "--kiosk", "--no-first-run", "--disable-gpu"]
    chromium += [f"--user-data-dir={folder / 'chromium'}", page]
    with (folder.parent / "websockify").open("wb") as log, _running(argv, {}, log, log):
        assert eventually(lambda: _listens(web), 20.0)
        with showing(folder, chromium, size) as viewer:
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
            stack.enter_context(_running([*prefix, *server], {}, out, log))
        assert eventually(lambda: screen.read_text().endswith("\n"), 20.0), folder
        number = int(screen.read_text())
        display = {"DISPLAY": f":{number}", "HOME": str(folder)}
        settings = folder / "twmrc"
        settings.write_text("\n".join([*TWMRC, *(f'{use}Font "fixed"' for use in FONTS)]) + "\n")
        twm = ["twm", "-f", str(settings)]  # gives the keyboard to who has the pointer
        stack.enter_context(_running([*prefix, *twm], display, log, log))
        viewer = stack.enter_context(_running([*prefix, *argv], display, log, log))
        yield Headless(viewer, 5900 + number, folder, size, prefix)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _running(
    argv: list[str], more: dict[str, str], out: Any, log: Any
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **more}
    with subprocess.Popen(argv, env=environment, stdout=out, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()
