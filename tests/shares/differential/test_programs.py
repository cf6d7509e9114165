# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs give the same on mounts of a share as in a plain folder.

A program that does not is printed with fewer calls, and with the command that plays it again:

    SATCHEL_PROGRAM_SEED=17 SATCHEL_PROGRAMS=1 ./scripts/test tests/shares/differential -k async

SATCHEL_PROGRAMS sets how many programs are played for each log policy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.leftovers import SHORT_PREFIX
from tests.needs import requires
from tests.shares.differential.programs import program
from tests.shares.differential.world import Different, World, seeds, shrunk

pytestmark = requires("fuse", "root")

SHARES: dict[str, dict[str, Any]] = {
    "async": {"log": "async"},
    "sync": {"log": "sync", "policy": "write-invalidate"},
    "off": {"log": "off", "policy": "write-update"},
}
PROGRAMS = {"async": 60, "sync": 20, "off": 20}
NIGHTLY = {"async": 60_000, "sync": 20_000, "off": 20_000}
SHRINK_SECONDS = 30.0
FOUND = (5226,)
"""Seeds. 5226: what an unmount had given home the next mount sent again, over a later cut."""


@pytest.fixture
def world(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix=SHORT_PREFIX) as short:
        terms = SHARES[request.node.callspec.params["share"]]
        world = World(tmp_path_factory.mktemp("world"), Path(short), **terms)
        yield world
        world.close()


def play(world: World, share: str, count: int) -> None:
    for seed in islice(seeds(), count):
        wanted = program(seed)
        try:
            world.play(wanted)
        except Different as different:
            least, why = shrunk(world, wanted, SHRINK_SECONDS)
            pytest.fail(
                f"{different}\n\nThe same with fewer calls: {why}\n{least}\n\n"
                f"SATCHEL_PROGRAM_SEED={seed} SATCHEL_PROGRAMS=1"
                f" ./scripts/test tests/shares/differential -k 'programs and {share}'",
                pytrace=False,
            )


def wanted_programs(share: str, counts: dict[str, int]) -> int:
    return int(os.environ.get("SATCHEL_PROGRAMS", counts[share]))


@pytest.mark.parametrize("share", SHARES)
def test_programs_give_the_same_as_in_a_folder(world: World, share: str) -> None:
    play(world, share, wanted_programs(share, PROGRAMS))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_differed_once_do_so_no_more(world: World, share: str, seed: int) -> None:
    del share
    world.play(program(seed, allocates=False))


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("share", SHARES)
def test_many_programs_give_the_same_as_in_a_folder(world: World, share: str) -> None:
    play(world, share, wanted_programs(share, NIGHTLY))
