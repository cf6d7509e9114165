# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What each replica of a session does next: operations of the journal, and reads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from client.platform.settings import HOME
from client.session.feed import Feed
from client.session.journal import Journal
from client.session.provisional import ProvisionalAnswers
from client.session.reads import PendingRead
from client.session.sampling import ReadSampler
from replay import Operation

JOINED_LAG = 2
"""Operations that a replica may be behind and count as keeping up: in a busy session there is
always one under way. One that has executed all that there was when it was asked keeps up as well:
where many operations are under way at once, none is ever further."""

HELD_SECONDS = 0.05
"""How long home pauses if it gets nothing because a surrogate is reading the state before it."""


class Assignments:
    """See the module, and `client.session.feed.Work`. Thread-safe."""

    def __init__(
        self,
        journal: Journal,
        sampling: ReadSampler,
        provisional: ProvisionalAnswers,
        changed: threading.Condition,
    ) -> None:
        """provisional: hears how far home is. changed: the session's, with its lock."""
        self._journal = journal
        self._sampling = sampling
        self._provisional = provisional
        self._changed = changed

    def operations(self, feed: Feed, limit: int) -> list[Operation]:
        """See `Work`."""
        self._look_for_end(feed)
        journal = self._journal
        operations = journal.wait(feed.cursor, limit, timeout=feed.pause, called=feed.called)
        feed.aim = journal.last
        with self._changed:
            if feed.name == HOME:
                self._provisional.heard(feed.heard_at)
                self._provisional.executed(feed.cursor)
                held = self._sampling.held_after()
                given = [op for op in operations if held is None or op.number <= held]
                self._sampling.given(given)
                if operations and not given:
                    self._changed.wait(HELD_SECONDS)
                return given
        return operations

    def reads(self, feed: Feed, limit: int) -> Sequence[PendingRead]:
        """See `Work`."""
        self._look_for_end(feed)
        with self._changed:
            feed.called.clear()
            return self._sampling.due(feed, limit)

    def samples(self, feed: Feed, operations: Sequence[Operation]) -> Sequence[PendingRead]:
        """See `Work`."""
        with self._changed:
            return self._sampling.samples(feed, operations)

    def _look_for_end(self, feed: Feed) -> None:
        """Before anything is sent: a first operation may take long, and it has joined by then."""
        level = feed.aim is not None and feed.cursor >= feed.aim
        if level or self._journal.last - feed.cursor <= JOINED_LAG:
            feed.reached_end()
