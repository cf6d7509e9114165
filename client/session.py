# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One service in use: every operation goes to every replica, the first response wins.

An operation is `fast`-acknowledged with its first response and `stable` once home has it on
disk. While the journal cannot be on the media any more, an operation is acknowledged only when it
is stable, so that no acknowledged operation is ever in one place only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from client.feed import Endpoint, Feed, FeedState
from client.journal import Encode, Journal
from replay import Operation, Response
from satchel.errors import SatchelError, UnavailableError
from satchel.ids import OperationNumber

logger = logging.getLogger(__name__)

DIGESTS_KEPT = 1024
"""First responses remembered for comparison with the later ones."""


class NoResponse(UnavailableError):
    """No replica answered in time. The operation is logged and will be executed."""


@dataclass(frozen=True)
class Answer:
    """The first response to an operation."""

    number: OperationNumber
    payload: bytes
    leader: str
    seconds: float
    stable: bool


@dataclass
class Pending:
    """An operation that waits for its first response."""

    operation: Operation
    began: float
    answer: Answer | None = None


@dataclass
class Tally:
    """What a session has seen so far."""

    first_responses: Counter[str] = field(default_factory=Counter)
    later_responses: int = 0
    divergences: list[dict[str, object]] = field(default_factory=list)


class Session:
    """See the module. Thread-safe; calls may be made at once and are executed in order."""

    def __init__(self, journal: Journal, *, stateful: bool, response_seconds: float) -> None:
        self.journal = journal
        self.stateful = stateful
        self.tally = Tally()
        self._response_seconds = response_seconds
        self._changed = threading.Condition()
        self._pending: dict[int, Pending] = {}
        self._digests: dict[int, tuple[str, bytes]] = {}
        self._feeds: dict[str, Feed] = {}

    def call(self, encode: Encode) -> Answer:
        """Execute one operation and give the first response.

        Raises NoResponse, and what the journal raises when it can be written nowhere.
        """
        began = time.monotonic()
        with self._changed:
            operation = self.journal.append(encode)
            pending = Pending(operation, began)
            self._pending[operation.number] = pending
        deadline = began + self._response_seconds
        with self._changed:
            try:
                while pending.answer is None or not self._acknowledged(pending):
                    if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                        raise self._no_response(operation)
            finally:
                del self._pending[operation.number]
            return pending.answer

    def add(self, endpoint: Endpoint, cursor: OperationNumber) -> Feed:
        """Let a replica take part, from the operation after `cursor` on."""
        feed = Feed(endpoint, cursor, self)
        with self._changed:
            previous = self._feeds.get(endpoint.name)
            self._feeds[endpoint.name] = feed
        if previous:
            previous.end()
        feed.start()
        return feed

    def drop(self, name: str) -> None:
        """Let a replica take part no more. Returns when its feed has ended or is hopeless."""
        with self._changed:
            feed = self._feeds.pop(name, None)
        if feed:
            feed.end()
            self.journal.wake()
            feed.join(timeout=5.0)

    def feeds(self) -> list[Feed]:
        with self._changed:
            return list(self._feeds.values())

    def close(self) -> None:
        for feed in self.feeds():
            self.drop(feed.name)
        self.journal.close()

    def wait_stable(self, timeout: float) -> bool:
        """Whether home has everything on disk, waiting up to `timeout` seconds for it."""
        with self._changed:
            return self._changed.wait_for(lambda: self.journal.stable >= self.journal.last, timeout)

    def acknowledge(self, number: OperationNumber) -> None:
        """Note that home has every operation up to that one on disk."""
        self.journal.acknowledge(number)
        with self._changed:
            self._changed.notify_all()

    def wanted(self, feed: Feed, limit: int) -> list[Operation]:
        """What a feed sends next. A stateless replica is spared what was answered already."""
        if feed.cursor >= self.journal.last:
            feed.reached_end()
        operations = self.journal.wait(feed.cursor, limit, timeout=0.5)
        if self.stateful:
            return operations
        with self._changed:
            open_ = [op for op in operations if self._is_open(op)]
        if operations and not open_:
            feed.cursor = operations[-1].number
        return open_[:1]

    def arrived(self, feed: Feed, responses: list[Response]) -> None:
        """Take responses from a feed: the first one of an operation is its answer."""
        now = time.monotonic()
        with self._changed:
            for response in responses:
                first = self._digests.setdefault(response.number, (feed.name, response.digest))
                if first[0] == feed.name:
                    self._answer(feed, response, now)
                else:
                    self._compare(feed, response, first)
            while len(self._digests) > DIGESTS_KEPT:
                del self._digests[next(iter(self._digests))]
            self._changed.notify_all()

    def lost(self, feed: Feed, error: SatchelError) -> None:
        """A replica is gone: the others go on."""
        logger.warning("replica at %s is lost: %s", feed.name, error)
        with self._changed:
            self._changed.notify_all()

    def _answer(self, feed: Feed, response: Response, now: float) -> None:
        pending = self._pending.get(response.number)
        if pending is None or pending.answer is not None:
            return
        self.tally.first_responses[feed.name] += 1
        pending.answer = Answer(
            number=response.number,
            payload=response.payload,
            leader=feed.name,
            seconds=now - pending.began,
            stable=self.journal.stable >= response.number,
        )

    def _compare(self, feed: Feed, response: Response, first: tuple[str, bytes]) -> None:
        self.tally.later_responses += 1
        if response.digest == first[1]:
            return
        logger.error(
            "operation %s: %s and %s answered differently", response.number, first[0], feed.name
        )
        self.tally.divergences.append(
            {"operation": response.number, "replicas": [first[0], feed.name]}
        )

    def _is_open(self, operation: Operation) -> bool:
        pending = self._pending.get(operation.number)
        return pending is not None and pending.answer is None

    def _acknowledged(self, pending: Pending) -> bool:
        beside_media = self.stateful and self.journal.failure is not None
        return not beside_media or self.journal.stable >= pending.operation.number

    def _no_response(self, operation: Operation) -> NoResponse:
        silent = ", ".join(f"{f.name} {f.state.value}" for f in self._feeds.values())
        return NoResponse(
            f"operation {operation.number} got no response in {self._response_seconds:.0f} s",
            why=f"replicas: {silent or 'none'}",
            fix="it is logged and is executed when a replica returns: do not send it again",
        )


__all__ = ["Answer", "FeedState", "NoResponse", "Session"]
