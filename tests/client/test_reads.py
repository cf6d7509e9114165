# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What changes nothing goes to the nearest replica, sees what was written, and costs less."""

import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from client.moves.history import History
from client.moves.mover import Went
from client.moves.planner import Plan, Planner, ReplayedStanding
from client.moves.routes import Prediction, Route, Situation
from client.platform.settings import HOME, ClientSettings, Policy
from client.session import pace, reads
from client.session.answers import Answer
from client.session.feed import Feed, FeedState
from client.session.journal import Journal
from client.session.pace import Pace
from client.session.session import NoResponse, Session
from images import ContractSpec
from replay import Operation, Response
from replay.adapters import http
from satchel.errors import NotFoundError
from satchel.ids import OperationNumber, ReplicaId
from tests.client.places import Places
from tests.client.replicas import InProcess, silence
from tests.client.world import World, operations, post
from tests.images.test_manifest import manifest
from tests.needs import requires
from tests.waiting import eventually
from wire import Peer

START = OperationNumber(0)


def make(places: Places, policy: Policy, *, seconds: float = 60.0) -> Session:
    return Session(
        places.journal(),
        stateful=True,
        response_seconds=seconds,
        policy=policy,
        read_only=lambda operation: operation.payload.startswith(b"read"),
        sampled=0,
    )


def stateless(policy: Policy) -> Session:
    return Session(
        Journal(None, None),
        stateful=False,
        response_seconds=60.0,
        policy=policy,
        sampled=0,
    )


def call(session: Session, text: str) -> Answer:
    return session.call(lambda number, time_ns, seed: f"{text} {number}".encode())


def have_executed(replicas: Sequence[InProcess], number: int) -> bool:
    return all(replica.last == number for replica in replicas)


def acquainted(session: Session, *replicas: InProcess) -> None:
    """All joined, and a pace is known of each: the first takes longer, whoever is quicker here."""
    for replica in replicas:
        session.add(replica, START)
    for number in range(1, 4):  # one at a time: a pace is that of single operations
        call(session, "write")
        assert eventually(partial(have_executed, replicas, number))
    assert eventually(lambda: all(f.pace.median() is not None for f in session.feeds()))
    for feed in session.feeds():
        for _ in range(pace.KEPT):
            feed.pace.note(0.03 if feed.name == replicas[0].name else 0.002)


def test_reads_go_to_the_nearest_only_and_writes_to_all(places: Places) -> None:
    session = make(places, "nearest")
    home, near = InProcess(HOME), InProcess("a")
    acquainted(session, home, near)
    answers = [call(session, "read") for _ in range(10)]
    assert {answer.leader for answer in answers} == {"a"}
    assert {answer.number for answer in answers} == {3}
    assert near.reads == [(4, 3)] * 10
    assert home.reads == []
    assert session.journal.last == 3
    assert call(session, "write").number == 4
    assert eventually(lambda: home.executed == near.executed == [1, 2, 3, 4])
    tally = session.tally
    assert tally.answered == 14
    size = Operation(OperationNumber(4), 1, 1, b"read 4").record_size
    assert tally.sent_bytes_if_all - tally.sent_bytes == 10 * size
    session.close()


def test_with_the_policy_all_a_read_is_an_operation_like_any_other(places: Places) -> None:
    session = make(places, "all")
    home, near = InProcess(HOME), InProcess("a")
    for replica in (home, near):
        session.add(replica, START)
    assert call(session, "read").number == 1
    assert eventually(lambda: home.executed == near.executed == [1])
    assert session.tally.sent_bytes == session.tally.sent_bytes_if_all
    session.close()


def test_a_read_shows_every_operation_that_was_numbered_before_it(places: Places) -> None:
    session = make(places, "nearest")
    near = InProcess("a", slow=0.05)
    session.add(near, START)
    writers = [threading.Thread(target=call, args=(session, "write")) for _ in range(6)]
    for writer in writers:
        writer.start()
    assert eventually(lambda: session.journal.last == 6)
    answer = call(session, "read")
    assert answer.number == 6
    ((number, before),) = near.reads
    assert (number, before) == (7, 6)
    for writer in writers:
        writer.join()
    assert near.executed == [1, 2, 3, 4, 5, 6]
    session.close()


def test_a_hedge_asks_the_next_one_when_the_nearest_takes_longer_than_usual(
    places: Places,
) -> None:
    session = make(places, "hedge")
    home, near = InProcess(HOME), InProcess("a")
    acquainted(session, home, near)
    near.gate.clear()
    answer = call(session, "read")
    assert answer.leader == HOME
    near.gate.set()
    assert [number for number, _ in home.reads] == [4]
    assert eventually(lambda: [number for number, _ in near.reads] == [4])
    assert call(session, "write").number == 4
    session.close()


