# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which replica a long answer comes from, and what is left of one that is false."""

import hashlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from client.session.feed import FeedState
from client.session.long_answer import AnswerBroken, LongAnswer
from replay import Response
from satchel.errors import NotFoundError, UnavailableError
from satchel.ids import OperationNumber
from tests.waiting import eventually

NUMBER = OperationNumber(7)
WHOLE = bytes(range(256)) * 4000
PIECE = 100_000


def feed(name: str) -> Any:
    return SimpleNamespace(name=name, state=FeedState.JOINED)


class Replica:
    """Says a long answer, and ends at a byte if it is told to. asked: from which bytes on, with a
    wish for some."""

    def __init__(self, name: str, says: bytes = WHOLE, ends_at: int | None = None) -> None:
        self.feed, self.says, self.ends_at = feed(name), says, ends_at
        self.asked: list[int] = []
        self.forgotten = False

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        if self.ends_at is not None and after >= self.ends_at:
            raise UnavailableError(f"{self.feed.name} ended")
        if length:
            self.asked.append(after)
        piece = self.says[after : after + min(length, PIECE)]
        return piece, after + len(piece) == len(self.says)

    def forget(self, number: OperationNumber) -> None:
        self.forgotten = True

    def response(self) -> Response:
        return Response(NUMBER, b"", said=hashlib.sha256(self.says).digest())

    def serves(self, answer: LongAnswer) -> threading.Thread:
        def run() -> None:
            try:
                answer.serve(self.feed, self)
            except UnavailableError:
                return
            answer.finish(self.feed, self.response())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


def told(answer: LongAnswer) -> bytes:
    said = b""
    while piece := answer.read():
        said += piece
    return said


def test_another_replica_goes_on_from_that_byte() -> None:
    answer = LongAnswer(NUMBER, 20.0)
    first, second = Replica("a", ends_at=3 * PIECE), Replica("home")
    first.serves(answer).join()
    second.serves(answer)
    assert told(answer) == WHOLE
    assert first.asked == [0, PIECE, 2 * PIECE]
    assert second.asked[0] == 3 * PIECE


def test_only_the_leader_is_asked_for_bytes() -> None:
    answer = LongAnswer(NUMBER, 20.0)
    first, second = Replica("a"), Replica("home")
    leading = first.serves(answer)
    assert eventually(lambda: bool(first.asked))
    standing_by = second.serves(answer)
    assert told(answer) == WHOLE
    leading.join()
    standing_by.join(20)
    assert not second.asked
    assert second.forgotten  # and so it says its digest


def test_the_last_piece_of_a_false_answer_never_comes() -> None:
    answer = LongAnswer(NUMBER, 20.0)
    liar = Replica("a", says=b"x" + WHOLE[1:])
    answer.serve(liar.feed, liar)
    said = b""
    for _ in range(len(WHOLE) // PIECE):
        said += answer.read()
    answer.finish(liar.feed, Response(NUMBER, b"", said=hashlib.sha256(WHOLE).digest()))
    with pytest.raises(AnswerBroken):
        answer.read()
    assert len(said) < len(WHOLE)


def test_an_answer_of_two_that_differ_breaks_off() -> None:
    answer = LongAnswer(NUMBER, 20.0)
    Replica("a", says=b"x" + WHOLE[1:], ends_at=PIECE).serves(answer).join()
    Replica("home").serves(answer).join()
    with pytest.raises(AnswerBroken):
        told(answer)


def test_a_service_that_breaks_off_breaks_the_answer() -> None:
    answer = LongAnswer(NUMBER, 20.0)
    gone = Replica("home", ends_at=PIECE)
    gone.serves(answer).join()
    answer.finish(gone.feed, Response(NUMBER, b"HTTP/1.1 502 Bad Gateway\r\n\r\n"))
    with pytest.raises(AnswerBroken):
        told(answer)


def test_a_whole_response_of_another_replica_is_the_rest() -> None:
    answer = LongAnswer(NUMBER, 20.0)
    Replica("a", ends_at=PIECE).serves(answer).join()
    answer.finish(feed("home"), Response(NUMBER, WHOLE))
    assert told(answer) == WHOLE


def test_without_any_replica_it_is_broken_after_a_while() -> None:
    answer = LongAnswer(NUMBER, 0.5)
    Replica("a", ends_at=PIECE).serves(answer).join()
    with pytest.raises(AnswerBroken):
        told(answer)


def test_a_replica_that_has_dropped_it_does_not_lead() -> None:
    answer, gone = LongAnswer(NUMBER, 20.0), Replica("a")

    def nothing(number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        raise NotFoundError("it is not kept")

    gone.piece = nothing  # type: ignore[method-assign]
    answer.serve(gone.feed, gone)
    Replica("home").serves(answer)
    assert told(answer) == WHOLE
