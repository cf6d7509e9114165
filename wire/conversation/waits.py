# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""For how long something waits for the other side of a conversation."""

from __future__ import annotations

import time
from typing import Protocol

ANSWER_SECONDS = 10.0
"""Least time that a connected side gets to answer. It may wait for others itself: for a node of a
share until its lease is over."""


class FrameCounts(Protocol):
    """A conversation, as far as a wait needs it.

    sent, taken: frames that were sent, and of these, those that the other side has; written, came:
    parts that went over a connection, and parts of long frames that came
    """

    @property
    def connected(self) -> bool: ...
    @property
    def sent(self) -> int: ...
    @property
    def taken(self) -> int: ...
    @property
    def written(self) -> int: ...
    @property
    def came(self) -> int: ...


class Wait:
    """One wait for the other side, which begins when this is made. Not thread-safe.

    Nothing is given up because a connection is slow: the time begins anew with each part that goes
    out of frames sent before the wait, and with each part of a long frame that comes.
    """

    def __init__(self, counts: FrameCounts) -> None:
        self._counts, self._before = counts, counts.sent
        self._arrives = True
        self._since = time.monotonic()
        self._seen = (counts.written, counts.came)

    def over(self, patience: float, *, before: float = 0.0, busy: bool = False) -> float:
        """Return the seconds of the wait if it has to end, else 0. Call it often. before: seconds
        that an earlier wait for the same took; busy: as for `seconds`."""
        seconds = before + self.seconds(busy=busy)
        limit = max(patience, ANSWER_SECONDS) if self._counts.connected else patience
        return seconds if seconds > limit else 0.0

    def seconds(self, *, busy: bool = False) -> float:
        """Return the time that counts. Call it often: it compares with the last call. busy: whether
        the wait is also for frames that are sent later."""
        counts = self._counts
        arrives, seen = counts.taken < self._before, (counts.written, counts.came)
        moved = seen[1] != self._seen[1] or (seen[0] != self._seen[0] and (arrives or busy))
        if moved or (self._arrives and not arrives):
            self._since = time.monotonic()
        self._arrives, self._seen = arrives, seen
        return time.monotonic() - self._since