@pytest.mark.parametrize("policy", ["nearest", "hedge"])
def test_a_replica_that_falls_silent_does_not_keep_a_read(places: Places, policy: Policy) -> None:
    session = make(places, policy)
    home, near = InProcess(HOME), InProcess("a", patience=0.3)
    acquainted(session, home, near)
    near.fault = silence("a")
    assert call(session, "read").leader == HOME
    assert eventually(lambda: session.feed("a").state is FeedState.LOST)  # type: ignore[union-attr]
    assert call(session, "read").leader == HOME
    session.close()


def test_a_nearest_that_only_hangs_is_given_up_after_a_while(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "RESCUE_SECONDS", 0.2)
    session = make(places, "nearest")
    home, near = InProcess(HOME), InProcess("a")
    acquainted(session, home, near)
    near.gate.clear()
    assert call(session, "read").leader == HOME
    near.gate.set()
    session.close()


def test_a_read_that_nobody_answers_may_be_asked_again(places: Places) -> None:
    session = make(places, "nearest", seconds=3.0)
    home = InProcess(HOME)
    session.add(home, START)
    home.fault = silence("home")
    with pytest.raises(NoResponse, match="a read before operation 1 got no response") as raised:
        call(session, "read")
    assert "ask again" in raised.value.fix
    home.fault = None
    assert call(session, "read").leader == HOME
    assert session.journal.last == 0
    session.close()


def test_a_read_that_was_asked_of_a_replica_which_returns_is_answered_by_it(
    places: Places,
) -> None:
    session = make(places, "nearest")
    home = InProcess(HOME)
    session.add(home, START)
    home.fault = silence("home")
    threading.Timer(0.3, lambda: setattr(home, "fault", None)).start()
    assert call(session, "read").leader == HOME
    session.close()


def test_one_that_owes_an_answer_is_waited_for_once_and_not_at_each_read(places: Places) -> None:
    session = make(places, "nearest")
    home, near = InProcess(HOME), InProcess("a")
    acquainted(session, home, near)
    near.gate.clear()
    assert call(session, "read").seconds > 0.9
    answers = [call(session, "read") for _ in range(3)]
    assert {answer.leader for answer in answers} == {HOME}
    assert max(answer.seconds for answer in answers) < 0.9
    near.gate.set()
    assert eventually(lambda: call(session, "read").leader == "a")
    session.close()


def test_of_a_stateless_service_everything_may_go_to_the_nearest_only() -> None:
    session = stateless("nearest")
    home, near = InProcess(HOME, stateful=False), InProcess("a", stateful=False)
    home.gate.clear()
    session.add(home, START)
    session.add(near, START)
    call(session, "get")
    call(session, "get")
    asked = len(home.batches)
    assert asked <= 1
    answers = [call(session, "get") for _ in range(10)]
    assert [answer.number for answer in answers] == list(range(3, 13))
    assert {answer.leader for answer in answers} == {"a"}
    assert len(home.batches) == asked
    home.gate.set()
    assert session.tally.sent_bytes * 1.5 < session.tally.sent_bytes_if_all
    session.close()


class InTurn(InProcess):
    """Answers one read for each turn that it is given. begun: the numbers of those it was asked."""

    def __init__(self, name: str) -> None:
        super().__init__(name, stateful=False)
        self.turns = threading.Semaphore(0)
        self.begun: list[int] = []

    def execute(self, operations: Sequence[Operation]) -> list[Response]:
        self.begun += [operation.number for operation in operations]
        assert self.turns.acquire(timeout=20)
        return super().execute(operations)


def test_a_home_that_never_rests_confirms_what_a_stranger_answered_before_it() -> None:
    """Home takes longer than the surrogate, and when it answers the next read is there."""
    session = stateless("all")
    home, near = InTurn(HOME), InTurn("a")
    for replica in (home, near):
        session.add(replica, START)
    answers: list[Answer] = []
    for number in range(1, 11):
        caller = threading.Thread(target=lambda: answers.append(call(session, "get")))
        caller.start()
        assert eventually(lambda n=number: near.begun[-1:] == [n])  # type: ignore[misc]
        if number > 1:
            home.turns.release()
        assert eventually(lambda n=number: home.begun[-1:] == [n])  # type: ignore[misc]
        near.turns.release()
        caller.join(20)
        assert [answer.leader for answer in answers] == ["a"] * number
        assert session.provisional.count == 1
    home.turns.release()
    session.close()


def test_a_replica_has_joined_before_its_first_read_which_may_take_long() -> None:
    session = stateless("all")
    replica = InProcess("a", stateful=False)
    feed = Feed(replica, START, session.assignments, session.events)
    assert session.assignments.reads(feed, 1) == []
    assert feed.joined.is_set()
    session.close()


