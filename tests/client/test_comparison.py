# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who answered otherwise than home, in whatever order the answers come; in bounded memory."""

import itertools
import threading

import pytest

from client.platform.settings import HOME
from client.session import comparison
from client.session.comparison import Comparison, Divergence
from client.session.feed import EventQueue, Feed
from client.session.reads import PendingRead
from replay import Operation, Response
from satchel.ids import OperationNumber
from tests.client.replicas import InProcess


class Nothing:
    """No work."""

    def operations(self, feed: Feed, limit: int) -> list[Operation]:
        return []

    def reads(self, feed: Feed, limit: int) -> list[PendingRead]:
        return []

    def samples(self, feed: Feed, operations: object) -> list[PendingRead]:
        return []


def feed(name: str) -> Feed:
    events = EventQueue(threading.RLock(), lambda event: None)
    return Feed(InProcess(name), OperationNumber(0), Nothing(), events)


def said(text: str, number: int = 1) -> Response:
    return Response(OperationNumber(number), text.encode())


@pytest.mark.parametrize("order", list(itertools.permutations(["home", "honest", "liar"])))
def test_the_liar_is_found_in_every_order(order: tuple[str, ...]) -> None:
    feeds = {"home": feed(HOME), "honest": feed("a"), "liar": feed("b")}
    answers = Comparison(HOME)
    found: list[Divergence] = []
    for who in order:
        later, divergences = answers.add(feeds[who], said("lie" if who == "liar" else "truth"))
        assert later == (who != order[0])
        found += divergences
    against_home = [d for d in found if d.believed is feeds["home"]]
    assert [d.feed for d in against_home] == [feeds["liar"]]
    assert (against_home[0].said.payload, against_home[0].expected.payload) == (b"lie", b"truth")


def test_a_repeated_answer_says_nothing_new() -> None:
    answers, home, near = Comparison(HOME), feed(HOME), feed("a")
    assert answers.add(near, said("x")) == (False, [])
    assert answers.add(near, said("y")) == (False, [])
    assert answers.add(home, said("x")) == (True, [])


def test_whom_nobody_trusts_is_forgotten() -> None:
    answers, home, near, other = Comparison(HOME), feed(HOME), feed("a"), feed("b")
    answers.add(near, said("lie"))
    answers.forget(near)
    assert answers.add(other, said("x")) == (False, [])
    assert answers.add(home, said("x")) == (True, [])


def test_of_old_answers_the_digests_are_kept_and_of_older_ones_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "PAYLOAD_BYTES_KEPT", 1000)
    monkeypatch.setattr(comparison, "OPERATIONS_KEPT", 8)
    answers, home, near = Comparison(HOME), feed(HOME), feed("a")
    for number in range(1, 11):
        answers.add(home, said("t" * 300, number))
    ((divergence,),) = (answers.add(near, said("lie", number))[1] for number in (4,))
    assert divergence.expected.payload is None
    assert divergence.expected.digest == said("t" * 300).digest
    ((whole,),) = (answers.add(near, said("lie", number))[1] for number in (10,))
    assert whole.expected.payload == b"t" * 300
    assert answers.add(near, said("lie", 2)) == (False, [])


def test_one_that_replays_a_long_log_is_compared_as_soon_as_it_comes_to_what_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison, "OPERATIONS_KEPT", 8)
    answers, home, near = Comparison(HOME), feed(HOME), feed("a")
    for number in range(1, 31):
        answers.add(home, said("truth", number))
    found = [answers.add(near, said("lie", number)) for number in range(1, 31)]
    assert [later for later, _ in found] == [False] * 22 + [True] * 8
    assert [[d.operation for d in told] for _, told in found[22:]] == [[n] for n in range(23, 31)]
