# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A walk over three hotspots with nobody typing: the service comes along."""

import itertools
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.built import built_image, cache_folder
from testbed.roles import Role
from tests.system.conftest import site_of
from tests.system.needs import WHOLE
from tests.system.site import Site, Work
from tests.waiting import eventually

pytestmark = [*WHOLE, pytest.mark.nightly]

ARRIVED_SECONDS = 240.0

HOTSPOTS = ("a", "b", "d")
"""`c` is the folder of the client's files."""


def _add(home: Role) -> None:
    home.command("service", "add", "notes", "--json")


@pytest.fixture
def walk(short_path: Path) -> Iterator[Site]:
    built_image("notes")
    with (
        Testbed(hotspots=HOTSPOTS) as bed,
        site_of("notes", cache_folder(), bed, short_path, _add) as site,
    ):
        config = site.roles.client_config
        config.write_text(config.read_text().replace('auto = "off"', 'auto = "known"'))
        yield site


def longest_gap(moments: list[float]) -> float:
    return max(b - a for a, b in itertools.pairwise(moments))


def test_a_walk_over_three_hotspots_with_nobody_typing(walk: Site) -> None:
    walk.run_with_media()
    port = walk.port()
    moments: list[float] = []

    def here(hotspot: str) -> bool:
        reply = walk.add(port, f"at {hotspot} {len(moments)}")
        if reply.status == 201:
            moments.append(time.monotonic())
        return walk.states().get(hotspot) == "joined"

    for hotspot in HOTSPOTS:
        if walk.bed.client.hotspot != hotspot:
            walk.bed.client.move(hotspot)
        assert eventually(partial(here, hotspot), ARRIVED_SECONDS), walk.said
        with Work(walk, port) as work:
            work.more(5)
        assert work.refused == []
        assert [name for name in walk.states() if name != "home"] == [hotspot]
    print(f"longest gap between two answers: {longest_gap(moments):.1f} s")
    assert len(walk.titles(port)) >= len(moments)
    assert walk.status()["diverged"] == 0
