# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Every operation goes to every replica in order; the first response is the answer."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace

import pytest

from client.platform.settings import HOME
from client.session import feed as feeds
from client.session.answers import Answer
from client.session.comparison import Divergence
from client.session.feed import FeedState
from client.session.journal import Journal
from client.session.session import NoResponse, NotStable, Session
from satchel.errors import (
    CapacityError,
    ConflictError,
    NotFoundError,
    SatchelError,
    StateError,
)
from satchel.ids import OperationNumber
from tests.client.places import Places
from tests.client.replicas import InProcess, silence
from tests.waiting import eventually
from wire import ErrorReport

START = OperationNumber(0)


def make(places: Places, *, stateful: bool = True, seconds: float = 60.0) -> Session:
    journal = places.journal() if stateful else Journal(None, None)
    return Session(journal, stateful=stateful, response_seconds=seconds)


@pytest.fixture
def session(places: Places) -> Iterator[Session]:
    made = make(places)
    yield made
    made.close()


def call(session: Session, text: str = "x") -> Answer:
    return session.call(lambda number, time_ns, seed: f"{number} {text}".encode())


def state(session: Session, name: str) -> FeedState | None:
    feed = session.feed(name)
    return feed.state if feed else None


def test_the_first_response_wins_and_every_replica_executes_everything(session: Session) -> None:
    home, near = InProcess(HOME), InProcess("a")
    home.gate.clear()
    session.add(home, START)
    session.add(near, START)
    answers = [call(session) for _ in range(10)]
    assert [a.payload for a in answers] == [f"did {n} x".encode() for n in range(1, 11)]
    assert {a.leader for a in answers} == {"a"}
    assert home.executed == []
    home.gate.set()
    assert eventually(lambda: home.executed == near.executed == list(range(1, 11)))
    assert eventually(lambda: session.tally.later_responses == 10)
    assert sum(session.tally.first_responses.values()) == 10
    assert session.tally.diverged == 0


def test_a_replica_that_lags_catches_up_in_batches(session: Session) -> None:
    session.add(InProcess(HOME), START)
    for _ in range(100):
        call(session)
    late = InProcess("a", last=20)
    feed = session.add(late, OperationNumber(20))
    assert feed.joined.wait(60)
    assert eventually(lambda: late.executed == list(range(21, 101)))
    assert late.batches[:3] == [32, 32, 16]
    assert feed.state is FeedState.JOINED


def test_a_replica_joins_a_session_that_never_rests(session: Session) -> None:
    session.add(InProcess(HOME), START)
    busy = threading.Event()

    def work() -> None:
        while not busy.is_set():
            call(session)

    worker = threading.Thread(target=work)
    worker.start()
    feed = session.add(InProcess("a"), START)
    assert feed.joined.wait(60)
    busy.set()
    worker.join()


def test_a_replica_may_say_where_it_is(session: Session) -> None:
    session.add(InProcess(HOME), START)
    for _ in range(5):
        call(session)
    near = InProcess("a", last=3)
    session.add(near, None)
    assert eventually(lambda: near.executed == [4, 5])


def test_a_silent_replica_returns_and_executes_what_it_missed(session: Session) -> None:
    home, near = InProcess(HOME), InProcess("a", patience=30)
    session.add(home, START)
    session.add(near, START)
    call(session)
    near.fault = silence("a")
    for _ in range(20):
        assert call(session).leader == HOME
    assert eventually(lambda: state(session, "a") is FeedState.SILENT)
    feed = session.feed("a")
    assert feed is not None
    assert "a does not answer" in str(feed.error)
    near.fault = None
    assert eventually(lambda: near.executed == list(range(1, 22)))
    assert eventually(lambda: state(session, "a") is FeedState.JOINED)
    assert feed.error is None


def test_a_response_that_was_lost_on_the_way_is_asked_for_again(session: Session) -> None:
    home = InProcess(HOME)
    home.fault, home.after = silence(), True
    session.add(home, START)

    def mend() -> None:
        assert eventually(lambda: home.batches and home.positions)
        home.fault = None

    mending = threading.Thread(target=mend)
    mending.start()
    answer = call(session)
    mending.join()
    assert answer.payload == b"did 1 x"
    assert home.executed == [1]
    assert len(home.batches) > 1


def test_a_replica_that_stays_silent_is_lost_and_the_others_go_on(session: Session) -> None:
    session.add(InProcess(HOME), START)
    near = InProcess("a", patience=0.3)
    session.add(near, START)
    near.fault = silence()
    call(session)
    assert eventually(lambda: state(session, "a") is FeedState.LOST)
    asked = len(near.batches) + near.positions
    assert call(session).leader == HOME
    assert len(near.batches) + near.positions == asked


