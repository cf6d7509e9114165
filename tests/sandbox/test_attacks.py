# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A program in QEMU's place tries everything, and gets nothing."""

import json
import sys
from pathlib import Path

import pytest

from satchel.confinement import HOST
from tests.needs import requires
from tests.sandbox.site import ATTACKER, GUEST_MEMORY, MIB, Site, processes_of
from tests.waiting import eventually

pytestmark = [requires("bwrap", "userns")]


@pytest.mark.parametrize("machine", [True, False], ids=["machine", "helper"])
def test_nothing_of_the_host_can_be_had(site: Site, machine: bool) -> None:
    own = f"writes {site.own}"
    assert json.loads(site.attack("everything", machine=machine)) == ([] if machine else [own])


def test_the_same_program_gets_all_of_it_on_the_host(site: Site) -> None:
    found = set(json.loads(site.attack("everything", HOST)))
    wanted = {
        f"reads {site.secret}",
        f"writes {site.own}",
        f"shortens {site.own}",
        f"makes_file {site.drop}",
        f"lists {site.drop}",
        f"connects {site.socket}",
        f"signals {site.neighbour.pid}",
        f"reaches_the_memory_of {site.neighbour.pid}",
        f"traces {site.neighbour.pid}",
        f"takes_a_file_of {site.neighbour.pid}",
        "reaches an abstract socket",
        "reaches a port of the host",
        "makes pairs of other families",
        "sees processes",
        "sees the page cache",
        "has the environment",
    }
    assert wanted - found == set()


def test_all_that_is_seen_and_all_that_can_be_written(site: Site) -> None:
    found = json.loads(site.attack("survey", machine=False))
    assert found["writable"] == [str(site.own)]
    strangers = [
        path
        for path in map(Path, found["visible"])
        if not path.is_relative_to(site.folder)
        and path.parent != Path("/dev")
        and path not in (ATTACKER, Path("/etc/ld.so.cache"), Path(sys.executable))
    ]
    assert [path for path in strangers if not path.is_relative_to("/usr")] == []


def test_memory_has_an_end(site: Site) -> None:
    lines = site.attack("memory").split()
    limit = GUEST_MEMORY + (320 << 20)
    if "memory" not in site.cell.groups.controllers:
        limit = 1 << 30
    assert 0 < int(lines[-1]) * MIB <= limit


def test_a_fork_bomb_has_an_end_and_goes_with_the_cell(site: Site) -> None:
    bomb = site.begin("forks", site.cell)
    assert bomb.ended(120.0)
    assert 0 < int((site.folder / "forks.log").read_text()) <= 512
    site.cell.end()
    assert eventually(lambda: not processes_of(site.folder))


def test_a_file_of_the_cell_has_a_largest_size(site: Site) -> None:
    assert int(site.attack("file", machine=False)) <= 3 * MIB
    assert site.own.stat().st_size <= 3 * MIB
