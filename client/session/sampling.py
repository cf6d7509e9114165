# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The reads that wait for answers, and the samples that home compares: see client.session.reads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from client.platform.settings import HOME
from client.session.answers import Tally
from client.session.comparison import Comparison
from client.session.feed import HEARTBEAT_SECONDS, Feed
from client.session.journal import Journal
from client.session.provisional import ProvisionalAnswers
from client.session.reads import SAMPLES_BYTES_KEPT, SAMPLES_KEPT, PendingRead
from client.session.verification import Verification
from replay import Operation, Response
from satchel.aligned_timers import next_tick
from satchel.ids import OperationNumber


class ReadSampler:
    """The reads of one session. Callers hold the session's lock.

    A read is `waiting` until it has its answer, then `undrawn` until lots are drawn, and `drawn` if
    it is a sample, until home has executed it. Home is given no operation before lots are drawn
    among the reads of the state before it, so it can execute each sample at the state of its
    answer.
    """

    def __init__(
        self,
        journal: Journal,
        provisional: ProvisionalAnswers,
        verification: Verification,
        tally: Tally,
        *,
        stateful: bool,
        sampled: int,
    ) -> None:
        """journal: is woken when home has something to do. provisional: takes note of answers that
        home has not confirmed. verification: compares answers. tally: counts samples and first
        responses. sampled: one read in so many is a sample; 0: none is."""
        self._journal = journal
        self._provisional = provisional
        self._verification = verification
        self._tally = tally
        self._stateful = stateful
        self._sampled = sampled
        self._home: Feed | None = None
        self._waiting: list[PendingRead] = []
        self._undrawn: list[PendingRead] = []
        self._drawn: list[PendingRead] = []
        self._passed = OperationNumber(0)  # the last operation that home was given
        self._due_at = 0.0

    def begin(self, operation: Operation, home: Feed | None) -> PendingRead:
        """Return a new read. home: the feed that compares samples."""
        self._home = home or self._home
        read = PendingRead(operation)
        self._waiting.append(read)
        return read

    def due(self, feed: Feed, limit: int) -> list[PendingRead]:
        """Return what the replica reads next, having executed what comes before. The replica of a
        stateless service is asked one at a time, so that no answer waits for another.

        A surrogate may have executed operations whose answers were lost: it reads nothing until it
        has answered them, so that the state of its answer is known.
        """
        due = [read for read in self._waiting if read.wanted_of(feed)]
        if not self._stateful:
            return due[:1]
        if feed.name != HOME and not feed.certain:
            return []
        due = [read for read in due if read.operation.number <= feed.cursor + 1][:limit]
        for read in due:
            read.states[feed] = feed.cursor
        return due

    def held_after(self) -> OperationNumber | None:
        """Return the last operation that home may be given: a surrogate alone is reading the state
        after it. None: nothing is held."""
        alone = [read for read in self._waiting if not read.asked_home]
        return min((read.earliest_state for read in alone), default=None)

    def given(self, operations: Sequence[Operation]) -> None:
        """Note that home is given these."""
        if operations:
            self._passed = max(self._passed, operations[-1].number)

    def take(self, feed: Feed, read: PendingRead, response: Response) -> None:
        """Take an answer: the first one counts. A stranger's counts only if home can still be
        asked about the same state."""
        read.heard.add(feed)
        if not self._stateful:
            self._verification.check(feed, response, read.operation)
        elif read.response is not None:
            self._tally.later_responses += 1
        if read.response is not None or not self._provisional.takes(feed):
            return
        comparable = not self._stateful or read.states[feed] >= self._passed
        trusted = self._provisional.trusts(feed.name)
        if not comparable and not trusted and self._home and self._home.answers:
            return
        read.response, read.leader = response, feed
        self._tally.first_responses[feed.name] += 1
        if feed.name != HOME and comparable and self._sampled:
            self._keep(read)
        if not (trusted or read.heard_home):
            self._provisional.believe(read, compared=False)
            if self._provisional.half_full:
                self.flush()

    def samples(self, feed: Feed, operations: Sequence[Operation]) -> list[PendingRead]:
        """Return the samples that go to home together with these operations."""
        if feed.name != HOME:
            return []
        last = operations[-1].number if operations else feed.cursor
        if time.monotonic() >= self._due_at:
            self.flush()
        elif self._stateful:
            self._draw([read for read in self._undrawn if read.state < last])
        return [read for read in self._drawn if not self._stateful or read.state <= last]

    def compared(self, feed: Feed, read: PendingRead, digest: bytes) -> None:
        """Take home's digest of its answer to a sample. Empty: home does not know it."""
        known = read in self._drawn
        if known:
            self._drawn.remove(read)
        if known and digest:
            self._tally.samples += 1
            read.heard.add(feed)
            among = Comparison(HOME) if self._stateful else None
            if read.leader and read.response and among:
                self._verification.check(read.leader, read.response, read.operation, among)
            response = Response(read.operation.number, b"", said=digest)
            self._verification.check(feed, response, read.operation, among)

    def want(self, read: PendingRead) -> None:
        """Have home execute this read now if it can, so that its answer is confirmed."""
        if read in self._drawn or read.heard_home or read.leader is None:
            return
        if not self._stateful or read.state >= self._passed:
            self._undrawn = [other for other in self._undrawn if other is not read]
            read.room = read.operation.record_size
            self._choose(read)

    def flush(self) -> None:
        """Draw lots among the reads that were answered since the last time."""
        self._draw(list(self._undrawn))

    @property
    def over(self) -> bool:
        """Whether home has no read to compare."""
        return not self._undrawn and not self._drawn

    def forget(self, read: PendingRead) -> None:
        """Ask no replica for it any more."""
        if read in self._waiting:
            self._waiting.remove(read)

    def _keep(self, read: PendingRead) -> None:
        if not self._undrawn:
            self._due_at = next_tick(HEARTBEAT_SECONDS)
        self._undrawn.append(read)
        size = sum(one.operation.record_size for one in self._undrawn)
        if len(self._undrawn) >= self._sampled or size > SAMPLES_BYTES_KEPT // 2:
            self.flush()

    def _draw(self, among: list[PendingRead]) -> None:
        """Make one of these a sample. It takes as much room as the largest of them, so that its
        size tells nothing."""
        self._undrawn = [read for read in self._undrawn if read not in among]
        among = [read for read in among if not read.heard_home]
        if among:
            chosen = secrets.choice(among)
            chosen.room = max(read.operation.record_size for read in among)
            self._choose(chosen)

    def _choose(self, read: PendingRead) -> None:
        self._drawn.append(read)
        while len(self._drawn) > SAMPLES_KEPT or (
            sum(one.room for one in self._drawn) > SAMPLES_BYTES_KEPT and len(self._drawn) > 1
        ):
            del self._drawn[secrets.randbelow(len(self._drawn))]
        if self._home:
            self._home.called.set()
            self._journal.wake()
