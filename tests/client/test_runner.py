# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whole sessions with scripted machines: what a person does, and what goes wrong meanwhile."""

import dataclasses
import shutil
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chunkstore import MediaNotFound
from client import ServiceSession
from client.arrival import Arrival
from client.fronts.proxy import Proxy
from client.moves.history import History
from client.moves.mover import Mover
from client.moves.replicas import Replicas
from client.moves.sources import media_app
from client.places.surrogate import Surrogate
from client.session.checkpoints import CheckpointDamaged, CheckpointRefused
from media import Media
from replica import ReplicaState
from satchel.errors import (
    AccessError,
    CapacityError,
    ConflictError,
    IntegrityError,
    NotFoundError,
    StateError,
    UnavailableError,
    UsageError,
)
from satchel.ids import OperationNumber
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.waiting import eventually
from wire import Identity, Peer, ReplicaStatus

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


def test_a_session_without_media_goes_on_where_the_last_one_ended(carried: World) -> None:
    for total in (3, 6):
        runner = carried.runner(media=False)
        url = carried.proxy(runner)
        for _ in range(3):
            assert post(url).status_code == 200
        assert operations(runner).journal.last == total
        assert operations(runner).wait_stable(60)
        runner.close()


def test_a_session_starts_a_service_that_home_has_stopped_or_never_launched(world: World) -> None:
    world.home.home.add_service("notes", "notes")
    for total in (1, 2):
        runner = world.runner(media=False)
        assert post(world.proxy(runner)).status_code == 200
        assert operations(runner).journal.last == total
        runner.close()
        world.home.home.stop("notes")


def test_a_session_with_media_takes_up_what_was_done_without(carried: World) -> None:
    runner = carried.runner(media=False)
    url = carried.proxy(runner)
    for _ in range(3):
        post(url)
    runner.close()
    runner = carried.runner()
    assert operations(runner).journal.last == 3
    assert runner.move("a").replayed == 3


def test_media_that_is_not_there_is_told_and_nothing_is_made_in_its_place(carried: World) -> None:
    empty = carried.folder / "mountpoint"
    empty.mkdir()
    for media in (carried.folder / "nowhere", empty):
        runner = ServiceSession(carried.settings, "notes", media=media)
        with closing(runner), pytest.raises(MediaNotFound):
            runner.start()
    assert list(empty.iterdir()) == []


def test_a_service_that_nobody_has_is_not_found(carried: World) -> None:
    runner = ServiceSession(carried.settings, "diary", media=carried.stick)
    with pytest.raises(NotFoundError, match="diary"):
        runner.start()
    runner.close()
    lonely = dataclasses.replace(carried.settings, home=Peer())
    runner = ServiceSession(lonely, "diary", media=carried.stick)
    with pytest.raises(NotFoundError, match=f"diary at {carried.stick}: home was not asked"):
        runner.start()
    runner.close()


