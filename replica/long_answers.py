# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A long answer of a replica: taken away piece by piece, while its service goes on saying it.

Of each answer a window is kept. Whoever asks for what follows a position says with it that nothing
before that is needed any more. The service waits while the window is full, and what nobody asks for
in a while is dropped: then the operation is executed to its end, and its digest is known.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from replay import MAX_PAYLOAD, LongAnswerStart, Operation, Response
from replay.adapters import PieceReader
from replica.reader_thread import read_in_thread
from satchel.errors import NotFoundError
from satchel.ids import OperationNumber
from satchel.polling import FAST_POLL_SECONDS

WINDOW_BYTES = 4 << 20
"""Of one answer, what is kept for whoever takes it away."""

PIECE_BYTES = 1 << 20
"""Of one answer, what is given at once."""

PIECE_SECONDS = 10.0
"""How long a request for a piece waits for one."""

BEGIN_SECONDS = 0.2
"""An answer that is not whole so long after its first bytes is given in pieces. One that is larger
than PIECE_BYTES is so at once."""

ABANDONED_SECONDS = 30.0
"""How long a window waits for somebody to ask for it."""

ANSWERS_KEPT = 4
"""The last answers, whose windows may still be asked for."""


class PieceGone(NotFoundError):
    """The piece of an answer is not kept here."""


class LongAnswerBuffer:
    """The answer to `asked`. One thread says it, others take it away. response: when it ended."""

    def __init__(self, asked: Operation, *, wanted: bool) -> None:
        """wanted: somebody is going to take it away, piece by piece if it is long; else it is kept
        whole, and dropped where it is too long for that"""
        self.asked = asked
        self.number = asked.number
        self.response: Response | None = None
        self._wanted = wanted
        self._limit = WINDOW_BYTES if wanted else MAX_PAYLOAD
        self._changed = threading.Condition()
        self._digest = hashlib.sha256()
        self._kept = bytearray()
        self._from = 0  # the position of the first byte that is kept
        self._began: float | None = None
        self._asked = time.monotonic()
        self._dropped = False
        self._ended = False
        self._given = False

    @property
    def has_begun(self) -> bool:
        """Whether it is one to be taken away in pieces, and that has to begin now."""
        with self._changed:
            if not self._wanted or self._began is None or self._ended:
                return False
            late = time.monotonic() - self._began > BEGIN_SECONDS
            return late or len(self._kept) > PIECE_BYTES

    def give(self) -> None:
        """From now on it is given in pieces."""
        with self._changed:
            self._given, self._asked = True, time.monotonic()

    def put(self, piece: bytes) -> None:
        """More of it. Waits while the window is full."""
        if not piece:
            return
        self._digest.update(piece)
        with self._changed:
            self._began = self._began or time.monotonic()
            while self._wanted and not self._dropped and len(self._kept) >= self._limit:
                left = self._asked + ABANDONED_SECONDS - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    self._drop()
            if not self._wanted and len(self._kept) + len(piece) > self._limit:
                self._drop()
            if not self._dropped:
                self._kept += piece
            self._changed.notify_all()

    def end(self, failure: bytes | None) -> Response:
        """Nothing more comes: the response. failure: that, where what came is no response."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            if failure is not None:
                self._drop()
                self.response = Response(self.number, failure)
            elif self._given or self._dropped or self._from:
                self.response = Response(self.number, b"", said=self._digest.digest())
            else:
                self.response = Response(self.number, bytes(self._kept))
            return self.response

    def after(self, position: int, length: int, seconds: float) -> tuple[bytes, bool]:
        """What follows that position, at most `length` bytes, waiting up to `seconds` for some; and
        whether the answer ends with it. Raises PieceGone."""
        with self._changed:
            deadline = time.monotonic() + seconds
            while True:
                self._asked = time.monotonic()
                if self._dropped or position < self._from:
                    raise PieceGone(f"answer {self.number} is not kept from byte {position} on")
                cut = min(position - self._from, len(self._kept))
                del self._kept[:cut]
                self._from += cut
                self._changed.notify_all()
                here = position == self._from
                left = deadline - time.monotonic()
                if (here and (self._kept or self._ended)) or not length or left <= 0:
                    break
                self._changed.wait(min(left, 1.0))
            piece = bytes(self._kept[:length]) if here else b""
            return piece, self._ended and here and len(piece) == len(self._kept)

    def drop(self) -> None:
        """Nobody wants it."""
        with self._changed:
            self._drop()

    def _drop(self) -> None:
        self._dropped = True
        self._kept = bytearray()
        self._changed.notify_all()


class LongAnswers:
    """Of one replica. Thread-safe."""

    def __init__(self, reader: Callable[[Operation], PieceReader] | None) -> None:
        """reader: makes what normalises one response in pieces; None where that cannot be."""
        self._reader = reader
        self._lock = threading.Lock()
        self._wanted: list[frozenset[OperationNumber]] = []
        self._answers: OrderedDict[OperationNumber, LongAnswerBuffer] = OrderedDict()

    @property
    def supported(self) -> bool:
        """Whether responses can be had in pieces."""
        return self._reader is not None

    def response(
        self, operation: Operation, stream: Callable[[Callable[[bytes], None]], bool]
    ) -> Response:
        """The normalised response. stream: has the service say the raw one to its argument; whether
        it said all. Raises what that does."""
        assert self._reader is not None
        with self._lock:
            known = self._answers.get(operation.number)
            if known and known.asked == operation and known.response:
                return known.response
            wanted = any(operation.number in numbers for numbers in self._wanted)
            answer = LongAnswerBuffer(operation, wanted=wanted)
            self._answers[operation.number] = answer
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        reader = self._reader(operation)
        try:
            whole = stream(lambda raw: answer.put(reader.take(raw)))
        except BaseException:
            answer.end(b"")
            with self._lock:
                self._answers.pop(operation.number, None)
            raise
        good = reader.end() and whole
        response = answer.end(None if good else reader.failure())
        if not response.long:
            with self._lock:
                self._answers.pop(operation.number, None)
        return response

    def of(self, number: OperationNumber) -> LongAnswerBuffer:
        """The answer to that operation. Raises PieceGone."""
        with self._lock:
            if number not in self._answers:
                raise PieceGone(f"answer {number} is not kept")
            return self._answers[number]

    def before(
        self, operations: Iterable[Operation], responses: Iterator[Response]
    ) -> Iterator[Response | LongAnswerStart]:
        """These responses to these operations, as they come, and before a long one that it has
        begun. They are taken in a thread, to their end, also when nobody asks for the rest. Raises
        what they do."""
        said: queue.SimpleQueue[Response | Exception | None] = queue.SimpleQueue()

        numbers = frozenset(operation.number for operation in operations)
        with self._lock:
            self._wanted.append(numbers)
        told: set[OperationNumber] = set()
        try:
            read_in_thread(responses, said)
            while True:
                try:
                    item = said.get(timeout=FAST_POLL_SECONDS)
                except queue.Empty:
                    for number in self._begun(numbers - told):
                        told.add(number)
                        yield LongAnswerStart(number)
                    continue
                if item is None:
                    return
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            with self._lock:
                self._wanted.remove(numbers)

    def _begun(self, numbers: frozenset[OperationNumber]) -> list[OperationNumber]:
        with self._lock:
            answers = [self._answers[n] for n in numbers if n in self._answers]
        begun = [answer for answer in answers if answer.has_begun]
        for answer in begun:
            answer.give()
        return [answer.number for answer in begun]
