# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Services that do not do the same twice, and what is said of them."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replay import AgentChannel, Cause, Operation, Response, adapters, examine
from replay.diagnosis import ResponseEvidence, judge
from satchel.ids import OperationNumber
from tests.replay.agents import running_agent

MADE = itertools.count()


def operation(number: int = 1) -> Operation:
    return Operation(OperationNumber(number), time.time_ns(), number * 7, b"ask %d" % number)


class Scripted:
    """Answers operation 3 in its own way. network: whether it looks beyond the guest for it."""

    def __init__(self, says: Callable[[Operation, int], bytes], *, network: bool = False) -> None:
        self._says = says
        self._mine = next(MADE)
        self._network = network
        self._sent = 0

    def execute(self, asked: Operation) -> Response:
        if asked.number != 3:
            return Response(asked.number, b"as always")
        self._sent += self._network
        return Response(asked.number, self._says(asked, self._mine))

    def sent(self) -> int:
        return self._sent


class Guest:
    """A service behind an agent."""

    def __init__(self, channel: AgentChannel) -> None:
        self._channel = channel

    def execute(self, asked: Operation) -> Response:
        raw = self._channel.execute(asked).payload
        return Response(asked.number, adapters.http.normalise(raw, asked))

    def sent(self) -> int:
        return 0


def request(number: int, method: str, path: str) -> Operation:
    """An operation of now: these agents do not set the host's clock."""
    now, seed = time.time_ns(), number * 7
    payload = adapters.http.encode(method, path, [], b"", number=number, time_ns=now, seed=seed)
    return Operation(OperationNumber(number), now, seed, payload)


def clock(asked: Operation, mine: int) -> bytes:
    return b"it is %.6f now" % (asked.time_ns / 1e9 + mine / 1000)


def calendar(asked: Operation, mine: int) -> bytes:
    moment = time.gmtime(asked.time_ns // 10**9 + mine % 100)
    return time.strftime('{"now": "%Y-%m-%d %H:%M:%S"}', moment).encode()


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        (clock, Cause.TIME),
        (calendar, Cause.TIME),
        (lambda asked, mine: b"token %064x" % (mine * 2**200 + 12345), Cause.RANDOMNESS),
        (lambda asked, mine: b"roll %d" % (mine % 5 + 7), Cause.RANDOMNESS),
        (lambda asked, mine: b"b a c" if mine % 2 else b"a b c", Cause.THREAD_ORDER),
        (lambda asked, mine: b"odd" if mine % 2 else b"even", Cause.CHANCE),
    ],
)
def test_the_first_difference_and_its_cause(
    says: Callable[[Operation, int], bytes], cause: Cause
) -> None:
    @contextmanager
    def fresh() -> Iterator[Scripted]:
        yield Scripted(says)

    found = examine([operation(n) for n in range(1, 6)], fresh)
    assert found is not None
    assert found.operation.number == 3
    assert found.first != found.second
    assert found.cause is cause, found.evidence


def test_what_leaves_the_guest_is_told_first() -> None:
    @contextmanager
    def fresh() -> Iterator[Scripted]:
        yield Scripted(lambda asked, mine: b"fetched %d" % mine, network=True)

    found = examine([operation(n) for n in range(1, 4)], fresh)
    assert found is not None
    assert (found.cause, found.evidence[:12]) == (Cause.NETWORK, "the guest se")


def test_a_service_that_does_the_same_twice_has_no_difference() -> None:
    made = []

    @contextmanager
    def fresh() -> Iterator[Scripted]:
        made.append(1)
        yield Scripted(lambda asked, mine: b"%d" % asked.seed)

    told: list[tuple[int, int]] = []
    log = [operation(n) for n in range(1, 6)]
    assert examine(log, fresh, lambda done, total: told.append((done, total))) is None
    assert told == [(n, 5) for n in range(1, 6)]
    assert len(made) == 2


def test_a_number_that_is_no_moment_is_not_taken_for_one() -> None:
    seen = ResponseEvidence(
        b"took 13 steps", b"took 17 steps", b"took 19 steps", b"took 11 steps", 0
    )
    assert judge(operation(), seen)[0] is Cause.RANDOMNESS


def test_a_real_service_is_seen_through(short_path: Path) -> None:
    """Real agents, a real service, real clocks and kernels: two cores that are woken together read
    the same microsecond in one of three calls, so each thing is asked for ten times."""
    folders = (short_path / str(n) for n in itertools.count())

    @contextmanager
    def fresh() -> Iterator[Guest]:
        folder = next(folders)
        folder.mkdir()
        with running_agent(folder) as agent, agent.connect() as channel:
            channel.wait_ready(20)
            yield Guest(channel)

    for path, cause in (
        ("/clock", Cause.TIME),
        ("/urandom", Cause.RANDOMNESS),
        ("/threads", Cause.THREAD_ORDER),
    ):
        log = [request(1, "POST", "/add"), *(request(n, "GET", path) for n in range(2, 12))]
        found = examine(log, fresh)
        assert found is not None
        assert found.operation.number > 1
        assert found.cause == cause, found.evidence