@pytest.mark.parametrize("name", ["../../etc", "", "Notes", "a/b"])
def test_a_name_that_is_none_is_refused(carried: World, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a service"):
        ServiceSession(carried.settings, name, media=None)


def test_without_home_and_media_there_is_no_session(carried: World) -> None:
    carried.home.cut()
    runner = ServiceSession(carried.settings, "notes", media=None)
    with pytest.raises(UnavailableError, match="cannot connect to home"):
        runner.start()
    runner.close()


def test_a_wrong_key_is_refused_in_clear_text(carried: World) -> None:
    other = Identity.create(carried.folder / "other")
    home = dataclasses.replace(carried.settings.home, identity=other.path)
    runner = ServiceSession(
        dataclasses.replace(carried.settings, home=home), "notes", media=carried.stick
    )
    with pytest.raises(AccessError, match="does not accept the key"):
        runner.start()
    runner.close()


def test_a_session_starts_without_home_and_home_joins_when_it_can(carried: World) -> None:
    carried.home.cut()
    runner = carried.runner()
    url = carried.proxy(runner)
    brought = runner.move("a")
    assert brought.fetched_bytes["media"] > 0
    answers = [post(url) for _ in range(5)]
    assert {answer.headers["X-Satchel-Leader"] for answer in answers} == {"a"}
    assert {answer.headers["X-Satchel-Stable"] for answer in answers} == {"no"}
    assert operations(runner).journal.stable == 0
    carried.home.mend()
    assert operations(runner).wait_stable(60)
    assert eventually(lambda: replica_states(runner)["home"] == "joined")
    assert carried.home.executed("notes") == 5
    assert runner.status()["diverged"] == 0


def test_home_goes_and_comes_back_in_the_middle(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    carried.home.cut()
    for _ in range(10):
        assert post(url).headers["X-Satchel-Leader"] == "a"
    assert eventually(lambda: replica_states(runner)["home"] == "silent")
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


def test_a_surrogate_that_dies_is_lost_and_can_be_replaced_there(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    carried.spots["a"].driver.machines[-1].crash("pulled the plug")
    answers = [post(url) for _ in range(5)]
    assert all(answer.status_code == 200 for answer in answers)
    assert answers[-1].headers["X-Satchel-Leader"] == "home"
    assert eventually(lambda: replica_states(runner)["a"] == "lost")
    row = next(row for row in runner.status()["replicas"] if row["name"] == "a")
    assert "pulled the plug" in row["error"]
    brought = runner.move("a")
    assert brought.replayed == 6
    assert carried.spots["a"].replicas() == [brought.replica]
    assert eventually(lambda: replica_states(runner)["a"] == "joined")


def test_a_surrogate_that_nobody_reaches_any_more_is_lost_in_seconds(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    carried.spots["a"].crash()
    began = time.monotonic()
    for _ in range(5):
        assert post(url).status_code == 200
    assert time.monotonic() - began < 30
    brought = runner.move("b")
    assert brought.replayed == 6
    assert set(replica_states(runner)) == {"home", "b"}


def test_a_second_replica_at_one_place_is_a_conflict(carried: World) -> None:
    runner = carried.runner()
    first = runner.move("a")
    with pytest.raises(ConflictError, match="notes has a replica at a already: it is joined"):
        runner.move("a")
    assert carried.spots["a"].replicas() == [first.replica]
    assert replica_states(runner)["a"] == "joined"


def test_a_refusal_leaves_nothing_here_or_there_and_can_be_tried_again(carried: World) -> None:
    spot = carried.spots["a"]
    generous = spot.host.settings
    spot.host.settings = dataclasses.replace(generous, memory_mib=8)
    runner = carried.runner()
    for _ in range(2):
        with pytest.raises(CapacityError, match="has no memory for a machine of 64 MiB"):
            runner.move("a")
        assert spot.replicas() == []
        assert eventually(lambda: spot.forwarded() == [])
        assert set(replica_states(runner)) == {"home"}
    spot.host.settings = generous
    assert runner.move("a").surrogate == "a"


def test_a_replica_that_cannot_be_resumed_is_told_and_taken_away(carried: World) -> None:
    carried.spots["a"].driver.lacking = ("machine type pc-q35-99.0",)
    runner = carried.runner()
    with pytest.raises(Exception, match="pc-q35-99"):
        runner.move("a")
    assert carried.spots["a"].replicas() == []
    assert post(carried.proxy(runner)).status_code == 200


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


def test_a_surrogate_that_is_unknown_or_away_is_told(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that home answers goes on with home, and comes there as soon as it can."""
    runner = carried.runner()
    with pytest.raises(NotFoundError, match="no surrogate c: known: a, b"):
        runner.move("c")
    carried.spots["b"].cut()
    with pytest.raises(UnavailableError, match="cannot connect to b"):
        runner.move("b")
    assert set(replica_states(runner)) == {"home"}
    monkeypatch.setattr("client.arrival.AGAIN_SECONDS", 0.2)
    with pytest.raises(NotFoundError):
        Arrival(runner, "c").begin()
    arrival = Arrival(runner, "b")
    arrival.begin()
    assert post(carried.proxy(runner)).status_code == 200
    carried.spots["b"].mend()
    assert eventually(lambda: runner.leader == "b", 60)
    arrival.close()


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
    runner._of.medium = Media.open(carried.stick)
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


def test_a_checkpoint_that_somebody_else_signed_is_refused(carried: World) -> None:
    stranger = carried.folder / "signers"
    key = Identity.create(carried.folder / "stranger")
    stranger.write_text(f'owner namespaces="satchel-checkpoint" {key.public}\n')
    runner = ServiceSession(
        dataclasses.replace(carried.settings, allowed_signers=stranger),
        "notes",
        media=carried.stick,
    )
    with pytest.raises(CheckpointRefused, match="the checkpoint of notes from"):
        runner.start()
    runner.close()


def manifests(world: World) -> list[Path]:
    return sorted((world.stick / "satchel" / "checkpoints").glob("notes-*.json"))


def test_a_damaged_checkpoint_on_media_gives_way_to_home_s(carried: World) -> None:
    manifest = manifests(carried)[0]
    manifest.write_bytes(manifest.read_bytes().replace(b'"operation":0', b'"operation":1'))
    runner = carried.runner()
    assert runner.manifest.operation == 0
    assert runner.move("a").replayed == 0
    runner.close()
    carried.home.cut()
    alone = ServiceSession(carried.settings, "notes", media=carried.stick)
    with pytest.raises(CheckpointDamaged, match="is of no use"):
        alone.start()
    alone.close()


def test_a_checkpoint_under_another_service_s_name_is_refused(carried: World) -> None:
    carried.mislabel("notes", "diary")
    lonely = dataclasses.replace(carried.settings, home=Peer())
    runner = ServiceSession(lonely, "diary", media=carried.stick)
    with pytest.raises(CheckpointDamaged, match="it is of service notes"):
        runner.start()
    runner.close()


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


def test_what_a_killed_session_left_on_a_surrogate_the_next_one_ends(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()
    left = runner.move("a").replica
    with monkeypatch.context() as patch:
        patch.setattr(Replicas, "end", lambda *_: None)  # as if it had been killed
        runner.close()
    assert carried.spots["a"].replicas() == [left]
    again = carried.runner()
    brought = again.move("a")
    assert carried.spots["a"].replicas() == [brought.replica]
    again.close()
    assert not (carried.settings.run / "notes.replicas").exists()


def test_close_ends_a_replica_that_is_being_brought_up(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()
    spot = carried.spots["a"]
    held = threading.Event()

    class StuckRecords:
        def records(self, refs: bytes) -> bytes:
            held.wait(20)
            return b""

    never: Any = StuckRecords()
    for app in ("media_app", "relay_app"):
        monkeypatch.setattr(
            f"client.moves.sources.{app}",
            lambda source, operations, way, *_: media_app(never, operations, way),
        )
    errors: list[Exception] = []

    def move() -> None:
        try:
            runner.move("a")
        except Exception as error:
            errors.append(error)

    moving = threading.Thread(target=move)
    moving.start()
    assert eventually(spot.replicas)
    began = time.monotonic()
    runner.close()
    moving.join(60)
    held.set()
    assert time.monotonic() - began < 60
    assert isinstance(errors[0], StateError)
    assert spot.replicas() == []


def test_an_interrupt_in_the_middle_of_a_move_leaves_nothing(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = carried.runner()

    def interrupted(*_: object, **_how: bool) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Mover, "_await", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.move("a")
    assert carried.spots["a"].replicas() == []
    assert carried.spots["a"].forwarded() == []


def test_many_sessions_leave_no_thread_and_no_descriptor(carried: World) -> None:
    def once() -> None:
        runner = carried.runner()
        proxy = Proxy(operations(runner))
        runner.move("a")
        post(f"http://127.0.0.1:{proxy.port}")
        proxy.close()
        runner.close()

    once()
    time.sleep(0.5)
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(3):
        once()
    assert eventually(lambda: threading.active_count() <= before[1] + 1)
    assert eventually(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before[0] + 3)


def test_a_surrogate_s_replica_is_ended_when_its_host_is_told(carried: World) -> None:
    runner = carried.runner()
    brought = runner.move("a")
    url = carried.proxy(runner)
    post(url)
    (hosted,) = carried.spots["a"].host.replicas()
    assert hosted.id == brought.replica
    carried.spots["a"].host.end_every(brought.replica)
    assert hosted.replica.state is ReplicaState.STOPPED
    assert post(url).headers["X-Satchel-Leader"] == "home"
    assert eventually(lambda: replica_states(runner)["a"] == "lost")
    assert operations(runner).journal.last == OperationNumber(2)
