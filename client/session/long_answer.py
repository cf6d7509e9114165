# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A long answer as a program gets it: in pieces, from one replica, and from another when that ends.

The first replica that begins leads. The others say their answers as well and wait where it is, so
that one of them goes on from that byte: a replica is deterministic, so its bytes are the same. The
digest of all bytes is compared with what the replicas say at the end, and the last piece waits for
that: a program never gets to the end of an answer that nobody has given.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from typing import Protocol

from client.session.feed import FINAL, Feed
from replay import Response
from satchel.errors import NotFoundError, SatchelError, UnavailableError
from satchel.ids import OperationNumber

QUEUED_BYTES = 2 << 20
"""Of one answer, what waits for its program."""

PIECE_BYTES = 1 << 20
"""What is asked for at once."""

SIGN_SECONDS = 5.0
"""How often a replica hears how far the program is."""

MAX_HEAD = 512 << 10

_END_OF_HEAD = b"\r\n\r\n"


class AnswerBroken(UnavailableError):
    """An answer has started and cannot be completed."""


class AnswerSource(Protocol):
    """A replica that says a long answer."""

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        """What follows that position, perhaps nothing yet; whether the answer ends with it. Nothing
        before the position is asked for again. Raises NotFoundError for what is not kept."""

    def forget(self, number: OperationNumber) -> None:
        """Have it say the rest to nobody. Never fails."""


class LongAnswer:
    """See the module. `serve` and `finish` are for feeds' threads, `read` for the program's."""

    def __init__(self, number: OperationNumber, patience: float) -> None:
        """patience: seconds without any replica that leads, after which the answer is broken"""
        self.number = number
        self._patience = patience
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._digest = hashlib.sha256()
        self._position = 0
        self._leader: Feed | None = None
        self._led_at = time.monotonic()
        self._complete = False  # all bytes are here
        self._over = False  # and the digest is right; or nobody wants it, or it is broken
        self._error: SatchelError | None = None

    @property
    def over(self) -> bool:
        """Whether it needs no replica any more."""
        with self._changed:
            return self._over

    def serve(self, feed: Feed, source: AnswerSource) -> None:
        """Take the answer from that replica, or stand by until its leader ends. Returns when the
        replica is not needed or has no more. Raises what the source raises."""
        try:
            while not self._settled(feed):
                if self._leads(feed):
                    self._lead(feed, source)
                else:
                    source.piece(self.number, self._position, 0)
                    with self._changed:
                        self._changed.wait_for(lambda: self._leader is None, 1.0)
        except NotFoundError:
            return  # its digest comes all the same
        finally:
            with self._changed:
                if self._leader is feed and not self._complete:
                    self._leader = None
                    self._led_at = time.monotonic()
                self._changed.notify_all()
        if self.over:
            source.forget(self.number)

    def _settled(self, feed: Feed) -> bool:
        with self._changed:
            leads = self._leader is feed and self._complete
            return self._over or leads or feed.state in FINAL

    def _leads(self, feed: Feed) -> bool:
        with self._changed:
            self._leader = self._leader or feed
            return self._leader is feed

    def _lead(self, feed: Feed, source: AnswerSource) -> None:
        with self._changed:
            ready = self._changed.wait_for(
                lambda: self._over or self._queued < QUEUED_BYTES, SIGN_SECONDS
            )
            if self._over:
                return
            position = self._position
        piece, ends = source.piece(self.number, position, PIECE_BYTES if ready else 0)
        with self._changed:
            self._put(piece)
            self._complete = ends
            self._changed.notify_all()

    def _put(self, piece: bytes) -> None:
        if piece:
            self._queue.append(piece)
            self._queued += len(piece)
            self._position += len(piece)
            self._digest.update(piece)

    def finish(self, feed: Feed, response: Response) -> None:
        """That replica has answered: where its answer goes on from what there is, that is the
        answer."""
        with self._changed:
            if self._over:
                return
            if not response.long and self._goes_on(response.payload):
                self._put(response.payload[self._position :])
                self._complete = True
            if self._complete and response.digest == self._digest.digest():
                self._over = True
            elif self._leader in (feed, None):
                why = f"{feed.name} has answered otherwise than it began, or its service broke off"
                self._break(AnswerBroken(f"answer {self.number} is not whole", why=why))
            self._changed.notify_all()

    def _goes_on(self, payload: bytes) -> bool:
        beginning = hashlib.sha256(payload[: self._position]).digest()
        return len(payload) >= self._position and beginning == self._digest.digest()

    def fail(self, error: SatchelError) -> None:
        """It does not come to its end."""
        with self._changed:
            self._break(error)
            self._changed.notify_all()

    def close(self) -> None:
        """The program wants no more of it."""
        self.fail(AnswerBroken(f"answer {self.number} is not wanted any more"))

    def _break(self, error: SatchelError) -> None:
        self._error = self._error or error
        self._over = True

    def read(self) -> bytes:
        """What comes next, as soon as it is there; nothing at the end. Raises AnswerBroken, and
        what ended the session."""
        with self._changed:
            while True:
                if self._error:
                    raise self._error
                # The last piece waits until the digest is known.
                if len(self._queue) > 1 or (self._queue and (self._over or not self._complete)):
                    piece = self._queue.popleft()
                    self._queued -= len(piece)
                    self._changed.notify_all()
                    return piece
                if self._over:
                    return b""
                if self._leader is None and time.monotonic() > self._led_at + self._patience:
                    why = "no replica goes on with it"
                    self._break(AnswerBroken(f"answer {self.number} is not whole", why=why))
                self._changed.wait(1.0)

    def head(self) -> bytes:
        """What comes up to an empty line, and perhaps more. Raises as `read` does."""
        said = b""
        while _END_OF_HEAD not in said and len(said) < MAX_HEAD:
            if not (piece := self.read()):
                break
            said += piece
        return said
