# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel run desktop` with viewers as Debian has them, connected from hotspot to hotspot."""

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.built import built_image, cache_folder
from tests.browser import NOVNC, Browser, browsing
from tests.headless import TIGERVNC, Headless, captured, viewing
from tests.system.conftest import site_of
from tests.system.needs import WHOLE
from tests.system.site import Site
from tests.waiting import eventually

pytestmark = [*WHOLE, pytest.mark.nightly]

SIZE = 1024, 768


def answered(site: Site) -> int:
    """The last operation, if a replica has answered it; 0 while all are at work."""
    status = site.status()
    last = int(status["last_operation"])
    return last if any(row["operation"] == last for row in status["replicas"]) else 0


def await_first_screen(site: Site, folder: Path, prefix: Sequence[str]) -> None:
    """Return when viewers can connect: they are turned away where the first screen of a session is
    not answered in time, as on a busy machine."""

    def shown() -> bytes:
        with suppress(subprocess.SubprocessError):
            return captured(folder, site.port(), prefix)
        return b""

    assert eventually(shown, 120.0)


def settled(site: Site, viewer: Headless | Browser, folder: Path) -> bytes:
    """The picture, once all that was done is answered, and the viewer and another one that connects
    now see the same."""
    seen = [b""]

    def alike() -> bool:
        done = answered(site)
        seen[0] = viewer.picture()
        now = captured(folder, site.port(), viewer.prefix)
        return seen[0] == now and 0 < done == answered(site)

    assert eventually(alike, 120.0)
    return seen[0]


def inserts(site: Site, viewer: Headless | Browser, folder: Path, text: str) -> bytes:
    """The paper's edit but for the end: open, insert at the beginning, save. What it shows then."""
    viewer.press("ctrl-o")
    settled(site, viewer, folder)
    viewer.types("letter.txt")
    viewer.press("enter")
    settled(site, viewer, folder)
    viewer.press("ctrl-home")
    viewer.types(text)
    viewer.press("ctrl-s")
    return settled(site, viewer, folder)


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
        await_first_screen(site, tmp_path, bed.client.prefix)
        with shown(tmp_path / "viewer", port, SIZE, bed.client.prefix) as viewer:
            pictures.append(settled(site, viewer, tmp_path))
            viewer.point(300, 300)
            # Not with a fresh checkpoint, of which home alone has the blocks.
            for spot, route in (("a", "replay"), ("b", "handover")):
                bed.client.move(spot)
                began = time.monotonic()
                moved = site.move(spot, "--route", route)
                print(f"{spot}: {time.monotonic() - began:.1f} s, {moved}")
                site.cut_home(silent=True)  # the surrogate's replica leads
                pictures.append(inserts(site, viewer, tmp_path, f"At {spot}. "))
                assert site.status()["first_responses"].get(spot, 0)
                site.mend_home()
                assert eventually(lambda: site.states()["home"] == "joined", 60.0)
                assert viewer.runs
        status = site.status()
        print(status["first_responses"], status["last_operation"])
        assert status["diverged"] == 0
        assert set(site.states()) == {"home", "b"}
        assert eventually(lambda: site.status()["later_responses"] >= status["last_operation"])
        assert len(set(pictures)) == len(pictures)
