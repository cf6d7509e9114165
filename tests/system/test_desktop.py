# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel run desktop` with viewers as Debian has them, connected from hotspot to hotspot."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.built import built_image, cache_folder
from tests.browser import NOVNC, Browser, browsing
from tests.headless import TIGERVNC, Headless, captured, viewing
from tests.system.conftest import site_of
from tests.system.needs import WHOLE
from tests.system.site import wait_until

pytestmark = [*WHOLE, pytest.mark.nightly]

SIZE = 1024, 768


def settled(viewer: Headless | Browser, port: int, folder: Path) -> bytes:
    """The picture, once the viewer and another one that connects now see the same twice."""
    seen = [b"", b"x"]

    def alike() -> bool:
        seen[:] = [*seen[-1:], viewer.picture()]
        return seen[0] == seen[1] == captured(folder, port, viewer.prefix)

    wait_until(alike, 120.0)
    return seen[1]


def inserts(viewer: Headless | Browser, text: str) -> None:
    """The paper's edit: open, insert at the beginning, save, close."""
    viewer.press("ctrl-o")
    time.sleep(0.5)
    viewer.types("letter.txt")
    viewer.press("enter")
    time.sleep(0.5)
    viewer.press("ctrl-home")
    viewer.types(text)
    viewer.press("ctrl-s", "ctrl-w")


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(viewing, marks=TIGERVNC, id="tigervnc"),
        pytest.param(browsing, marks=NOVNC, id="novnc"),
    ],
)
def test_a_viewer_stays_connected_from_hotspot_to_hotspot(
    bed: Testbed,
    short_path: Path,
    tmp_path: Path,
    shown: Callable[..., AbstractContextManager[Headless | Browser]],
) -> None:
    built_image("desktop")
    pictures = []
    with site_of("desktop", cache_folder(), bed, short_path) as site:
        site.run_with_media()
        port = site.port()
        with shown(tmp_path / "viewer", port, SIZE, bed.client.prefix) as viewer:
            pictures.append(settled(viewer, port, tmp_path))
            viewer.point(300, 300)
            for spot in "ab":
                bed.client.move(spot)
                began = time.monotonic()
                moved = site.move(spot)
                print(f"{spot}: {time.monotonic() - began:.1f} s, {moved}")
                site.cut_home(silent=True)  # the surrogate's replica leads
                inserts(viewer, f"At {spot}. ")
                wait_until(lambda at=spot: site.status()["first_responses"].get(at, 0))
                pictures.append(settled(viewer, port, tmp_path))
                site.mend_home()
                wait_until(lambda: site.states()["home"] == "joined", 60.0)
                assert viewer.runs
        status = site.status()
        print(status["first_responses"], status["last_operation"])
        assert status["diverged"] == 0
        assert set(site.states()) == {"home", "b"}
        wait_until(lambda: site.status()["later_responses"] >= status["last_operation"])
        assert len(set(pictures)) == len(pictures)
