# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replica that gets further is waited for, however long that takes; else it is given up."""

import time
from collections.abc import Iterator, Sequence

import pytest

from client.platform.settings import HOME
from client.session import joining
from client.session.feed import Feed
from client.session.joining import Standstill, await_joined
from client.session.session import Session
from replay import Operation, Response
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.ids import OperationNumber
from tests.client.places import Places
from tests.client.replicas import InProcess

START = OperationNumber(0)


class Tired(InProcess):
    """Takes its time for each operation, also of a batch."""

    def execute(self, operations: Sequence[Operation]) -> Iterator[Response]:  # type: ignore[override]
        for operation in operations:
            time.sleep(self.slow)
            yield from super().execute([operation])


@pytest.fixture
def session(places: Places) -> Iterator[Session]:
    """With twenty operations that home has executed."""
    made = Session(places.journal(), stateful=True, response_seconds=60.0)
    made.add(InProcess(HOME), START)
    for number in range(1, 21):
        made.call(lambda *_, n=number: b"write %d" % n)
    yield made
    made.close()


def nothing() -> None: ...


def test_one_that_is_slow_is_waited_for(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "STANDSTILL_SECONDS", 3.0)
    monkeypatch.setattr(joining, "JOIN_POLL_SECONDS", 0.05)
    slow = Tired("a", slow=0.4)
    began = time.monotonic()
    await_joined(session.add(slow, START), nothing)
    assert time.monotonic() - began > 3.0
    assert slow.last >= 15


def waited_for(feed: Feed) -> SatchelError:
    with pytest.raises(UnavailableError, match="the replica at a does not catch up") as raised:
        await_joined(feed, nothing)
    return raised.value


def test_one_that_gets_no_further_is_given_up(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "STANDSTILL_SECONDS", 0.3)
    monkeypatch.setattr(joining, "JOIN_POLL_SECONDS", 0.05)
    stuck = InProcess("a", patience=60.0)
    stuck.gate.clear()
    error = waited_for(session.add(stuck, START))
    assert "no further than operation 0" in str(error)
    stuck.gate.set()


def test_one_that_is_lost_is_given_up_at_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "JOIN_POLL_SECONDS", 0.05)
    lost = InProcess("a")
    lost.gate.clear()
    feed = session.add(lost, START)
    feed.give_up(StateError("its host is gone"))
    assert "its host is gone" in str(waited_for(feed))
    lost.gate.set()


def test_whoever_waits_may_end_it(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOIN_POLL_SECONDS", 0.05)
    stuck = InProcess("a")
    stuck.gate.clear()

    def over() -> None:
        raise StateError("the session has ended")

    with pytest.raises(StateError, match="the session has ended"):
        await_joined(session.add(stuck, START), over)
    stuck.gate.set()


def test_a_standstill_begins_anew_with_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    standstill = Standstill()
    for place in ({"media": 1}, {"media": 2}, {"media": 2, "home": 1}):
        now[0] += joining.STANDSTILL_SECONDS
        assert not standstill.at(place)
    now[0] += joining.STANDSTILL_SECONDS
    assert not standstill.at({"media": 2, "home": 1})
    now[0] += 1.0
    assert standstill.at({"media": 2, "home": 1})
