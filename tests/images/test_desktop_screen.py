# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The guest's half of the desktop, with a real X server and a window manager on this host."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from client.fronts.screen import Screen
from replay.adapters import rfb
from tests.images.guest_code import service_module
from tests.needs import requires

pytestmark = requires("Xvnc", "twm")

TWMRC = """
RandomPlacement
TitleFont "fixed"
MenuFont "fixed"
IconFont "fixed"
ResizeFont "fixed"
IconManagerFont "fixed"
Button1 = : root : f.menu "menu"
menu "menu" { "one" f.nop "two" f.nop }
"""
PRESS, LET_GO = rfb.pointer(400, 300, 1), rfb.pointer(500, 500)
_numbers = itertools.count(1000 + os.getpid() % 30000)


@pytest.fixture
def guest(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The service's module; what it starts ends with the test. On a host others run as well, so
    whether a machine is idle cannot be asked here."""
    module, screen = service_module("desktop"), f":{next(_numbers)}"
    settings = short_path / "twmrc"
    settings.write_text(TWMRC)
    started: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str], environment: dict[str, str]) -> None:
        environment.pop("LD_PRELOAD", None)
        started.append(subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL))

    def runs() -> list[tuple[int, bytes]]:
        return [(p.pid, Path(f"/proc/{p.pid}/schedstat").read_bytes()) for p in started]

    machine = SimpleNamespace(idle=lambda: True, reap=lambda: None, runs=runs)
    server = [screen if word == module.SCREEN else word for word in module.SERVER]
    place = short_path / "desktop"
    server[server.index("-rfbunixpath") + 1] = str(place / "rfb")
    for name, value in {
        "SERVER": server,
        "PLACE": place,
        "SCREEN": screen,
        "PROGRAMS": [["twm", "-f", str(settings)]],
        "Machine": lambda: machine,
        "_start": start,
    }.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("HOME", str(short_path))
    yield module
    for process in reversed(started):
        process.terminate()
        process.wait()


def answered(
    execute: Callable[..., bytes | None], events: bytes, *, whole: bool = False
) -> tuple[list[bytes], bytes]:
    """What is told early of these events, and the answer."""
    told: list[bytes] = []
    answer = execute(events, whole=whole, early=told.append)
    return told, told[-1] if answer is None else answer


def test_an_early_answer_is_over_the_screen_and_a_whole_one_is_the_screen(
    guest: ModuleType,
) -> None:
    desktop = guest.Desktop()
    screen = Screen(guest.WIDTH, guest.HEIGHT)
    _, answer = answered(desktop.execute, b"", whole=True)
    assert screen.apply(rfb.decode(answer))
    empty = screen.digest()
    told, answer = answered(desktop.execute, PRESS)
    assert told
    assert screen.foresee(rfb.decode(told[0]))
    assert screen.digest() == empty
    assert screen.apply(rfb.decode(answer))
    assert screen.digest() != empty
    told, answer = answered(desktop.execute, LET_GO)
    assert screen.apply(rfb.decode(answer))
    assert screen.digest() == empty
    told, answer = answered(desktop.execute, b"")
    assert not told
    assert not rfb.decode(answer).rectangles
