# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session has several media: which checkpoint it begins with, who gives chunks, who gets newer
ones, and one that is pulled out or plugged in later."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from client.session.journal import Journal, JournalParted
from homeserver.media.carry import carry
from media import Media
from satchel.errors import SatchelError
from tests.chunkstore.mounts import tmpfs
from tests.client.test_cli import Person
from tests.client.test_trickle import logged, on_stick
from tests.client.world import World, operations, post
from tests.media_keys import sealed_for
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("sshd", "ssh")


@pytest.fixture
def second(carried: World) -> Path:
    """One more stick that has `notes`, at operation 0."""
    root = carried.folder / "second"
    root.mkdir()
    Media.init(root).close()
    carried.home.carry("notes", root)
    return root


def checkpoints(stick: Path) -> list[int]:
    """Return the checkpoints' operations; [-1] while a commit replaces one."""
    try:
        return on_stick(stick)
    except SatchelError:
        return [-1]


def used(world: World, count: int, *sticks: Path) -> None:
    """A session that asks so much of the service."""
    runner = world.runner(media=sticks)
    url = world.proxy(runner)
    for _ in range(count):
        post(url)
    runner.close()


def test_the_newest_checkpoint_counts_with_the_longest_log(carried: World, second: Path) -> None:
    used(carried, 5, carried.stick)
    carried.home.carry("notes", second)
    used(carried, 3, carried.stick)
    assert (on_stick(carried.stick), on_stick(second)) == ([0], [5, 0])
    carried.home.cut()
    for sticks in ([carried.stick, second], [second, carried.stick]):
        runner = carried.runner(media=sticks)
        assert (runner.manifest.operation, operations(runner).journal.last) == (5, 8)
        assert [row["path"] for row in runner.status()["sticks"]] == [
            str(carried.stick),
            str(second),
        ]
        runner.close()


def test_both_get_newer_checkpoints_and_either_one_will_do(carried: World, second: Path) -> None:
    used(carried, 2, carried.stick)
    runner = carried.runner(media=[carried.stick, second], media_seconds=1)
    url = carried.proxy(runner)
    for _ in range(3):
        post(url)
    assert eventually(lambda: checkpoints(carried.stick)[0] == checkpoints(second)[0] == 5)
    second.rename(carried.folder / "pulled")
    for _ in range(3):
        post(url)
    assert eventually(lambda: checkpoints(carried.stick)[0] == 8)
    assert eventually(lambda: runner.status()["sticks"][1]["failure"] == "pulled out")
    (carried.folder / "pulled").rename(second)
    assert eventually(lambda: checkpoints(second) == [8, 5])
    assert eventually(lambda: logged(second) == (6, 8))
    runner.close()
    carried.home.cut()
    shutil.rmtree(carried.stick)
    alone = carried.runner(media=[second])
    assert (alone.manifest.operation, operations(alone).journal.last) == (8, 8)
    assert alone.move("b").replayed == 0


def test_a_stick_has_the_chunks_that_another_one_lacks(carried: World, second: Path) -> None:
    runner = carried.runner(media=[carried.stick, second])
    carried.home.cut()
    for path in (carried.stick / "satchel" / "packs").iterdir():
        path.unlink()
    assert runner.move("a").fetched_bytes["media"] > 0
    shutil.rmtree(second)
    post(carried.proxy(runner))
    assert operations(runner).journal.last == 1


def test_sticks_with_other_histories_are_refused_without_home(carried: World, second: Path) -> None:
    used(carried, 3, carried.stick)
    with Media.open(second) as media, closing(Journal(media.log_path("notes"), None)) as other:
        other.append(lambda *_: b"by another client")
    carried.home.cut()
    with pytest.raises(JournalParted, match=f"the one on the medium at {second}") as refused:
        carried.runner(media=[carried.stick, second])
    assert "one of the media only" in refused.value.fix


@requires("root", "mount")
def test_sealed_ones_are_noticed_when_they_are_plugged_in(carried: World) -> None:
    """The real `satchel run`, which names none; those in clear do not count."""
    keys = carried.home.settings.media_keys
    person = Person(carried)
    person.config.write_text(f"media-seconds = 1\n{person.config.read_text()}")
    first, later, clear = (carried.folder / name for name in ("first", "later", "clear"))
    try:
        with tmpfs(first), tmpfs(later), tmpfs(clear):
            for root in (first, later):
                seal = sealed_for(carried.home.settings, carried.key.public)
                Media.init(root, seal, keys).close()
                carry(carried.home.home.service("notes"), carried.home.home.store, root, keys=keys)
            shutil.move(later / "satchel", carried.folder / "not yet")
            Media.init(clear).close()
            session = person.runs("notes")
            (row,) = person.sees("status", "notes")["sticks"]
            assert (row["path"], row["failure"]) == (str(first), None)
            shutil.move(carried.folder / "not yet", later / "satchel")
            with tmpfs(carried.folder / "any"):  # a mount, so the session looks
                assert eventually(lambda: len(person.sees("status", "notes")["sticks"]) == 2)
            status = person.sees("status", "notes")
            post(status["url"])

            def newest() -> set[str]:
                rows = person.sees("status", "notes")["sticks"]
                return {row["checkpoint"] for row in rows}

            assert eventually(lambda: len(newest()) == 1 and status["checkpoint"] not in newest())
            assert person.types("stop", "notes").returncode == 0
            session.wait(60)
    finally:
        person.close()
