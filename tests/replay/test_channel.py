# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The channel against guests that are slow, hostile or gone."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replay import AgentChannel, AgentFailed, AgentGone, AgentTimeout, Operation
from replay.frames import REPLY_BIT, AgentFrame, FrameReader, FrameType
from satchel.errors import UsageError
from satchel.ids import OperationNumber

OPERATION = Operation(OperationNumber(1), 5, 6, b"request")
STATUS = b"ready=1\nexecuting=0\nrestarts=0\n"

Answer = Callable[[AgentFrame], bytes]


def reply(request: AgentFrame, payload: bytes = b"", **fields: int) -> bytes:
    answer = {"id": request.id, "number": request.number, **fields}
    return AgentFrame(request.type | REPLY_BIT, payload=payload, **answer).encode()


@contextmanager
def guest(answer: Answer) -> Iterator[AgentChannel]:
    """A channel to a thread that answers each frame with whatever `answer` makes of it."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        reader = FrameReader()
        while data := theirs.recv(1 << 16):
            for frame in reader.feed(data):
                theirs.sendall(answer(frame))

    thread = threading.Thread(target=serve)
    thread.start()
    with AgentChannel(ours, "guest") as channel:
        yield channel
    thread.join()
    theirs.close()


def test_execute_carries_the_operation() -> None:
    seen: list[AgentFrame] = []

    def answer(frame: AgentFrame) -> bytes:
        seen.append(frame)
        return reply(frame, b"response")

    with guest(answer) as channel:
        assert channel.execute(OPERATION, timeout=5).payload == b"response"
    (frame,) = seen
    assert (frame.number, frame.time_ns, frame.seed, frame.payload) == (1, 5, 6, b"request")
    assert frame.timeout_ms == 5000


def test_late_answers_are_not_taken_for_new_ones() -> None:
    pending: list[bytes] = []

    def answer(frame: AgentFrame) -> bytes:
        if frame.type == FrameType.RUN:
            pending.append(reply(frame, b"late", number=9))
            return b""
        return b"".join(pending) + reply(frame, STATUS)

    with guest(answer) as channel:
        with pytest.raises(AgentTimeout):
            channel._request(AgentFrame(FrameType.RUN, 0), 0.1)
        assert channel.hello(60).ready


def test_garbage_between_answers_is_skipped() -> None:
    noise = random.Random(6)
    with guest(lambda f: noise.randbytes(5000) + reply(f, STATUS)) as channel:
        for _ in range(20):
            assert channel.hello(60).ready


def test_a_silent_guest_is_asked_again_until_the_time_is_up() -> None:
    asked: list[AgentFrame] = []

    def answer(frame: AgentFrame) -> bytes:
        asked.append(frame)
        return reply(frame, STATUS) if len(asked) == 2 else b""

    with guest(answer) as channel:
        assert channel.hello(60).ready
        with pytest.raises(AgentTimeout):
            channel.hello(0.2)


@pytest.mark.parametrize(
    "status", [b"", b"ready=1", b"ready=1\nexecuting=x\nrestarts=0\n", b"\xff" * 9000]
)
def test_a_status_that_makes_no_sense_is_refused(status: bytes) -> None:
    with guest(lambda frame: reply(frame, status)) as channel, pytest.raises(AgentFailed):
        channel.hello(5)


def test_an_answer_for_another_operation_is_refused() -> None:
    with guest(lambda frame: reply(frame, number=2)) as channel, pytest.raises(AgentFailed):
        channel.execute(OPERATION)


def test_an_unknown_status_is_refused_and_its_words_are_harmless() -> None:
    def answer(frame: AgentFrame) -> bytes:
        return reply(frame, b"\x1b[2Jboo\n" + b"x" * 9000, status=999)

    with guest(answer) as channel, pytest.raises(AgentFailed) as caught:
        channel.execute(OPERATION)
    assert caught.value.status == 999
    assert caught.value.why.startswith(" [2Jboo ")
    assert len(caught.value.why) <= 2000


def test_a_machine_that_ends_is_noticed_at_once() -> None:
    ours, theirs = socket.socketpair()
    threading.Timer(0.2, theirs.close).start()
    with AgentChannel(ours, "guest") as channel, pytest.raises(AgentGone):
        channel.hello(30)


def test_closing_ends_a_request_under_way() -> None:
    with guest(lambda frame: b"") as channel:
        threading.Timer(0.2, channel.close).start()
        with pytest.raises(AgentGone):
            channel.execute(OPERATION)
        with pytest.raises(AgentGone):
            channel.hello(1)


def test_requests_wait_for_each_other() -> None:
    def answer(frame: AgentFrame) -> bytes:
        time.sleep(0.05)
        return reply(frame, STATUS)

    with guest(answer) as channel:
        threads = [threading.Thread(target=channel.hello) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)


def test_a_request_does_not_wait_for_another_for_ever() -> None:
    with guest(lambda frame: b"") as channel:
        stuck = threading.Thread(target=_give_up, args=(channel,))
        stuck.start()
        time.sleep(0.1)
        with pytest.raises(AgentTimeout, match="another request"):
            channel.hello(0.2)
        stuck.join()


def _give_up(channel: AgentChannel) -> None:
    with pytest.raises(AgentTimeout):
        channel.hello(1.0)


def test_connecting_waits_for_the_socket(short_path: Path) -> None:
    path = short_path / "late"

    def listen() -> None:
        server.bind(str(path))
        server.listen()

    with socket.socket(socket.AF_UNIX) as server:
        threading.Timer(0.3, listen).start()
        with AgentChannel.connect(path, timeout=60):
            server.settimeout(60)
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getsockname() == str(path)


def test_connecting_to_nothing(short_path: Path) -> None:
    with pytest.raises(AgentGone, match="cannot reach the agent"):
        AgentChannel.connect(short_path / "nothing", timeout=0.1)
    with pytest.raises(UsageError, match="too long"):
        AgentChannel.connect(short_path / ("x" * 200))
