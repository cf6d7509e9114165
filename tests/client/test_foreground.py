# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What keeps off the uplink while an operation is on its way, and what does not."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask

from client import foreground
from client.foreground import Foreground, Outlet
from client.pacing import HASTE, QUEUE_SECONDS, Pacing
from client.sources import media_app, relay_app
from tests.waiting import eventually
from wire import PeerUnreachable, Priority


class Asked:
    """A home that notes how urgent what it was asked for is."""

    def __init__(self) -> None:
        self.priorities: list[Priority] = []

    def fetch_pieces(self, refs: bytes, priority: Priority) -> Iterator[bytes]:
        self.priorities.append(priority)
        return iter((b"h" * 20_000,))

    below_pieces = fetch_pieces


def test_what_is_fetched_ahead_waits_for_the_operation_and_a_miss_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreground, "YIELD_SECONDS", 3600.0)
    operations, home = Foreground(), Asked()
    http = relay_app(home, operations).test_client()  # type: ignore[arg-type]

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


def test_nothing_gives_way_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "YIELD_SECONDS", 0.01)
    operations = Foreground()
    with operations.operation():
        operations.give_way(Priority.BACKGROUND)


def test_an_operation_that_is_computed_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "YIELD_SECONDS", 0.0)
    operations = Foreground()
    with operations.operation():
        monkeypatch.setattr(foreground, "YIELD_SECONDS", 3600.0)
        operations.give_way(Priority.PREFETCH)


def test_an_operation_that_fails_holds_up_nothing() -> None:
    operations = Foreground()
    with pytest.raises(ValueError, match="it failed"), operations.operation():
        raise ValueError("it failed")
    waiting = threading.Thread(target=operations.give_way, args=(Priority.PREFETCH,))
    waiting.start()
    assert eventually(lambda: not waiting.is_alive())


def waits_behind(pacing: Pacing, answer: int, rate: float) -> float:
    """The longest queue, in seconds, in front of a link while an answer of so many bytes is sent
    over it in counted time."""
    now, gone_at, longest = 0.0, 0.0, 0.0
    while answer > 0:
        size = min(pacing.piece or answer, answer)
        turn = pacing.join(Priority.DEMAND)
        now += pacing.pause(turn, now) or 0.0
        pacing.leave(turn)
        pacing.sent(size, now)
        gone_at = max(gone_at, now) + size / rate
        longest = max(longest, gone_at - now)
        answer -= size
    return longest


def test_an_operation_waits_behind_little_of_a_large_answer() -> None:
    """260 KB on a link of 11 Mb/s were 0.19 s, and the queue of a hotspot is 0.1 s long."""
    pacing, rate, answer = Pacing(), 1.3e6, 260_000
    assert waits_behind(pacing, answer, rate) >= 0.19
    pacing.rate = rate
    piece = pacing.piece / rate
    assert waits_behind(pacing, answer, rate) <= QUEUE_SECONDS + piece + (1 - 1 / HASTE) * 0.2


def test_a_link_that_is_faster_than_it_was_seen_to_be_is_seen_to_be() -> None:
    pacing = Pacing()
    pacing.rate, sent, now = 1e6, 0, 0.0
    while now < 1.0:
        turn = pacing.join(Priority.PREFETCH)
        now += pacing.pause(turn, now) or 0.0
        pacing.leave(turn)
        pacing.sent(pacing.piece, now)
        sent += pacing.piece
    assert sent >= 1.14e6


def test_pieces_of_a_miss_go_before_what_is_fetched_ahead() -> None:
    pacing = Pacing()
    ahead, soon, miss = (pacing.join(p) for p in reversed(list(Priority)))
    assert [pacing.pause(turn, 0.0) for turn in (ahead, soon, miss)] == [None, None, 0.0]
    pacing.leave(miss)
    assert pacing.pause(soon, 0.0) == 0.0
    pacing.leave(soon)
    assert pacing.pause(ahead, 0.0) == 0.0


def test_the_first_piece_of_a_miss_leaves_at_once() -> None:
    """On a slow link nothing else does."""
    outlet = Outlet()
    outlet.arrives(1.0)
    for _ in range(200):
        assert next(outlet.pieces([b"m" * 20_000], Priority.DEMAND)) == b"m" * (8 << 10)
    ahead = outlet.pieces([b"ahead"], Priority.PREFETCH)
    waiting = threading.Thread(target=next, args=(ahead,), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()


def test_what_comes_in_parts_leaves_in_parts() -> None:
    outlet = Outlet()
    assert list(outlet.pieces(iter((b"one", b"", b"two")), Priority.PREFETCH)) == [b"one", b"two"]
    outlet.arrives(1e6)
    parts = iter((b"one", b"2" * 10_000))
    assert [len(p) for p in outlet.pieces(parts, Priority.DEMAND)] == [
        3,
        8 << 10,
        10_000 - (8 << 10),
    ]


class Stick:
    """A medium on which every chunk has 20,000 bytes."""

    def records(self, refs: bytes) -> bytes:
        return b"r" * 20_000


def pieces_of(app: Flask, rate: float) -> int:
    """In how many pieces an answer leaves for who says that it arrives so fast."""
    headers = {"Satchel-Rate": str(int(rate))}
    asked = app.test_client().post("/v1/chunks", data=bytes(52), headers=headers, buffered=False)
    assert asked.status_code == 200
    return len(list(asked.iter_encoded()))


@pytest.mark.parametrize("kind", ["media", "home"])
def test_who_says_that_little_arrives_gets_pieces_and_nobody_else(kind: str) -> None:
    """A surrogate that lies holds up what it asked for itself."""
    operations = Foreground()

    def offered() -> Flask:
        if kind == "media":
            return media_app(Stick(), operations)  # type: ignore[arg-type]
        return relay_app(Asked(), operations)  # type: ignore[arg-type]

    slow, other = offered(), offered()
    assert pieces_of(slow, 1e6) == 3
    assert pieces_of(other, 0.0) == 1
    assert pieces_of(slow, 20e6) == 1, "over a fast link answers leave whole"


class Slow:
    """A home whose answers come in two halves, the second when that is set."""

    def __init__(self) -> None:
        self.second = threading.Event()

    def fetch_pieces(self, refs: bytes, priority: Priority) -> Iterator[bytes]:
        yield b"one half"
        assert self.second.wait(20)
        yield b"and the other"


def test_what_comes_from_home_leaves_while_it_comes() -> None:
    """A whole answer of 128 KB at once is 0.1 s of a slow Wi-Fi."""
    home = Slow()
    http = relay_app(home, Foreground()).test_client()  # type: ignore[arg-type]
    answer = http.post("/v1/chunks", data=bytes(52), buffered=False).iter_encoded()
    assert next(answer) == b"one half"
    home.second.set()
    assert list(answer) == [b"and the other"]


class Gone:
    """A home that cannot be reached."""

    def fetch_pieces(self, refs: bytes, priority: Priority) -> Iterator[bytes]:
        raise PeerUnreachable("no home")
        yield b""


def test_that_home_cannot_be_reached_is_an_error_and_no_answer() -> None:
    http = relay_app(Gone(), Foreground()).test_client()  # type: ignore[arg-type]
    assert http.post("/v1/chunks", data=bytes(52)).status_code >= 500


def test_an_answer_to_who_says_nothing_leaves_whole() -> None:
    answer = b"x" * 300_000
    assert list(Outlet().pieces([answer], Priority.PREFETCH)) == [answer]
    assert list(Outlet().pieces([b""], Priority.DEMAND)) == []
