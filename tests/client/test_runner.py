# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whole sessions with scripted machines: what a person does, and what goes wrong meanwhile."""

from tests.client.world import World, post
from tests.needs import requires

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def test_home_answers_a_surrogate_joins_and_a_move_ends_the_old_one(world: World) -> None:
    world.home.launch("notes")
    world.home.carry("notes", world.stick)
    runner = world.runner()
    url = world.proxy(runner)
    first = post(url)
    assert first.headers["X-Satchel-Leader"] == "home"
    brought = runner.move("a")
    assert brought.replayed == 1
    assert brought.fetched_bytes["media"] > 0
    assert brought.fetched_bytes["home"] == 0
    for _ in range(5):
        assert post(url).status_code == 200
    runner.move("b")
    assert world.spots["a"].replicas() == []
    assert len(world.spots["b"].replicas()) == 1
    for _ in range(5):
        assert post(url).status_code == 200
    assert runner.session.wait_stable(10)
    status = runner.status()
    assert status["diverged"] == 0
    assert status["last_operation"] == status["stable_operation"] == 11
    runner.close()
    assert world.spots["b"].replicas() == []
    assert world.home.executed("notes") == 11
