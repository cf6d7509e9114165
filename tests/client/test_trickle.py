# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's checkpoints come onto the medium during a session: what is replayed afterwards, what the
log still has, what is there whenever the stick is pulled out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Media
from images import read_manifest
from replay import Log
from tests.client.world import World, post
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("sshd", "ssh")


@pytest.fixture
def world(short_path: Path) -> Iterator[World]:
    made = World(short_path)
    made.home.launch("notes")
    made.home.carry("notes", made.stick)
    yield made
    made.close()


def on_stick(stick: Path) -> list[int]:
    """The operations of the checkpoints there, the newest first."""
    with Media.open(stick) as media:
        found = [read_manifest(media, one) for one in media.checkpoints("notes") if one.whole]
    return [manifest.operation for manifest in found]


def logged(stick: Path) -> tuple[int, int]:
    """The first and the last operation of the log there."""
    with Media.open(stick) as media, Log.open(media.log_path("notes"), read_only=True) as log:
        return log.first, log.last


def test_a_move_after_a_pause_replays_what_came_since(world: World) -> None:
    runner = world.runner(media_seconds=1)
    url = world.proxy(runner)
    for _ in range(5):
        post(url)
    assert eventually(lambda: on_stick(world.stick)[0] == 5)
    for _ in range(3):
        post(url)
    moved = runner.move("a")
    assert moved.replayed <= 3
    assert eventually(lambda: on_stick(world.stick) == [8, 5])
    assert eventually(lambda: logged(world.stick) == (6, 8))
    assert runner.manifest.operation == 8
    runner.close()
    world.home.cut()
    alone = world.runner()
    assert alone.manifest.operation == 8
    assert alone.move("b").replayed == 0


def test_a_medium_that_is_pulled_out_meanwhile_gets_what_it_lacks_later(world: World) -> None:
    runner = world.runner(media_seconds=1)
    url = world.proxy(runner)
    world.stick.rename(world.folder / "pulled")
    for _ in range(4):
        post(url)
    assert eventually(lambda: runner.session.journal.beside)
    runner.close()
    (world.folder / "pulled").rename(world.stick)
    assert on_stick(world.stick) == [0]
    again = world.runner(media_seconds=1)
    post(world.proxy(again))
    assert eventually(lambda: on_stick(world.stick)[0] == 5)
    assert eventually(lambda: (again.status()["refreshed"] or {})["checkpoints"] == 1)


def test_no_checkpoint_comes_where_none_is_wanted(world: World) -> None:
    runner = world.runner()
    post(world.proxy(runner))
    assert runner.status()["refreshed"] is None
