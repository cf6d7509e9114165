# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What feeds report to their session: events in one queue.

The queue has no thread. `put` returns when the event has been handled, by this thread or by one
that was handling others. So a feed whose replica is put into quarantine by its answer sends nothing
more, and no answer waits for another thread to be scheduled.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replay import AnswerPreview, Response
from satchel.errors import SatchelError
from satchel.ids import OperationNumber

if TYPE_CHECKING:
    from client.session.feed import Feed, PendingRead
    from client.session.long_answer import LongAnswer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SendEvent:
    """The feed sends so many bytes to its replica. apart: for reads."""

    feed: Feed
    size: int
    apart: bool


@dataclass(frozen=True)
class AnswerEvent:
    """The replica has answered an operation."""

    feed: Feed
    response: Response


@dataclass(frozen=True)
class EarlyAnswerEvent:
    """The replica says what it is going to answer."""

    feed: Feed
    early: AnswerPreview


@dataclass(frozen=True)
class LongAnswerEvent:
    """A long answer has begun. answer: set when this is handled: what the feed's thread serves, or
    None if nobody wants it."""

    feed: Feed
    number: OperationNumber
    answer: Future[LongAnswer | None] = field(default_factory=Future)


@dataclass(frozen=True)
class ReadsEvent:
    """The replica has answered these reads, in this order."""

    feed: Feed
    reads: Sequence[PendingRead]
    responses: Sequence[Response]


@dataclass(frozen=True)
class LossEvent:
    """The replica is lost. The last event of its feed."""

    feed: Feed
    error: SatchelError


Event = SendEvent | AnswerEvent | EarlyAnswerEvent | LongAnswerEvent | ReadsEvent | LossEvent


class EventQueue:
    """The events of all feeds of one session. Handled one at a time, in the order in which they
    were put. Thread-safe."""

    def __init__(self, lock: threading.RLock, handle: Callable[[Event], None]) -> None:
        """lock: held while an event is handled. handle: if it fails, the event's feed is lost."""
        self._lock = lock
        self._handle = handle
        self._events: deque[Event] = deque()
        self._handling = False

    def put(self, event: Event) -> None:
        """Return when the event has been handled. An event put while one is handled, by the same
        thread, is handled next."""
        self._events.append(event)
        with self._lock:
            if self._handling:
                return
            self._handling = True
            try:
                while self._events:
                    self._handle_one(self._events.popleft())
            finally:
                self._handling = False

    def _handle_one(self, event: Event) -> None:
        try:
            self._handle(event)
        except Exception as error:
            logger.exception("%s", event.feed.name)
            what = f"{event.feed.name} failed here"
            event.feed.give_up(SatchelError(what, why=repr(error)))
