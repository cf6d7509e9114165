# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What machines at surrogates touched is what home expects of later ones, if its owner wishes it.

The daemons are the real ones, behind real sshds; the machines read memory where the test says.
"""

import pytest

from replica import RAM, Profile, decode_profile
from satchel.ids import BLOCK_SIZE
from tests.client.world import World, post
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

FAR = (1000, 1001, 1500)
"""Blocks of memory that neither a resume nor a rehearsal reads: the guest has 16,384."""


def read_at(world: World, surrogate: str, *blocks: int) -> None:
    with world.spots[surrogate].driver.machines[-1].wiring.ram.open("rb", buffering=0) as memory:
        for block in blocks:
            memory.seek(block * BLOCK_SIZE)
            assert memory.read(BLOCK_SIZE)


def taught(world: World) -> Profile:
    """The profile of home's next checkpoint."""
    manifest = world.home.home.service("notes").checkpoint().manifest
    assert manifest.profile is not None
    return decode_profile(world.home.home.store.read(manifest.profile), manifest.volumes)


def likely(profile: Profile) -> set[int]:
    """What is brought ahead, of memory."""
    return {
        block
        for part in profile.foreseen()
        for run in part
        if run.volume == RAM
        for block in range(run.first, run.first + run.count)
    }


def test_what_a_replica_touched_that_was_ended_is_brought_ahead_of_the_next(carried: World) -> None:
    runner = carried.runner(teach=True)
    runner.move("a")
    post(carried.proxy(runner))
    read_at(carried, "a", *FAR)
    runner.close()
    assert likely(taught(carried)) >= set(FAR)


def test_so_is_what_one_touched_that_was_moved_away(carried: World) -> None:
    runner = carried.runner(teach=True)
    runner.move("a")
    read_at(carried, "a", *FAR)
    runner.move("b")
    assert likely(taught(carried)) >= set(FAR)


def test_nobody_is_asked_unless_the_owner_wishes_it(carried: World) -> None:
    runner = carried.runner()
    runner.move("a")
    read_at(carried, "a", *FAR)
    runner.close()
    assert not likely(taught(carried)) & set(FAR)


def test_home_is_told_later_where_it_is_away(carried: World) -> None:
    runner = carried.runner(teach=True)
    runner.move("a")
    read_at(carried, "a", FAR[0])
    carried.home.cut()
    runner.contract.drop("a")
    carried.home.mend()
    runner.move("b")
    post(carried.proxy(runner))
    assert eventually(lambda: carried.home.executed("notes") == 1)
    read_at(carried, "b", FAR[0], FAR[2])
    runner.close()
    profile = taught(carried)
    assert likely(profile) >= {FAR[0], FAR[2]}
    twice = profile.order(least=3)
    assert (RAM, FAR[0]) in {place for run in twice for place in run.blocks()}


def test_a_surrogate_that_is_gone_teaches_nothing_and_holds_nobody_up(carried: World) -> None:
    runner = carried.runner(teach=True)
    runner.move("a")
    read_at(carried, "a", *FAR)
    carried.spots["a"].crash()
    runner.close()
    assert not likely(taught(carried)) & set(FAR)


@pytest.mark.parametrize("lie", [{"ram": (1 << 39, 7)}, {"moon": (3, 4)}, {"ram": (16_380, 900)}])
def test_what_there_is_not_is_not_believed(carried: World, lie: dict[str, tuple[int, ...]]) -> None:
    carried.home.home.service("notes").told.add(lie)
    profile = taught(carried)
    ends = {name: 16_384 if name == RAM else 2 for name, _ in profile.runs}
    assert all(index * 16 < ends[name] for name, index in profile.runs)
    assert max(likely(profile)) < 16_384