def test_patience_begins_anew_after_every_answer(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(feeds, "time", SimpleNamespace(monotonic=lambda: now))
    session.add(InProcess(HOME), START)
    near = InProcess("a", patience=5.0)
    session.add(near, START)
    for _ in range(4):
        near.fault = silence()
        call(session)
        assert eventually(lambda: state(session, "a") is FeedState.SILENT)
        now += 4.0
        near.fault = None
        assert eventually(lambda: state(session, "a") is FeedState.JOINED)
    assert near.executed == [1, 2, 3, 4]


def test_home_whose_disk_is_full_takes_part_again_when_there_is_room(session: Session) -> None:
    home = InProcess(HOME)
    session.add(home, START)
    session.add(InProcess("a"), START)
    call(session)
    home.fault = CapacityError("no room for an operation in home's log")
    assert call(session).leader == "a"
    assert eventually(lambda: state(session, HOME) is FeedState.SILENT)
    home.fault = None
    assert eventually(lambda: home.executed == [1, 2])
    assert eventually(lambda: state(session, HOME) is FeedState.JOINED)


def test_a_replica_that_ended_is_lost_at_once(session: Session) -> None:
    session.add(InProcess(HOME), START)
    near = InProcess("a", patience=60)
    session.add(near, START)
    near.fault = NotFoundError("no such replica")
    call(session)
    assert eventually(lambda: state(session, "a") is FeedState.LOST, 30.0)


def test_a_replica_that_is_elsewhere_than_thought_is_asked_where(session: Session) -> None:
    session.add(InProcess(HOME), START)
    for _ in range(6):
        call(session)
    near = InProcess("a", last=2)
    session.add(near, OperationNumber(4))
    assert eventually(lambda: near.executed == [3, 4, 5, 6])


def test_a_replica_in_a_wrong_state_for_good_is_lost_and_not_asked_all_the_time(
    session: Session,
) -> None:
    near = InProcess("a", patience=1.0)
    near.fault = StateError("it is failed")
    session.add(InProcess(HOME), START)
    session.add(near, START)
    call(session)
    assert eventually(lambda: state(session, "a") is FeedState.LOST)
    assert len(near.batches) + near.positions < 12


def test_a_replica_whose_operations_were_cut_is_lost_and_says_so(places: Places) -> None:
    session = make(places)
    session.journal.restart(OperationNumber(10))
    feed = session.add(InProcess("a", last=4), OperationNumber(4))
    assert eventually(lambda: feed.state is FeedState.LOST)
    assert "newer checkpoint" in str(feed.error)
    session.close()


def test_a_bug_in_an_endpoint_is_told_and_does_not_stop_the_session(session: Session) -> None:
    near = InProcess("a")
    near.says = lambda op: 1 / 0  # type: ignore[assignment,return-value]
    session.add(InProcess(HOME), START)
    feed = session.add(near, START)
    call(session)
    assert eventually(lambda: feed.state is FeedState.LOST)
    assert "ZeroDivisionError" in str(feed.error)


def test_an_idle_replica_hears_from_us_and_we_hear_when_it_is_gone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "HEARTBEAT_SECONDS", 0.2)
    near = InProcess("a", patience=0.3)
    session.add(near, START)
    assert eventually(lambda: near.positions > 2)
    near.fault = silence()
    assert eventually(lambda: state(session, "a") is FeedState.LOST)


def test_answers_that_differ_are_told_and_home_is_believed(session: Session) -> None:
    home, liar = InProcess(HOME), InProcess("a")
    liar.says = lambda op: b"a lie" if op.number == 2 else b"did " + op.payload
    home.gate.clear()
    session.add(home, START)
    session.add(liar, START)
    call(session)
    call(session)
    home.gate.set()
    assert eventually(lambda: state(session, "a") is FeedState.QUARANTINED)
    assert session.tally.divergences == [{"operation": 2, "replicas": ["a", HOME]}]
    assert call(session).leader == HOME
    feed = session.feed("a")
    assert feed is not None
    assert "otherwise than home" in str(feed.error)
    assert session.refusal is None
    assert 3 not in liar.executed


def test_home_that_answers_first_tells_on_a_liar_too(session: Session) -> None:
    home, liar = InProcess(HOME), InProcess("a")
    liar.says = lambda op: b"a lie"
    liar.gate.clear()
    session.add(home, START)
    session.add(liar, START)
    assert call(session).payload == b"did 1 x"
    liar.gate.set()
    assert eventually(lambda: state(session, "a") is FeedState.QUARANTINED)
    assert state(session, HOME) is FeedState.JOINED


