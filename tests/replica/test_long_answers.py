# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What of a long answer is kept, for whom, and what is dropped."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from replay import MAX_PAYLOAD, LongAnswerStart, Operation, Response
from replay.adapters import http
from replica import LongAnswers, PieceGone, long_answers
from tests.scripted import operation
from tests.waiting import eventually

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
BLOCK = bytes(1 << 20)


class Service:
    """Answers operation 1 with so many MiB. said: how many it was let say."""

    def __init__(self, mebibytes: int) -> None:
        self.mebibytes = mebibytes
        self.said = 0
        self.asked = operation(1)
        self.answers = LongAnswers(http.Normaliser)

    def stream(self, take: Callable[[bytes], None]) -> bool:
        take(HEAD)
        for _ in range(self.mebibytes):
            take(BLOCK)
            self.said += 1
        return True

    def response(self) -> Response:
        return self.answers.response(self.asked, self.stream)

    def before(self) -> Iterator[Response | LongAnswerStart]:
        def responses() -> Iterator[Response]:
            yield self.response()

        return self.answers.before([self.asked], responses())

    def digest(self) -> bytes:
        return hashlib.sha256(http.normalise(HEAD, self.asked) + BLOCK * self.mebibytes).digest()


def test_the_service_waits_until_somebody_asks_for_more() -> None:
    service = Service(16)
    said = service.before()
    assert next(said) == LongAnswerStart(service.asked.number)
    answer, found, ends = service.answers.of(service.asked.number), hashlib.sha256(), False
    assert eventually(lambda: service.said == 4)
    time.sleep(0.2)
    assert service.said == 4
    position = 0
    while not ends:
        piece, ends = answer.after(position, 1 << 18, 5.0)
        position += len(piece)
        found.update(piece)
    assert found.digest() == service.digest()
    assert next(said) == Response(service.asked.number, b"", said=service.digest())
    assert service.response().said == service.digest()  # asked again
    with pytest.raises(PieceGone):
        answer.after(0, 1, 0.0)


def test_what_nobody_asks_for_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_answers, "ABANDONED_SECONDS", 0.5)
    service = Service(8)
    said = service.before()
    assert next(said) == LongAnswerStart(service.asked.number)
    assert next(said) == Response(service.asked.number, b"", said=service.digest())
    with pytest.raises(PieceGone):
        service.answers.of(service.asked.number).after(0, 1, 0.0)


def test_what_nobody_wants_any_more_holds_nobody_up() -> None:
    service = Service(8)
    said = service.before()
    assert next(said) == LongAnswerStart(service.asked.number)
    service.answers.of(service.asked.number).drop()
    assert next(said) == Response(service.asked.number, b"", said=service.digest())


def test_a_short_answer_is_whole() -> None:
    service = Service(0)
    assert list(service.before()) == [service.response()]
    assert service.response().payload == http.normalise(HEAD, service.asked)
    with pytest.raises(PieceGone):
        service.answers.of(service.asked.number)


def test_an_answer_for_nobody_is_whole_as_far_as_that_can_be() -> None:
    service = Service(8)
    assert hashlib.sha256(service.response().payload).digest() == service.digest()
    long = Service(1 + (MAX_PAYLOAD >> 20))
    assert long.response() == Response(long.asked.number, b"", said=long.digest())


def test_a_slow_answer_begins_before_it_ends() -> None:
    service, go_on = Service(0), threading.Event()

    def stream(take: Callable[[bytes], None]) -> bool:
        take(HEAD + b"first")
        assert go_on.wait(20)
        take(b"second")
        return True

    def responses() -> Iterator[Response]:
        yield service.answers.response(service.asked, stream)

    said = service.answers.before([service.asked], responses())
    assert next(said) == LongAnswerStart(service.asked.number)
    answer = service.answers.of(service.asked.number)
    piece, ends = answer.after(0, 1 << 20, 5.0)
    assert piece.endswith(b"first")
    assert not ends
    go_on.set()
    assert answer.after(len(piece), 1 << 20, 5.0)[0] == b"second"
    assert answer.after(len(piece) + 6, 1 << 20, 5.0) == (b"", True)
    assert isinstance(next(said), Response)


def test_an_answer_that_breaks_off_is_an_error_for_everybody() -> None:
    service = Service(0)

    def stream(take: Callable[[bytes], None]) -> bool:
        take(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + BLOCK * 3)
        return True

    def response(asked: Operation) -> Response:
        return service.answers.response(asked, stream)

    assert http.decode(response(service.asked).payload).status == 502
    assert list(service.answers.before([service.asked], iter([response(service.asked)]))) == [
        response(service.asked)
    ]
