# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Moves in which one surrogate hands the machine over to the next one."""

import dataclasses
import threading
from typing import Any

import pytest

from client.moves.history import History
from client.moves.mover import Mover
from client.moves.routes import CACHE, MoveRecord, Route
from client.places.surrogate import Surrogate
from client.platform.settings import HOME
from client.session.checkpoints import CheckpointDamaged
from satchel.errors import NotFoundError, StateError, UnavailableError
from tests.client.test_runner import replica_states
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.scripted import ScriptedGuest
from tests.waiting import eventually
from wire import HandoverState, Link

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def test_a_replica_is_handed_over_as_it_is(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    for _ in range(8):
        post(url)
    assert eventually(lambda: operations(runner).feed("a").cursor == 8)  # type: ignore[union-attr]
    told: list[tuple[int, int]] = []
    brought = runner.move("b", route=Route.HANDOVER, progress=lambda *now: told.append(now))
    assert told[-1][0] == told[-1][1] > 0
    assert all(done <= total == told[-1][1] for done, total in told)
    assert brought.replayed == 0
    assert brought.fetched_bytes["a"] > 0
    assert carried.spots["a"].replicas() == []
    carried.spots["a"].cut()
    for _ in range(4):
        assert post(url).status_code == 200
    assert eventually(lambda: {row["lag"] for row in runner.status()["replicas"]} == {0})
    status = runner.status()
    assert status["last_operation"] == 12
    assert status["diverged"] == 0
    assert {row["name"]: row["state"] for row in status["replicas"]} == {
        "home": "joined",
        "b": "joined",
    }


def test_a_hand_over_is_asked_for_while_the_links_are_made(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()
    runner.move("a")
    asked = threading.Event()
    hand_over, connect = Surrogate.hand_over, Mover._connect

    def asking(giver: Surrogate) -> HandoverState:
        asked.set()
        return hand_over(giver)

    def connecting(replicas: Mover, surrogate: str) -> tuple[Link, Link]:
        assert asked.wait(10)
        return connect(replicas, surrogate)

    monkeypatch.setattr(Surrogate, "hand_over", asking)
    monkeypatch.setattr(Mover, "_connect", connecting)
    assert runner.move("b", route=Route.HANDOVER).route is Route.HANDOVER


def test_a_giver_whose_link_is_made_again_is_waited_for(carried: World) -> None:
    runner = carried.runner()
    runner.move("a")
    url = carried.proxy(runner)
    carried.spots["a"].cut()
    post(url)
    assert eventually(lambda: replica_states(runner)["a"] == "silent")
    mending = threading.Timer(0.5, carried.spots["a"].mend)
    mending.start()
    brought = runner.move("b", route=Route.HANDOVER)
    mending.join()
    assert brought.route is Route.HANDOVER
    (*_, last) = History.of(carried.settings.state, "notes").moves()
    assert (last.surrogate, last.route) == ("b", Route.HANDOVER)


def test_nobody_can_hand_over_what_is_only_at_home(carried: World) -> None:
    runner = carried.runner()
    with pytest.raises(StateError, match="cannot go there by handover"):
        runner.move("b", route=Route.HANDOVER)
    runner.move("a")
    carried.spots["a"].driver.machines[-1].crash()
    post(carried.proxy(runner))
    assert eventually(lambda: replica_states(runner)["a"] == "lost")
    with pytest.raises(StateError, match="cannot go there by handover"):
        runner.move("b", route=Route.HANDOVER)
    assert runner.move("b").surrogate == "b"


@pytest.mark.parametrize(
    "lie",
    [
        {"operation": 99},
        {"volumes": {}},
        {"device_state": {"sha1": "0" * 40}},
    ],
    ids=["operation", "volumes", "device-state"],
)
def test_a_surrogate_that_hands_over_nonsense_is_told_and_keeps_its_replica(
    carried: World, lie: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()
    runner.move("a")
    true = Surrogate.hand_over
    monkeypatch.setattr(Surrogate, "hand_over", lambda self: dataclasses.replace(true(self), **lie))
    with pytest.raises(CheckpointDamaged, match="hands over"):
        runner.move("b", route=Route.HANDOVER)
    assert carried.spots["b"].replicas() == []
    assert replica_states(runner)["a"] == "joined"


def test_a_fresh_checkpoint_of_home_leaves_nothing_to_replay(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    assert runner.plan("a").situation.near == "media"
    for _ in range(6):
        post(url)
    assert eventually(lambda: carried.home.executed("notes") == 6)
    brought = runner.move("a", route=Route.FRESH)
    assert brought.replayed == 0
    assert runner.manifest.operation == 6
    assert post(url).status_code == 200
    assert runner.status()["diverged"] == 0
    assert runner.plan("a").situation.near == CACHE
    assert runner.plan("b").situation.near == HOME  # the stick has an older one


def test_a_home_whose_link_is_made_again_is_waited_for(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    assert eventually(lambda: carried.home.executed("notes") == 1)
    carried.home.cut()
    post(url)
    assert eventually(lambda: replica_states(runner)["home"] == "silent")
    carried.home.mend()
    assert runner.move("b", route=Route.FRESH).route is Route.FRESH
    (*_, last) = History.of(carried.settings.state, "notes").moves()
    assert (last.surrogate, last.route) == ("b", Route.FRESH)


def test_a_move_takes_the_route_that_is_predicted_to_be_the_fastest(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    assert eventually(lambda: replica_states(runner)["home"] == "joined")
    assert {p.route for p in runner.plan("a").routes} == {Route.REPLAY, Route.FRESH}
    assert runner.move("a").route is Route.REPLAY
    post(url)
    assert eventually(lambda: replica_states(runner)["a"] == "joined")
    plan = runner.plan("b")
    assert plan.situation.replayed == 1
    assert {p.route for p in plan.routes} == set(Route)
    brought = runner.move("b")
    assert brought.route is plan.routes[0].route
    made = History.of(carried.settings.state, "notes").moves()
    assert [(move.surrogate, move.route) for move in made] == [
        ("a", Route.REPLAY),
        ("b", brought.route),
    ]
    assert made[1].seconds == brought.seconds
    with pytest.raises(NotFoundError):
        runner.plan("nowhere")


def test_a_hand_over_that_fails_on_the_way_becomes_a_replay(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    for _ in range(4):
        post(url)

    def gone(self: Surrogate) -> HandoverState:
        carried.spots["a"].crash()
        raise UnavailableError("it is gone")

    slow = MoveRecord("", "b", "", Route.REPLAY, "media", 1, 0.0, 4, 0.0, 900.0, 1.0)
    swift = dataclasses.replace(slow, route=Route.HANDOVER, bytes=10**9, seconds=1.0)
    History.of(carried.settings.state, "notes").add(slow)
    History.of(carried.settings.state, "notes").add(swift)
    monkeypatch.setattr(Surrogate, "hand_over", gone)
    assert runner.plan("b").routes[0].route is Route.HANDOVER
    assert runner.move("b").route is Route.REPLAY
    assert post(url).status_code == 200
    assert runner.status()["diverged"] == 0


def test_a_machine_that_is_not_what_home_has_is_replaced_by_a_replay(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    first = runner.move("a")
    post(url)
    assert eventually(lambda: {row["lag"] for row in runner.status()["replicas"]} == {0})
    guest = carried.spots["a"].driver.machines[-1].guest
    assert isinstance(guest, ScriptedGuest)
    guest.history = "its surrogate has had it execute something else"
    runner.move("b", route=Route.HANDOVER)
    post(url)
    assert eventually(lambda: [q["restarted"] for q in runner.status()["quarantined"]] == [True])
    (case,) = runner.status()["quarantined"]
    assert (case["surrogate"], case["replica"], case["operation"]) == ("a", first.replica, 2)
    for _ in range(3):
        assert post(url).status_code == 200
    assert eventually(lambda: operations(runner).tally.later_responses >= 5)
    assert replica_states(runner) == {"home": "joined", "b": "joined"}
    assert runner.status()["diverged"] == 1