def test_whoever_differs_is_found_when_home_answers_last(places: Places) -> None:
    session = make(places)
    home, honest, liar = InProcess(HOME), InProcess("a"), InProcess("b")
    liar.says = lambda op: b"a lie"
    home.gate.clear()
    liar.gate.clear()
    for replica in (home, honest, liar):
        session.add(replica, START)
    assert call(session).leader == "a"
    liar.gate.set()
    assert eventually(lambda: session.tally.diverged == 1)
    assert state(session, "b") is FeedState.JOINED
    home.gate.set()
    assert eventually(lambda: state(session, "b") is FeedState.QUARANTINED)
    assert state(session, "a") is FeedState.JOINED
    session.close()


def test_what_a_quarantined_replica_said_is_held_against_nobody(places: Places) -> None:
    told: list[Divergence] = []
    session = Session(
        places.journal(), stateful=True, response_seconds=60.0, on_quarantine=told.append
    )
    home, liar = InProcess(HOME), InProcess("a")
    liar.says = lambda op: b"a lie"
    home.gate.clear()
    session.add(home, START)
    session.add(liar, START)
    for _ in range(3):
        call(session)
    home.gate.set()
    assert eventually(lambda: state(session, "a") is FeedState.QUARANTINED)
    session.add(InProcess("a"), START)
    call(session)
    assert eventually(lambda: home.executed == [1, 2, 3, 4])
    assert eventually(lambda: session.tally.later_responses >= 4)
    assert session.tally.diverged == len(told) == 1
    assert told[0].operation == 1
    assert (told[0].said.payload, told[0].expected.payload) == (b"a lie", b"did 1 x")
    assert state(session, "a") is FeedState.JOINED
    session.close()


def test_without_home_a_difference_is_told_and_both_go_on(session: Session) -> None:
    one, other = InProcess("a"), InProcess("b")
    other.says = lambda op: b"other"
    other.gate.clear()
    session.add(one, START)
    session.add(other, START)
    call(session)
    other.gate.set()
    assert eventually(lambda: session.tally.diverged == 1)
    assert state(session, "b") is FeedState.JOINED


def test_no_response_says_who_is_silent_and_that_it_is_logged(places: Places) -> None:
    session = make(places, seconds=0.3)
    home = InProcess(HOME)
    home.fault = silence("home")
    session.add(home, START)
    with pytest.raises(NoResponse, match="operation 1 got no response in 0 s") as raised:
        call(session)
    assert "home silent; home: home does not answer" in raised.value.why
    assert "do not send it again" in raised.value.fix
    home.fault = None
    assert eventually(lambda: home.executed == [1])
    session.close()


def test_without_any_replica_there_is_no_response(places: Places) -> None:
    session = make(places, seconds=0.1)
    with pytest.raises(NoResponse, match="replicas: none"):
        call(session)
    session.close()


def test_beside_failed_media_an_operation_is_acknowledged_when_it_is_stable(
    places: Places,
) -> None:
    session = make(places, seconds=2.0)
    home, near = InProcess(HOME), InProcess("a")
    home.acknowledge = session.acknowledge
    session.add(home, START)
    session.add(near, START)
    assert call(session).payload != b""
    places.pull()
    home.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call, session)
        assert eventually(lambda: near.executed == [1, 2])
        assert not wait([calling], 0.3).done
        home.gate.set()
        answer = calling.result(60)
    assert answer.stable
    assert answer.leader == "a"
    home.gate.clear()
    with pytest.raises(NotStable, match="executed, but home did not get it"):
        call(session)
    home.gate.set()
    session.close()


def test_an_answer_says_whether_home_has_the_operation(session: Session) -> None:
    home = InProcess(HOME)
    home.acknowledge = session.acknowledge
    session.add(home, START)
    assert call(session).stable
    session.drop(HOME)
    session.add(InProcess("a", last=1), OperationNumber(1))
    assert not call(session).stable
    assert not session.wait_stable(0.05)
    session.acknowledge(OperationNumber(2))
    assert session.wait_stable(60)


def test_a_service_that_another_client_took_over_accepts_nothing_more(session: Session) -> None:
    home, near = InProcess(HOME), InProcess("a")
    session.add(home, START)
    session.add(near, START)
    call(session)
    assert eventually(lambda: home.executed == [1])
    home.gate.clear()
    home.fault = ConflictError("service notes is held by client phone")
    assert call(session).leader == "a"
    home.gate.set()
    assert eventually(lambda: session.refusal)
    with pytest.raises(ConflictError, match="held by client phone"):
        call(session)
    assert session.journal.last == 2


