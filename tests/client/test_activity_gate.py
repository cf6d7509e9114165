# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What keeps off the uplink while an operation is on its way, and what does not."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from client.moves.sources import media_app, relay_app
from client.platform import activity_gate
from client.platform.activity_gate import ActivityGate
from client.platform.shaper import HASTE, QUEUE_SECONDS, PathRate, Shaper
from tests.waiting import eventually
from wire import PeerUnreachable, Priority


class PriorityRecorder:
    """A home that records the priority of each fetch."""

    def __init__(self) -> None:
        self.priorities: list[Priority] = []

    def fetch(self, refs: bytes, priority: Priority) -> bytes:
        self.priorities.append(priority)
        return b""

    below = fetch


def test_what_is_fetched_ahead_waits_for_the_operation_and_a_miss_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(activity_gate, "YIELD_SECONDS", 3600.0)
    operations, home = ActivityGate(), PriorityRecorder()
    http = relay_app(home, operations, PathRate()).test_client()  # type: ignore[arg-type]

    def ask(priority: Priority) -> int:
        headers = {"Satchel-Priority": priority.value}
        return http.post("/v1/chunks", data=b"", headers=headers).status_code

    with ThreadPoolExecutor() as pool:
        with operations.operation(), operations.operation():
            ahead = [pool.submit(ask, p) for p in (Priority.PREFETCH, Priority.BACKGROUND)]
            assert ask(Priority.DEMAND) == 200
            assert home.priorities == [Priority.DEMAND]
            assert not any(call.done() for call in ahead)
        assert [call.result() for call in ahead] == [200, 200]
    assert len(home.priorities) == 3


@pytest.mark.parametrize(("stands", "status"), [(True, 200), (False, 503)])
def test_who_asks_home_while_its_link_is_made_again_is_answered(stands: bool, status: int) -> None:
    """After a walk home answered nothing for a moment, and was left alone for seconds."""

    class Broken(PriorityRecorder):
        def fetch(self, refs: bytes, priority: Priority) -> bytes:
            super().fetch(refs, priority)
            if len(self.priorities) == 1:
                raise PeerUnreachable("its connection was cut")
            return b""

    home = Broken()
    app = relay_app(home, ActivityGate(), PathRate(), lambda: stands)  # type: ignore[arg-type]
    http = app.test_client()
    assert http.post("/v1/chunks", data=b"").status_code == status
    assert len(home.priorities) == 1 + stands


