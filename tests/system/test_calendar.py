# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Radicale by a recipe of one's own, used by a CalDAV client from hotspot to hotspot."""

import subprocess
from pathlib import Path

import pytest

from images import build, target
from replay import agent_program
from testbed import Testbed
from testbed.built import ROOT, cache_folder
from tests.needs import requires
from tests.system.conftest import site_of
from tests.system.needs import WHOLE
from tests.system.site import Site
from tests.waiting import eventually

pytestmark = [*WHOLE, pytest.mark.nightly, requires("caldav")]

CLIENT = Path(__file__).with_name("calendar_client.py")


def client(site: Site, *words: str) -> list[str]:
    """What python-caldav does in a process of its own on the client's device."""
    argv = [*site.bed.client.prefix, "/usr/bin/python3", str(CLIENT), str(site.port()), *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + site.logs()
    return done.stdout.splitlines()


def test_a_calendar_goes_from_hotspot_to_hotspot(bed: Testbed, short_path: Path) -> None:
    recipe = target(str(ROOT / "docs" / "examples" / "radicale"))
    build(recipe, cache_folder() / "radicale", agent=agent_program())
    with site_of("radicale", cache_folder(), bed, short_path) as site:
        site.run_with_media()
        client(site, "make")
        client(site, "add", "1", "at-home")
        for day, spot in enumerate("ab", 2):
            bed.client.move(spot)
            site.move(spot, "--route", "replay")
            site.cut_home(silent=True)  # the surrogate's replica leads
            client(site, "add", str(day), f"at-{spot}")
            assert f"at-{spot}" in client(site, "list")
            site.mend_home()
            assert eventually(lambda: site.states()["home"] == "joined", 60.0)
        assert client(site, "list") == ["at-a", "at-b", "at-home"]
        status = site.status()
        assert eventually(lambda: site.status()["later_responses"] >= status["last_operation"])
        assert site.status()["diverged"] == 0
