# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session gives its callers, what it has of those that wait, and what it counts."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from client.session.feed import Feed
from client.session.long_answer import LongAnswer
from client.session.reads import PendingRead
from replay import Operation
from satchel.ids import OperationNumber


@dataclass(frozen=True)
class Answer:
    """The first response to an operation. seconds: since the call; stable: at the moment of the
    acknowledgement. Of a read of a stateful service, `number` is that of the last operation that it
    shows for sure, and `stable` says whether home has that one. feed: who gave it; read: what it
    answers, where that is no operation. long: where it has begun and is
    had in pieces, instead of the payload."""

    number: OperationNumber
    payload: bytes
    leader: str
    seconds: float
    stable: bool
    feed: Feed | None = None
    read: PendingRead | None = None
    long: LongAnswer | None = None


@dataclass
class PendingOperation:
    """An operation that waits for its first response. told: notified when its waiter has to look;
    it has the session's lock, and a waiter of its own: a hundred that wait are not all woken by
    each other's responses."""

    told: threading.Condition
    began: float
    operation: Operation | None = None
    answer: Answer | None = None
    held: tuple[Feed, Answer] | None = None
    """A stranger's, where no more of these may be believed now."""
    on_early: Callable[[bytes], None] | None = None
    early: deque[bytes] = field(default_factory=deque)
    """Early answers that the waiter has not yet given to `on_early`."""
    said_early: Feed | None = None
    """The one replica whose early answers are told: what others draw on the way may differ."""


@dataclass
class Tally:
    """What a session has seen so far. divergences: the first ones, for people to look at.

    answered_seconds: what all that were answered took together, from the call to its answer.
    quarantined: replicas that answered otherwise than home.
    samples: reads that home was asked as well, and whose answers were compared.
    sent_bytes: of operations, to all replicas; sent_bytes_if_all: what they were, had every read
    gone to every replica.
    """

    first_responses: Counter[str] = field(default_factory=Counter)
    later_responses: int = 0
    samples: int = 0
    quarantined: int = 0
    diverged: int = 0
    answered: int = 0
    answered_seconds: float = 0.0
    sent_bytes: int = 0
    sent_bytes_if_all: int = 0
    divergences: list[dict[str, object]] = field(default_factory=list)