def returns(call: Callable[[], None]) -> bool:
    """Whether the call returns although the operation goes on."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return eventually(lambda: not thread.is_alive())


def test_nothing_gives_way_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_gate, "YIELD_SECONDS", 0.01)
    operations = ActivityGate()
    with operations.operation():
        assert returns(lambda: operations.give_way(Priority.BACKGROUND))


def test_an_operation_that_is_computed_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_gate, "YIELD_SECONDS", 0.0)
    operations = ActivityGate()
    with operations.operation():
        monkeypatch.setattr(activity_gate, "YIELD_SECONDS", 3600.0)
        assert returns(lambda: operations.give_way(Priority.PREFETCH))


def test_an_operation_that_fails_holds_up_nothing() -> None:
    operations = ActivityGate()
    with pytest.raises(ValueError, match="it failed"), operations.operation():
        raise ValueError("it failed")
    waiting = threading.Thread(target=operations.give_way, args=(Priority.PREFETCH,))
    waiting.start()
    assert eventually(lambda: not waiting.is_alive())


def waits_behind(way: PathRate, answer: int, rate: float) -> float:
    """The longest queue, in seconds, in front of a link while an answer of so many bytes is sent
    over it in counted time."""
    pacing, now, gone_at, longest = Shaper(), 0.0, 0.0, 0.0
    while answer > 0:
        size = min(way.piece or answer, answer)
        turn = pacing.join(Priority.DEMAND)
        now += pacing.pause(turn, now) or 0.0
        pacing.leave(turn)
        pacing.sent(size, way, now)
        gone_at = max(gone_at, now) + size / rate
        longest = max(longest, gone_at - now)
        answer -= size
    return longest


def test_an_operation_waits_behind_little_of_a_large_answer() -> None:
    """260 KB on a link of 11 Mb/s were 0.19 s, and the queue of a hotspot is 0.1 s long."""
    way, rate, answer = PathRate(), 1.3e6, 260_000
    assert waits_behind(way, answer, rate) >= 0.19
    way.arrives(rate)
    piece = way.piece / rate
    assert waits_behind(way, answer, rate) <= QUEUE_SECONDS + piece + (1 - 1 / HASTE) * 0.2


def test_a_link_that_is_faster_than_it_was_seen_to_be_is_seen_to_be() -> None:
    pacing, way, sent, now = Shaper(), PathRate(), 0, 0.0
    way.arrives(1e6)
    while now < 1.0:
        turn = pacing.join(Priority.PREFETCH)
        now += pacing.pause(turn, now) or 0.0
        pacing.leave(turn)
        pacing.sent(way.piece, way, now)
        sent += way.piece
    assert sent >= HASTE * 1e6


def test_a_replica_that_begins_does_not_make_the_way_to_its_surrogate_unknown() -> None:
    way = PathRate()
    way.arrives(1e6)
    way.arrives(0.0)
    assert way.rate == 1e6
    way.arrives(25e6)
    assert way.piece == 0


def test_pieces_of_a_miss_go_before_what_is_fetched_ahead() -> None:
    pacing = Shaper()
    ahead, soon, miss = (pacing.join(p) for p in reversed(list(Priority)))
    assert [pacing.pause(turn, 0.0) for turn in (ahead, soon, miss)] == [None, None, 0.0]
    pacing.leave(miss)
    assert pacing.pause(soon, 0.0) == 0.0
    pacing.leave(soon)
    assert pacing.pause(ahead, 0.0) == 0.0


def test_the_first_piece_of_a_miss_leaves_at_once() -> None:
    """On a slow link nothing else does."""
    operations, way = ActivityGate(), PathRate()
    way.arrives(1.0)
    for _ in range(200):
        assert next(operations.pieces(way, b"m" * 20_000, Priority.DEMAND)) == b"m" * (8 << 10)
    ahead = operations.pieces(way, b"ahead", Priority.PREFETCH)
    waiting = threading.Thread(target=next, args=(ahead,), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()


class Stick:
    """A medium on which every chunk has a byte."""

    def records(self, refs: bytes) -> bytes:
        return b"r" * (len(refs) // 52)


@pytest.mark.parametrize("name", ["media", "home"])
def test_what_a_surrogate_is_sent_tells_how_fast_the_way_to_it_is(name: str) -> None:
    operations, way = ActivityGate(), PathRate()
    media = media_app(Stick(), operations, way)
    home = relay_app(PriorityRecorder(), operations, way)  # type: ignore[arg-type]
    http = {"media": media, "home": home}[name].test_client()
    headers = {"Satchel-Rate": "1000000"}
    assert http.post("/v1/chunks", data=bytes(52), headers=headers).status_code == 200
    assert len(list(operations.pieces(way, b"x" * 20_000, Priority.DEMAND))) == 3
    assert len(list(operations.pieces(PathRate(), b"x" * 20_000, Priority.DEMAND))) == 1


def test_over_a_fast_link_answers_leave_whole() -> None:
    operations, way = ActivityGate(), PathRate()
    way.arrives(20e6)
    answer = b"x" * 300_000
    assert list(operations.pieces(way, answer, Priority.DEMAND)) == [answer]


def test_an_answer_to_who_says_nothing_leaves_whole() -> None:
    answer = b"x" * 300_000
    assert list(ActivityGate().pieces(PathRate(), answer, Priority.PREFETCH)) == [answer]
    assert list(ActivityGate().pieces(PathRate(), b"", Priority.DEMAND)) == []
