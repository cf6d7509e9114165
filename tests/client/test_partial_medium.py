# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium that is too small: it serves what it has, home the rest, and without home the client
says so before it starts."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.service import ServiceSession
from client.session.checkpoints import CheckpointPartial, OwnerOverrides
from homeserver.media.budget import write_part
from homeserver.media.care import verify_media
from homeserver.media.carry import sync
from media import Media, Refresher, checkpoints_on, part_of, read_manifest, write_checkpoints
from satchel.ids import BLOCK_SIZE
from tests.client.world import World, operations, post
from tests.media.test_refreshing import Given
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

BUDGET = 200_000


@pytest.fixture
def partial(short_path: Path) -> Iterator[World]:
    """A world in which the stick has a part of `notes`, whose disk has 2 MiB."""
    world = World(short_path)
    disk = world.home.settings.images / "notes" / "disk"
    try:
        disk.write_bytes(random.Random(5).randbytes(2 << 20))
        world.home.launch("notes")
        home = world.home.home
        done = sync(home.services(), home.store, world.stick, budget=BUDGET)
        assert done.left_out["notes"].bytes > 1 << 20
        yield world
    finally:
        world.close()


def test_the_rest_comes_from_home(partial: World) -> None:
    runner = partial.runner()
    url = partial.proxy(runner)
    runner.move("a")
    assert post(url).status_code == 200
    assert eventually(lambda: partial.spots["a"].replicas() != [])
    assert verify_media(partial.stick)["ok"]


def test_without_home_it_is_said_before_anything_starts(partial: World) -> None:
    runner = partial.runner()
    assert post(partial.proxy(runner)).status_code == 200
    runner.close()
    partial.home.cut()
    refused = ServiceSession(partial.settings, "notes", media=partial.stick)
    with pytest.raises(CheckpointPartial, match=r"only a part of notes.*--accept-part"):
        refused.start()
    refused.close()
    runner = partial.runner(accepted=OwnerOverrides(part=True))
    assert operations(runner).journal.last == 1


def test_a_part_gets_what_differs_and_stays_a_part(tmp_path: Path) -> None:
    """The client brings home's next checkpoint onto the medium, as far as it differs."""
    given = Given(tmp_path)
    stick = tmp_path / "small"
    stick.mkdir()
    with Media.init(stick) as media:
        write_part(given.store, media, [given.first], 2_000_000)
        refresher = Refresher(media, "notes", tmp_path / "came", given.fetch)
        refresher.bring(given.second)
        (found,) = checkpoints_on(media)
        assert read_manifest(media, found).operation == 2
        part = part_of(media, found)
        assert part is not None
        assert part.budget == 2_000_000
        assert part.chunks * BLOCK_SIZE > 150 * BLOCK_SIZE
    assert verify_media(stick)["ok"]
    with Media.open(stick) as media:
        write_checkpoints(given.store, media, [given.second])
        assert media.missing(*given.second.manifest.roots()) == b""
    assert verify_media(stick)["ok"]
