# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's checkpoints come onto the medium during a session: what is replayed afterwards, what the
log still has, what is there whenever the stick is pulled out."""

from pathlib import Path

from media import Media, read_manifest
from replay import Log
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("sshd", "ssh")


def on_stick(stick: Path) -> list[int]:
    """The operations of the checkpoints there, the newest first."""
    with Media.open(stick) as media:
        found = [read_manifest(media, one) for one in media.checkpoints("notes") if one.whole]
    return [manifest.operation for manifest in found]


def logged(stick: Path) -> tuple[int, int]:
    """The first and the last operation of the log there."""
    with Media.open(stick) as media, Log.open(media.log_path("notes"), read_only=True) as log:
        return log.first, log.last


def test_a_move_after_a_pause_replays_what_came_since(carried: World) -> None:
    runner = carried.runner(media_seconds=1)
    url = carried.proxy(runner)
    for _ in range(5):
        post(url)
    assert eventually(lambda: on_stick(carried.stick)[0] == 5)
    for _ in range(3):
        post(url)
    moved = runner.move("a")
    assert moved.replayed <= 3
    assert eventually(lambda: on_stick(carried.stick) == [8, 5])
    assert eventually(lambda: logged(carried.stick) == (6, 8))
    assert runner.manifest.operation == 8
    runner.close()
    carried.home.cut()
    alone = carried.runner()
    assert alone.manifest.operation == 8
    assert alone.move("b").replayed == 0


def test_a_medium_that_is_pulled_out_meanwhile_gets_what_it_lacks_later(carried: World) -> None:
    runner = carried.runner(media_seconds=1)
    url = carried.proxy(runner)
    carried.stick.rename(carried.folder / "pulled")
    for _ in range(4):
        post(url)
    assert eventually(lambda: operations(runner).journal.beside)
    runner.close()
    (carried.folder / "pulled").rename(carried.stick)
    assert on_stick(carried.stick) == [0]
    again = carried.runner(media_seconds=1)
    post(carried.proxy(again))
    assert eventually(lambda: on_stick(carried.stick)[0] == 5)
    assert eventually(lambda: (again.status()["refreshed"] or {})["checkpoints"] == 1)


def test_no_checkpoint_comes_where_none_is_wanted(carried: World) -> None:
    runner = carried.runner()
    post(carried.proxy(runner))
    assert runner.status()["refreshed"] is None
