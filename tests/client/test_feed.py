# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The answers of a batch come one by one, and may end early."""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from client.session.feed import FeedState
from client.session.session import Session
from replay import Operation, Response
from satchel.errors import StateError
from satchel.ids import OperationNumber
from tests.client.places import Places
from tests.client.replicas import InProcess
from tests.client.test_session import START, call, make
from tests.waiting import eventually


class OneByOne(InProcess):
    """Answers each operation when a test lets it. ends_at: before that one its answers end, and
    asked for it first it says why, until that is set to 0."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.let = threading.Semaphore(0)
        self.ends_at = 0

    def execute(self, operations: Sequence[Operation]) -> Iterator[Response]:  # type: ignore[override]
        for operation in operations:
            assert self.let.acquire(timeout=20)
            if operation.number == self.ends_at:
                if operation is not operations[0]:
                    return
                raise StateError(f"{self.name} cannot execute {operation.number}")
            yield from super().execute([operation])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    places = Places(tmp_path)
    made = make(places)
    yield made
    made.close()
    places.close()


def many(session: Session, pool: ThreadPoolExecutor, count: int) -> None:
    """So many calls at once, which are in the journal."""
    for _ in range(count):
        pool.submit(call, session)
    assert eventually(lambda: session.journal.last == count)


def has_answered(session: Session, number: int) -> bool:
    return session.tally.answered == number


def test_an_operation_is_answered_while_the_next_of_its_batch_is_under_way(
    session: Session,
) -> None:
    near = OneByOne("a")
    with ThreadPoolExecutor(10) as pool:
        many(session, pool, 10)
        session.add(near, START)
        for number in range(1, 11):
            near.let.release()
            assert eventually(partial(has_answered, session, number))
    assert near.executed == list(range(1, 11))


def test_what_has_no_answer_when_they_end_is_asked_for_again_and_the_reason_is_heard(
    session: Session,
) -> None:
    near = OneByOne("a")
    near.ends_at = 3
    with ThreadPoolExecutor(5) as pool:
        many(session, pool, 5)
        feed = session.add(near, START)
        near.let.release(4)
        assert eventually(lambda: "cannot execute 3" in str(feed.error))
        assert eventually(lambda: session.tally.answered == 2)
        near.ends_at = 0
        near.let.release(20)
    assert session.tally.answered == 5
    assert near.executed == [1, 2, 3, 4, 5]


def test_why_a_replica_is_in_quarantine_is_known_after_its_later_answers(
    session: Session,
) -> None:
    liar = OneByOne("a")
    liar.says = lambda operation: b"a lie"
    session.add(InProcess("home"), START)
    with ThreadPoolExecutor(5) as pool:
        many(session, pool, 5)
        feed = session.add(liar, START)
        liar.let.release()
        assert eventually(lambda: feed.state is FeedState.QUARANTINED)
        liar.let.release(4)
    assert feed.join(20)
    assert "otherwise than home" in str(feed.error)


@pytest.mark.parametrize("number", [0, 2, 2**40])
def test_a_replica_that_answers_what_it_was_not_asked_is_lost(
    session: Session, number: int
) -> None:
    class Stray(InProcess):
        def execute(self, operations: Sequence[Operation]) -> list[Response]:
            return [Response(OperationNumber(number), b"")]

    session.add(InProcess("home"), START)
    feed = session.add(Stray("a"), START)
    assert call(session).leader == "home"
    assert eventually(lambda: feed.state is FeedState.LOST)
    assert f"answers operation {number}" in str(feed.error)
    assert feed.cursor == 0


def test_one_that_is_ended_under_an_operation_is_not_lost(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a move, where the operation under way there ends with the replica."""
    caplog.set_level(logging.INFO)
    old = InProcess("a", patience=-1.0)  # none: a fault would be the end
    old.gate.clear()
    session.add(InProcess("home"), START)
    feed = session.add(old, START)
    assert call(session).leader == "home"
    assert eventually(lambda: old.batches)
    session.drop("a", timeout=0.0)
    old.fault = StateError("replica notes-1 is stopped")
    old.gate.set()
    assert feed.join(20)
    assert feed.state is FeedState.ENDED
    assert "a: ended" in caplog.text
    assert "is lost" not in caplog.text
