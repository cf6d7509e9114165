# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the conversation between a node and its home keeps: a stream over a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from satchel.errors import SatchelError, StateError, UnavailableError
from shares.home import Channel, Reply
from shares.home.nodes.channel import ANSWER_LIMIT
from tests.waiting import eventually
from wire import FRAME_LIMIT, Caller, ConversationListener, Duplex


class End:
    """Notes what arrives, in order, and answers what is asked for."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.over: list[str] = []

    @property
    def told(self) -> list[bytes]:
        return [each for each in self.messages if each.isdigit()]

    def arrived(self, payload: bytes, reply: Reply | None) -> None:
        self.messages.append(payload)
        if reply is not None:
            if payload == b"fail":
                raise ValueError("the cause")
            if payload != b"wait":
                reply(b"re:" + payload)

    def greet(self, received: int) -> bytes:
        return json.dumps(received).encode()

    def welcomed(self, hello: bytes) -> int:
        if hello == b"no":
            raise StateError("home cannot continue")
        return int(json.loads(hello))

    def ended(self, why: str) -> None:
        self.over.append(why)


class Pair:
    """A node's end, which calls, and home's. refuses: home cannot continue; away: it is not
    reached."""

    def __init__(self) -> None:
        self.node, self.home = End(), End()
        self.channel: Channel = Duplex("node", self.home.arrived)
        self.refuses = self.away = False
        self.hellos: list[int] = []
        self.caller: Any = None

    def welcome(self, hello: bytes) -> tuple[bytes, Any, int]:
        if self.away:
            raise UnavailableError("home is away")
        if self.refuses:
            return b"no", None, 0
        self.hellos.append(int(hello))
        return json.dumps(self.channel.pause()).encode(), self.channel, int(hello)

    @property
    def duplex(self) -> Any:
        return self.caller.duplex


@pytest.fixture
def pair(short_path: Path) -> Iterator[Pair]:
    pair = Pair()
    listener = ConversationListener(short_path / "s", pair.welcome)
    pair.caller = Caller(short_path / "s", pair.node)
    yield pair
    pair.caller.close()
    pair.channel.end("the test is over")
    listener.close()


def asked(channel: Channel, payload: bytes) -> bytes:
    """As home asks: it posts, and the reply comes on the thread that reads."""
    replies: list[bytes] = []
    channel.post(payload, replies.append)
    assert eventually(lambda: bool(replies))
    return replies[0]


def test_both_sides_ask_and_are_answered(pair: Pair) -> None:
    assert pair.duplex.ask(b"hello") == b"re:hello"
    assert asked(pair.channel, b"you") == b"re:you"
    assert pair.duplex.ask(bytes(5 << 20)) == b"re:" + bytes(5 << 20)


def test_what_is_posted_before_a_connection_comes_over_the_first_one(pair: Pair) -> None:
    pair.channel.post(b"early")
    assert eventually(lambda: pair.node.messages == [b"early"])


def test_what_comes_with_a_reply_is_taken_up_before_what_was_said_after_it(pair: Pair) -> None:
    seen: list[bytes] = []

    def answer(payload: bytes, reply: Reply | None) -> None:
        assert reply is not None
        reply(b"granted")
        pair.channel.post(b"taken back")

    any_channel: Any = pair.channel
    any_channel._arrived = answer
    pair.duplex._arrived = lambda payload, reply: seen.append(payload)
    for _ in range(50):
        pair.duplex.ask(b"x", arrived=seen.append)
    assert eventually(lambda: len(seen) == 100)
    assert seen == [b"granted", b"taken back"] * 50


def test_nothing_is_lost_repeated_or_out_of_order_when_connections_break(pair: Pair) -> None:
    chance = Random(5)
    for number in range(300):
        pair.duplex.post(b"%d" % number)
        pair.channel.post(b"%d" % number)
        if number % 15 == 5:
            chance.choice([pair.duplex.cut, pair.channel.pause])()
        if number % 50 == 0:
            assert pair.duplex.ask(b"a%d" % number) == b"re:a%d" % number
    expected = [b"%d" % number for number in range(300)]
    for end in (pair.home, pair.node):
        assert eventually(lambda: len(end.told) >= 300)  # noqa: B023
        assert end.told == expected
    assert len(pair.hellos) > 2
    assert pair.hellos == sorted(pair.hellos)


def test_a_failure_is_said_to_who_asked_and_the_conversation_goes_on(pair: Pair) -> None:
    with pytest.raises(UnavailableError, match="the cause"):
        pair.duplex.ask(b"fail")
    assert pair.duplex.ask(b"good") == b"re:good"


def test_who_takes_a_reply_and_fails_breaks_nothing(pair: Pair) -> None:
    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    for _ in range(3):
        assert pair.duplex.ask(b"x", arrived=full) == b"re:x"
    assert len(pair.hellos) == 1


def test_who_asks_without_a_connection_waits_as_long_as_it_wants(pair: Pair) -> None:
    pair.duplex.ask(b"x")
    pair.away = True
    pair.duplex.cut()
    with pytest.raises(UnavailableError):
        pair.duplex.ask(b"y", patience=0.1)
    heard: list[str] = []
    pair.duplex.ping(lambda: heard.append("of a home that is away"))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pair.duplex.ask, b"z")
        pair.away = False
        assert waiting.result(20) == b"re:z"
    assert not heard


def test_a_ping_is_answered_and_home_has_heard_the_node(pair: Pair) -> None:
    pair.duplex.ask(b"x")
    before, heard = pair.channel.heard, threading.Event()
    pair.duplex.ping(heard.set)
    assert heard.wait(60)
    assert pair.channel.heard > before


@pytest.mark.parametrize("side", ["node", "home"])
def test_the_end_is_told_to_who_waits(pair: Pair, side: str) -> None:
    pair.duplex.ask(b"x")
    failed: list[SatchelError] = []
    end: Any = pair.duplex if side == "node" else pair.channel
    end.post(b"wait", lambda _: None, failed.append)
    pair.refuses = True
    end.end("enough")
    assert end.ended == "enough"
    assert ["enough" in str(error) for error in failed] == [True]
    end.post(b"more", lambda _: None, failed.append)
    assert len(failed) == 2
    assert eventually(lambda: len(pair.node.over) == 1)  # at home's end: it is refused
    assert pair.duplex.ended


def test_a_home_that_has_forgotten_what_it_took_is_not_gone_on_with(pair: Pair) -> None:
    """A node whose heartbeat it had taken waited for the answer, and was silent for ever."""
    pair.duplex.post(b"taken")
    assert eventually(lambda: pair.home.messages == [b"taken"])
    assert asked(pair.channel, b"you") == b"re:you"  # and the node knows that home has it
    before, pair.channel = pair.channel, Duplex("node", pair.home.arrived)
    before.end("home begins again")
    assert eventually(lambda: len(pair.node.over) == 1)
    assert "cannot continue: it has 0 frames of" in pair.node.over[0]
    assert pair.home.messages == [b"taken"]


def test_an_answer_of_homes_is_no_longer_than_a_stream_takes() -> None:
    assert ANSWER_LIMIT <= FRAME_LIMIT
