# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Unmodified viewers on the desktop's front; the replica behind it becomes another one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from client.fronts.desktop import DesktopFront
from client.platform.settings import HOME
from client.session.journal import Journal
from client.session.session import Session
from replay.adapters import rfb
from satchel.ids import OperationNumber
from tests.browser import NOVNC, Browser, browsing
from tests.client.replicas import InProcess
from tests.client.test_desktop import HEIGHT, WIDTH, Bench, Painter
from tests.headless import TIGERVNC, Headless, viewing
from tests.waiting import eventually

GREY = 32


def replica(name: str, slow: float) -> InProcess:
    made = InProcess(name, slow=slow)
    painter = Painter()
    painter.colours = [bytes((GREY, GREY, GREY, 0))] * len(painter.colours)
    made.says = painter
    return made


def kept(desktop: DesktopFront) -> bytes:
    """The screen that the client keeps, as a viewer's picture."""
    pixels, picture = desktop.screen().content((0, 0, WIDTH, HEIGHT)), bytearray(WIDTH * HEIGHT * 3)
    for colour in range(3):
        picture[colour::3] = pixels[2 - colour :: 4]
    return bytes(picture)


def shows(viewer: Headless | Browser, desktop: DesktopFront, greys: set[int]) -> bool:
    """Whether the viewer shows just what the client keeps, and that has these shades of grey."""
    keeps = kept(desktop)
    return set(keeps) == greys and viewer.picture() == keeps


@contextmanager
def painting(desktop: DesktopFront) -> Iterator[None]:
    """Tiles become otherwise all the time until the end of the block."""
    ending = threading.Event()

    def paint() -> None:
        key = 0
        while not ending.wait(0.005):
            key += 1
            desktop.enter(rfb.key(key, down=True))

    painter = threading.Thread(target=paint)
    painter.start()
    try:
        yield
    finally:
        ending.set()
        painter.join()


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(viewing, marks=TIGERVNC, id="tigervnc"),
        pytest.param(browsing, marks=[NOVNC, pytest.mark.nightly], id="novnc"),
    ],
)
def test_a_viewer_notices_nothing_of_a_change_of_the_leading_replica(
    tmp_path: Path, shown: Callable[..., AbstractContextManager[Headless | Browser]]
) -> None:
    session = Session(Journal(tmp_path, tmp_path), stateful=True, response_seconds=10.0)
    home, near, next_one = replica(HOME, 0.1), replica("near", 0.0), replica("next", 0.0)
    for endpoint in (home, near):
        session.add(endpoint, OperationNumber(0))
    desktop = DesktopFront(session)
    with shown(tmp_path / "viewer", desktop.port, (WIDTH, HEIGHT)) as viewer:
        assert eventually(lambda: shows(viewer, desktop, {GREY}))
        viewer.point(80, 50)
        viewer.press("a")
        assert eventually(lambda: shows(viewer, desktop, {GREY, ord("a")}))
        session.drop("near")
        viewer.press("d")
        assert eventually(lambda: ord("d") in kept(desktop))  # by home, the only one left
        session.add(next_one, OperationNumber(0))
        viewer.press("e")
        painted = {GREY, ord("a"), ord("d"), ord("e")}
        assert eventually(lambda: shows(viewer, desktop, painted))
        assert viewer.runs
    assert eventually(lambda: home.last == next_one.last == session.journal.last)
    assert {name for name, count in session.tally.first_responses.items() if count} >= {
        "near",
        HOME,
    }
    assert session.tally.diverged == 0
    assert home.says.whole == next_one.says.whole  # type: ignore[attr-defined]
    session.close()
    desktop.close()


@TIGERVNC
def test_a_viewer_is_looked_at_while_it_paints(tmp_path: Path) -> None:
    with closing(Bench()) as bench:
        shown = viewing(tmp_path / "viewer", bench.front.port, (WIDTH, HEIGHT))
        with shown as viewer, painting(bench.front):
            assert len({viewer.picture() for _ in range(10)}) > 1
