# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Moves under load: every operation once and in order, whatever is lost on the way."""

import dataclasses
import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from client.moves.mover import Mover
from client.moves.replicas import Replicas
from client.moves.routes import Route
from client.places.surrogate import Surrogate
from client.service import ServiceSession
from client.session.feed import FINAL
from satchel.errors import UnavailableError
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.waiting import eventually
from wire import HandoverState

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

WORKERS = 4
SOME = 20


class Load:
    """Programs that use a service at once; each sees how many operations there were, by each
    answer of its own."""

    def __init__(self, url: str) -> None:
        self.seen: list[list[int]] = [[] for _ in range(WORKERS)]
        self.failures: list[str] = []
        self._url = url
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(own,)) for own in self.seen]
        for thread in self._threads:
            thread.start()

    @property
    def answered(self) -> int:
        return sum(len(own) for own in self.seen)

    def more(self) -> None:
        """Returns when SOME more were answered."""
        before = self.answered
        assert eventually(lambda: self.answered >= before + SOME)

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _work(self, own: list[int]) -> None:
        while not self._ending.is_set():
            answer = post(self._url)
            if answer.status_code != 200:
                self.failures.append(answer.text)
                return
            own.append(int(answer.text.split()[0]))


@contextmanager
def load(world: World, runner: ServiceSession) -> Iterator[Load]:
    """At the end: every operation was answered, executed once, in order, by all alike."""
    made = Load(world.proxy(runner))
    try:
        made.more()
        yield made
        made.more()
    finally:
        made.end()
    assert made.failures == []
    assert all(own == sorted(own) for own in made.seen)
    assert sorted(n for own in made.seen for n in own) == list(range(1, made.answered + 1))
    assert eventually(lambda: world.home.executed("notes") == made.answered)
    feeds = [feed for feed in operations(runner).feeds() if feed.state not in FINAL]
    assert eventually(lambda: {feed.cursor for feed in feeds} == {made.answered})
    assert operations(runner).tally.diverged == 0


def impatient(carried: World) -> ServiceSession:
    """A session that gives a replica up after a second."""
    peers = carried.settings.surrogates.items()
    hasty = {name: dataclasses.replace(peer, lost_seconds=1.0) for name, peer in peers}
    carried.settings = dataclasses.replace(carried.settings, surrogates=hasty)
    return carried.runner()


@pytest.mark.parametrize("route", [Route.HANDOVER, Route.REPLAY])
def test_operations_that_arrive_during_a_move_are_executed_once_and_in_order(
    carried: World, route: Route
) -> None:
    runner = carried.runner()
    runner.move("a")
    with load(carried, runner):
        assert runner.move("b", route=route).route is route
        assert carried.spots["a"].replicas() == []


def test_a_program_s_connection_stays_open_from_surrogate_to_surrogate(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)) as program:
        program.connect()
        ours = program.sock.getsockname()
        for number, spot in enumerate(("a", "b", "a"), 1):
            runner.move(spot)
            program.request("POST", "/api/notes", b"x")
            answer = program.getresponse()
            assert (answer.status, int(answer.read().split()[0])) == (200, number)
            assert program.sock.getsockname() == ours


def test_a_surrogate_that_vanishes_while_it_hands_over_costs_no_operation(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = impatient(carried)
    runner.move("a")
    true = Surrogate.hand_over

    def vanish(self: Surrogate) -> HandoverState:
        handed = true(self)
        carried.spots["a"].crash()
        return handed

    monkeypatch.setattr(Surrogate, "hand_over", vanish)
    with load(carried, runner):
        with pytest.raises(UnavailableError):
            runner.move("b", route=Route.HANDOVER)
        assert carried.spots["b"].replicas() == []
        assert runner.move("b").route is Route.REPLAY


def test_a_surrogate_that_vanishes_before_all_came_from_it_costs_no_operation(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = impatient(carried)
    runner.move("a")

    def vanish(self: Replicas, endpoint: Surrogate, giver: str, *_: object) -> None:
        carried.spots["a"].crash()
        assert eventually(lambda: operations(runner).feed("a").state.value == "lost")  # type: ignore[union-attr]
        self._still_wanted(giver)

    monkeypatch.setattr(Replicas, "_await_independent", vanish)
    with load(carried, runner), pytest.raises(UnavailableError, match="a was lost before"):
        runner.move("b", route=Route.HANDOVER)


def test_a_surrogate_that_vanishes_while_one_moves_there_costs_no_operation(
    carried: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = impatient(carried)
    runner.move("a")
    true = Mover._await

    def vanish(self: Mover, *args: Any, **how: Any) -> object:
        status = true(self, *args, **how)
        carried.spots["b"].crash()
        return status

    monkeypatch.setattr(Mover, "_await", vanish)
    with load(carried, runner):
        with pytest.raises(UnavailableError):
            runner.move("b", route=Route.REPLAY)
        assert len(carried.spots["a"].replicas()) == 1
