# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The reads that wait for answers, and the samples among them: see client.session.reads."""

from __future__ import annotations

from collections.abc import Callable

from client.platform.settings import HOME
from client.session.answers import Tally
from client.session.comparison import Comparison
from client.session.feed import Feed, PendingRead
from client.session.journal import Encode, Journal
from client.session.provisional import ProvisionalAnswers
from client.session.reads import SAMPLES_KEPT
from client.session.verification import Verification
from replay import Operation, Response
from satchel.ids import OperationNumber


class ReadSampler:
    """The reads of one session. Callers hold the session's lock."""

    def __init__(
        self,
        journal: Journal,
        provisional: ProvisionalAnswers,
        verification: Verification,
        tally: Tally,
        *,
        stateful: bool,
        draw: Callable[[], bool],
    ) -> None:
        """journal: numbers samples. provisional: takes note of answers that home has not confirmed.
        verification: compares answers. tally: counts samples and first responses. draw: whether the
        next read is a sample."""
        self._journal = journal
        self._provisional = provisional
        self._verification = verification
        self._tally = tally
        self._stateful = stateful
        self._draw = draw
        self._reads: list[PendingRead] = []
        self._answers: dict[PendingRead, Comparison] = {}  # of samples of a stateful service

    def begin(self, operation: Operation, encode: Encode, home: Feed | None) -> PendingRead:
        """Return a new read. If home answers at all, home is asked a sample at once; the sample's
        number is that of the next operation at this moment."""
        read = PendingRead(operation)
        for waiting in list(self._reads):
            self._sort_out(waiting)
        drawn = len(self._reads) < SAMPLES_KEPT and (self._draw() or self._provisional.half_full)
        if home and home.answers and drawn:
            read.apart = home
            if self._stateful:
                read.operation = self._journal.draft(encode)
                self._answers[read] = Comparison(HOME)
            home.called.set()
            self._journal.wake()
        self._reads.append(read)
        return read

    def has_number(self, read: PendingRead) -> bool:
        """Whether it is a sample of a stateful service, answered at its number only."""
        return read in self._answers

    def due(self, feed: Feed, limit: int) -> list[PendingRead]:
        """Return what the replica reads next, having executed what comes before. The replica of a
        stateless service is asked one at a time, so that no answer waits for another."""
        due = [read for read in self._reads if read.wanted_of(feed)]
        if not self._stateful:
            return due[:1]
        return [read for read in due if read.operation.number <= feed.cursor + 1][:limit]

    def held_from(self, feed: Feed) -> OperationNumber | None:
        """Return the first operation that the replica gets only after it has answered a sample.
        None: no sample holds it."""
        return min((r.operation.number for r in self._reads if self._holds(r, feed)), default=None)

    def take(self, feed: Feed, read: PendingRead, response: Response) -> None:
        """Take an answer: the first one counts. Those of a stateful service may differ, as the
        later one may have seen more operations, unless the read is a sample."""
        read.heard.add(feed)
        if not self._stateful or read in self._answers:
            among = self._answers.get(read)
            self._verification.check(feed, response, read.operation, among)
        elif read.response is not None:
            self._tally.later_responses += 1
        if read.response is None and self._provisional.takes(feed):
            read.response, read.leader = response, feed
            self._tally.first_responses[feed.name] += 1
            home_has_answered = any(other.name == HOME for other in read.heard)
            if not (self._provisional.trusts(feed.name) or home_has_answered):
                self._provisional.believe(read, compared=read.apart is not None)
        self._sort_out(read)

    def forget(self, read: PendingRead) -> None:
        """Ask no replica for it any more."""
        if read in self._reads:
            self._reads.remove(read)
        self._answers.pop(read, None)

    def _holds(self, read: PendingRead, feed: Feed) -> bool:
        """Whether the replica gets nothing behind that read before it has answered it."""
        if not self._stateful or read.apart is None or feed in read.heard:
            return False
        return read.response is None or read.wanted_of(feed)

    def _sort_out(self, read: PendingRead) -> None:
        """Forget a read that was answered by every replica that is going to."""
        if read.over and read in self._reads:
            self._tally.samples += read.apart is not None and len(read.heard) > 1
            self.forget(read)