def test_a_move_of_a_stateless_service_is_remembered_with_its_first_read(tmp_path: Path) -> None:
    session = stateless("all")
    settings = ClientSettings(state=tmp_path)
    planner = Planner(settings, "try", None, ReplayedStanding(session, {}))
    now = Situation(0, None, 1000, None, home=False, near="media")
    route = Prediction(Route.REPLAY, 7.0, {"media": 1000}, "the request")
    feed = session.add(InProcess("a", stateful=False, slow=0.05), START)
    plan = Plan("a", now, [route])
    planner.note(plan, route, Went("a", ReplicaId("a"), Route.REPLAY, 2.0))
    history = History.of(tmp_path, "try")
    assert history.moves() == []
    call(session, "get")
    assert eventually(lambda: len(history.moves()) == 1)
    (made,) = history.moves()
    assert 2.05 <= made.seconds < 60
    assert (made.near, made.predicted) == ("media", 7.0)
    assert (made.replayed, made.replay_seconds) == (1, 0.0)
    call(session, "get")
    assert feed.first_read.result() == pytest.approx(made.seconds - 2.0)
    assert history.moves() == [made]
    session.close()


def test_what_operations_take_without_the_way_is_what_the_nearest_replica_says(
    places: Places, tmp_path: Path
) -> None:
    session = make(places, "all")
    acquainted(session, InProcess(HOME), InProcess("a"))
    settings = ClientSettings(state=tmp_path, surrogates={"b": Peer("b")})
    planner = Planner(settings, "try", None, ReplayedStanding(session, {}))
    assert planner.plan("b", manifest(), media=True).situation.pace == pytest.approx(0.002, rel=0.5)
    session.close()


def test_a_surrogate_that_is_left_while_one_plans_is_no_fault(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LostReplica(InProcess):
        def status(self, **_: float) -> object:
            raise NotFoundError("no such replica")

    session, near = make(places, "all"), LostReplica("a")
    assert session.add(near, START).joined.wait(60)
    there: dict[str, Any] = {"a": near}
    settings = ClientSettings(state=tmp_path, surrogates={"b": Peer("b")})
    planner = Planner(settings, "try", None, ReplayedStanding(session, there))
    feed = session.feed

    def leaving(name: str) -> Feed | None:
        there.pop("a", None)
        return feed(name)

    monkeypatch.setattr(session, "feed", leaving)
    routes = planner.plan("b", manifest(), media=True).routes
    assert [route.route for route in routes] == [Route.REPLAY]
    session.close()


def test_the_pace_of_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Pace()
    assert seen.median() is None
    assert seen.percentile95() is None
    for seconds in range(1, 6):
        seen.note(seconds)
    assert seen.percentile95() == 5
    for seconds in range(6, 41):
        seen.note(seconds)
    assert seen.median() == 20.5
    assert seen.percentile95() == 38
    monkeypatch.setattr(pace, "FRESH_SECONDS", 0.0)
    time.sleep(0.001)
    assert seen.median() is None


@pytest.mark.parametrize(
    ("line", "paths", "expected"),
    [
        ("GET /pages", ["/pages"], True),
        ("HEAD /pages/7?q=x/../y%20", ["/pages"], True),
        ("GET /pages2", ["/pages"], False),
        ("GET /", ["/"], True),
        ("GET /anything/below", ["/"], True),
        ("POST /pages", ["/pages"], False),
        ("DELETE /pages/1", ["/"], False),
        ("GET /pages/../notes", ["/pages"], False),
        ("GET /pages/%2e%2e/notes", ["/pages"], False),
        ("GET /p%61ges/caf%C3%A9", ["/pages"], True),
        ("GET http://127.0.0.1/pages/7", ["/pages"], True),
        ("GET /pages", [], False),
    ],
)
def test_what_a_recipe_declares_read_only(line: str, paths: list[str], expected: bool) -> None:
    payload = f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    operation = Operation(OperationNumber(1), 1, 1, payload)
    assert http.changes_nothing(operation, paths) is expected
    judge = reads.read_only(ContractSpec(read_only=tuple(paths)))
    assert judge(operation) is expected
    assert not reads.read_only(ContractSpec(adapter="none", read_only=tuple(paths)))(operation)


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
def test_a_session_with_the_policy_nearest(world: World) -> None:
    world.home.launch("notes")
    world.home.carry("notes", world.stick)
    runner = world.runner(policy="nearest")
    url = world.proxy(runner)

    def get() -> httpx2.Response:
        return httpx2.get(url + "/pages/1", timeout=30, trust_env=False)

    first = get()
    assert first.headers["X-Satchel-Leader"] == "home"
    assert first.text.startswith("read 0 ")
    runner.move("a")
    for _ in range(3):
        assert post(url).status_code == 200
    answers = [get() for _ in range(5)]
    assert {answer.headers["X-Satchel-Operation"] for answer in answers} == {"3"}
    assert {answer.text.split()[1] for answer in answers} == {"3"}
    history = answers[0].text.split()[2]
    assert {answer.text.split()[2] for answer in answers} == {history}
    status = runner.status()
    assert status["last_operation"] == 3
    assert status["answered"] == 9
    assert status["policy"] == "nearest"
    assert status["sent_bytes"] < status["sent_bytes_if_all"]
    assert operations(runner).wait_stable(60)
    assert eventually(lambda: world.home.executed("notes") == 3)
    world.spots["a"].crash()
    assert get().headers["X-Satchel-Leader"] == "home"
    assert get().text.split()[2] == history
    assert runner.status()["diverged"] == 0
