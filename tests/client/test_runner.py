# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whole sessions with scripted machines: what a person does, and what goes wrong meanwhile."""

import dataclasses
import shutil
import threading

import pytest

from client import ServiceSession
from client.moves.history import History
from client.places.surrogate import Surrogate
from media import Media
from satchel.errors import (
    IntegrityError,
    NotFoundError,
)
from satchel.ids import OperationNumber
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.waiting import eventually
from wire import Peer, ReplicaStatus

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def replica_states(runner: ServiceSession) -> dict[str, str]:
    return {feed.name: feed.state.value for feed in operations(runner).feeds()}


def pull(world: World) -> None:
    world.stick.rename(world.folder / "pulled")
    world.stick.mkdir()


def put_back(world: World) -> None:
    shutil.rmtree(world.stick)
    (world.folder / "pulled").rename(world.stick)


def test_home_answers_a_surrogate_joins_and_a_move_ends_the_old_one(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    assert post(url).headers["X-Satchel-Leader"] == "home"
    brought = runner.move("a")
    assert brought.replayed == 1
    assert brought.fetched_bytes["media"] > 0
    assert brought.fetched_bytes["home"] == 0
    for _ in range(5):
        assert post(url).status_code == 200
    runner.move("b")
    assert carried.spots["a"].replicas() == []
    assert len(carried.spots["b"].replicas()) == 1
    for _ in range(5):
        assert post(url).status_code == 200
    assert operations(runner).wait_stable(60)
    status = runner.status()
    assert status["diverged"] == 0
    assert status["last_operation"] == status["stable_operation"] == 11
    rows = {row["name"]: row for row in status["replicas"]}
    assert rows["b"]["state"] == rows["home"]["state"] == "joined"
    assert eventually(lambda: {row["lag"] for row in runner.status()["replicas"]} == {0})
    assert rows["b"]["fetched_bytes"]["media"] > 0
    assert rows["home"]["fetched_bytes"] is None
    runner.close()
    assert carried.spots["b"].replicas() == []
    assert eventually(lambda: carried.home.executed("notes") == 11)
    assert list(carried.settings.run.iterdir()) == [carried.settings.run / "l"]


def test_without_the_media_everything_comes_from_home(carried: World) -> None:
    runner = carried.runner()
    brought = runner.move("a", use_media=False)
    assert brought.fetched_bytes["home"] > 0
    assert "media" not in brought.fetched_bytes


def test_a_session_with_media_takes_up_what_was_done_without(carried: World) -> None:
    runner = carried.runner(media=False)
    url = carried.proxy(runner)
    for _ in range(3):
        post(url)
    runner.close()
    runner = carried.runner()
    assert operations(runner).journal.last == 3
    assert runner.move("a").replayed == 3


def test_a_service_that_a_medium_lacks_is_not_found_without_a_home(carried: World) -> None:
    lonely = dataclasses.replace(carried.settings, home=Peer())
    runner = ServiceSession(lonely, "diary", media=carried.stick)
    with pytest.raises(NotFoundError, match=f"diary at {carried.stick}: home was not asked"):
        runner.start()
    runner.close()


def test_home_goes_and_comes_back_in_the_middle(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    carried.home.cut()
    for _ in range(10):
        answer = post(url)
        assert answer.headers["X-Satchel-Leader"] == "a"
        assert answer.headers["X-Satchel-Stable"] == "no"
    assert eventually(lambda: replica_states(runner)["home"] == "silent")
    assert operations(runner).journal.stable == 1
    carried.home.mend()
    assert operations(runner).wait_stable(60)
    assert eventually(lambda: carried.home.executed("notes") == 11)


def test_a_home_that_starts_again_from_its_checkpoint_is_brought_up_to_date(
    carried: World,
) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    for _ in range(4):
        post(url)
    carried.home.restart()
    for _ in range(4):
        assert post(url).status_code == 200
    assert operations(runner).wait_stable(60)
    assert runner.status()["diverged"] == 0
    holder = carried.home.home.service("notes").lease.holder
    assert holder and holder.startswith("laptop-")


def test_a_replica_that_says_it_is_where_nobody_sent_it_is_told_and_taken_away(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()
    true = Surrogate.status

    def lying(endpoint: Surrogate, **how: float) -> ReplicaStatus:
        return dataclasses.replace(true(endpoint, **how), last_operation=OperationNumber(99))

    monkeypatch.setattr(Surrogate, "status", lying)
    with pytest.raises(IntegrityError, match="executed operation 99: the last one is 0"):
        runner.move("a")
    assert carried.spots["a"].replicas() == []
    assert History.of(carried.settings.state, "notes").moves() == []


def test_a_replica_comes_up_without_home_and_gets_from_it_what_the_media_lacks_later(
    carried: World,
) -> None:
    runner = carried.runner()
    carried.home.cut()
    packs = sorted((carried.stick / "satchel" / "packs").iterdir())
    hidden = carried.folder / "hidden"
    hidden.mkdir()
    for path in packs:
        shutil.move(path, hidden / path.name)
    Media.open(carried.stick).close()
    threading.Timer(2.0, carried.home.mend).start()
    brought = runner.move("a")
    assert brought.fetched_bytes["home"] > 0


def test_media_that_is_pulled_out_in_the_middle_loses_nothing(carried: World) -> None:
    runner = carried.runner()
    runner.move("a")
    url = carried.proxy(runner)
    for _ in range(3):
        post(url)
    pull(carried)
    answers = [post(url) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert {answer.headers["X-Satchel-Stable"] for answer in answers} == {"yes"}
    assert str(carried.stick) in runner.status()["journal_failure"]
    runner.close()
    put_back(carried)
    again = carried.runner()
    assert operations(again).journal.last == 6
    assert not operations(again).journal.beside
    assert again.move("a").replayed == 6
    assert again.status()["diverged"] == 0


def test_beside_the_media_and_without_home_nothing_is_acknowledged_but_all_is_kept(
    carried: World,
) -> None:
    runner = carried.runner(response_seconds=3.0)
    runner.move("a")
    url = carried.proxy(runner)
    assert post(url).status_code == 200
    pull(carried)
    carried.home.cut()
    answer = post(url)
    assert answer.status_code == 503
    assert "executed, but home did not get it" in answer.json()["what"]
    runner.close()
    put_back(carried)
    carried.home.mend()
    again = carried.runner()
    assert operations(again).journal.last == 2
    assert operations(again).wait_stable(60)
    assert carried.home.executed("notes") == 2


def test_home_s_newer_checkpoint_is_used_when_the_media_is_too_old_to_lead_on(
    carried: World,
) -> None:
    runner = carried.runner(media=False, data=carried.folder / "elsewhere")
    url = carried.proxy(runner)
    for _ in range(5):
        post(url)
    assert operations(runner).wait_stable(60)
    runner.close()
    service = carried.home.home.service("notes")
    for _ in range(2):
        service.checkpoint()
    runner = carried.runner()
    assert runner.manifest.operation == 5
    assert (operations(runner).journal.base, operations(runner).journal.last) == (5, 5)
    assert runner.move("a").replayed == 0
    assert post(carried.proxy(runner)).headers["X-Satchel-Operation"] == "6"


def test_a_return_home_and_out_again(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    for _ in range(4):
        post(url)
    runner.close()
    carried.home.carry("notes", carried.stick)
    runner = carried.runner()
    journal = operations(runner).journal
    assert (runner.manifest.operation, journal.base, journal.last) == (4, 0, 4)
    assert runner.move("a").replayed == 0
    assert post(carried.proxy(runner)).headers["X-Satchel-Operation"] == "5"


def test_operations_that_only_the_media_has_reach_home_on_return(carried: World) -> None:
    carried.runner().close()  # home has given it the key that seals the log
    carried.home.cut()
    runner = carried.runner()
    runner.move("a")
    url = carried.proxy(runner)
    for _ in range(3):
        assert post(url).status_code == 200
    runner.close()
    assert carried.home.executed("notes") == 0
    carried.home.carry("notes", carried.stick)
    assert carried.home.executed("notes") == 3
    carried.home.mend()
    assert operations(carried.runner()).journal.last == 3


def test_a_service_without_state_is_answered_by_whoever_is_first(world: World) -> None:
    world.home.launch("speech")
    world.home.carry("speech", world.stick)
    runner = world.runner("speech")
    url = world.proxy(runner)
    assert post(url, "/recognize").status_code == 200
    runner.move("a")
    answers = [post(url, "/recognize") for _ in range(10)]
    assert all(answer.status_code == 200 for answer in answers)
    assert {answer.headers["X-Satchel-Leader"] for answer in answers} <= {"a", "home"}
    assert runner.status()["diverged"] == 0
    assert not (world.stick / "satchel" / "log" / "speech").exists()
    assert operations(runner).journal.last - operations(runner).journal.base <= 1