def test_a_call_that_waits_ends_when_the_session_does(places: Places) -> None:
    session = make(places, seconds=60)
    home = InProcess(HOME)
    home.gate.clear()
    session.add(home, START)
    errors: list[SatchelError] = []

    def work() -> None:
        try:
            call(session)
        except SatchelError as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert eventually(lambda: home.batches)
    assert worker.is_alive()
    session.close()
    worker.join(30)
    assert not home.gate.is_set()
    assert isinstance(errors[0], StateError)
    with pytest.raises(StateError, match="has ended"):
        call(session)
    home.gate.set()


def test_calls_at_once_are_executed_in_order_and_answered_each(session: Session) -> None:
    home, near = InProcess(HOME, slow=0.002), InProcess("a")
    session.add(home, START)
    session.add(near, START)
    answers: list[Answer] = []

    def work() -> None:
        answers.extend(call(session, "many") for _ in range(20))

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(a.number for a in answers) == list(range(1, 161))
    assert all(a.payload == f"did {a.number} many".encode() for a in answers)
    assert eventually(lambda: home.executed == near.executed == list(range(1, 161)))
    assert session.tally.diverged == 0


def test_a_replica_that_is_added_again_takes_the_place_of_the_old_one(session: Session) -> None:
    first, second = InProcess("a"), InProcess("a")
    session.add(first, START)
    call(session)
    session.add(second, START)
    call(session)
    assert eventually(lambda: second.executed == [1, 2])
    assert first.executed in ([1], [1, 2])
    assert len(session.feeds()) == 1
    assert session.tally.diverged == 0


def test_a_stateless_service_is_spared_what_was_answered_and_remembers_nothing(
    places: Places,
) -> None:
    session = make(places, stateful=False)
    home, near = InProcess(HOME, stateful=False), InProcess("a", stateful=False)
    home.gate.clear()
    session.add(home, START)
    session.add(near, START)
    for _ in range(20):
        call(session)
    home.gate.set()
    assert len(near.executed) == 20
    assert sum(home.batches) == 1
    assert session.journal.last == 0
    late = InProcess("b", stateful=False)
    session.drop("a")
    session.add(late, START)
    assert call(session).leader in ("b", HOME)
    session.close()


def test_who_answers_a_stateless_call_otherwise_than_home_is_in_quarantine() -> None:
    told: list[Divergence] = []
    session = Session(
        Journal(None, None), stateful=False, response_seconds=60.0, on_quarantine=told.append
    )
    home, liar = InProcess(HOME, stateful=False), InProcess("a", stateful=False)
    # Home is sent nothing that is answered already, so the lie waits until home has the call.
    liar.says = lambda op: b"a lie" if eventually(lambda: home.batches) else b"home was not asked"
    home.gate.clear()
    session.add(home, START)
    session.add(liar, START)
    assert call(session).payload == b"a lie"
    home.gate.set()
    assert eventually(lambda: state(session, "a") is FeedState.QUARANTINED)
    (divergence,) = told
    assert divergence.feed.name == "a"
    assert divergence.asked is not None
    assert divergence.asked.payload == b"1 x"
    assert (divergence.said.payload, divergence.expected.payload) == (b"a lie", b"did 1 x")
    assert call(session).payload == b"did 2 x"
    assert session.tally.diverged == 1
    session.close()


def test_a_stateless_call_waits_for_any_replica(places: Places) -> None:
    session = make(places, stateful=False)
    silent, near = InProcess(HOME, stateful=False), InProcess("a", stateful=False)
    silent.gate.clear()
    session.add(silent, START)
    session.add(near, START)
    assert [call(session).leader for _ in range(3)] == ["a"] * 3
    silent.gate.set()
    session.close()


def test_close_leaves_no_thread(places: Places) -> None:
    session = make(places)
    for name in ("a", "b", HOME):
        session.add(InProcess(name), START)
    call(session)
    session.close()
    assert eventually(
        lambda: not any(thread.name.startswith("feed-") for thread in threading.enumerate())
    )


def test_a_home_whose_service_does_not_run_is_told_with_the_remedy(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs were left without an answer until the end of their patience."""
    monkeypatch.setattr("client.session.session.DOWN_SECONDS", 0.3)
    home = InProcess(HOME, patience=float("inf"))
    home.fault = StateError("notes is not running at home", fix="`satchel-home launch notes`")
    session.add(home, START)
    with pytest.raises(NoResponse, match=r"got no response: notes is not.*launch notes` at home"):
        call(session)
    with pytest.raises(NoResponse, match=r"no replica can answer.*launch notes`") as told:
        call(session)
    assert ErrorReport.of(told.value).status == 503
    assert session.journal.last == 1
    home.fault = None
    assert eventually(lambda: home.executed == [1])
    assert call(session).payload == b"did 2 x"
