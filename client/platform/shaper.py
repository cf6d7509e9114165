# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When the next piece of an answer may leave, so that little waits in front of the slowest link.

Pure: the time is an argument, in seconds of any clock that does not go back. Not thread-safe.

What was sent leaves the link at the rate at which the surrogate says that it arrives, times HASTE.
So the queue on the way is as long as QUEUE_SECONDS and a piece, and 3 % of one answer more.
What is under way in all is bounded by whoever asks.
"""

from __future__ import annotations

import bisect
import itertools

from wire import Priority

QUEUE_SECONDS = 0.005
"""What may wait on the way when a piece is sent."""

HASTE = 1.03
"""Or the link would never be seen to carry more than before."""

PIECE_BYTES = 8 << 10
PIECE_SECONDS = 0.005
"""A piece of an answer, whichever is more."""

MOST_RATE = 3e6
"""Over it answers leave whole: the largest are in the queue for less than 0.1 s, and what a
surrogate sees is as often what its processors do as what the link carries."""

LEAST_RATE = 32 << 10
"""Less is not believed: who says so would hold up the answers to others."""

Turn = tuple[int, int]
"""The rank of a priority, and who came first."""


class PathRate:
    """To one surrogate: what another one gets says nothing of it. A client that has walked reaches
    the one that it comes from over the Internet, and the next one over Wi-Fi.

    rate: bytes a second that arrive; 0: not known, or so many that nothing waits
    """

    def __init__(self) -> None:
        self.rate = 0.0

    def arrives(self, rate: float) -> None:
        """The surrogate says how many bytes a second it gets; 0: it does not know, as for a replica
        that begins. What it said before counts on then."""
        if rate:
            self.rate = max(rate, LEAST_RATE) if rate < MOST_RATE else 0.0

    @property
    def piece(self) -> int:
        """Bytes that are sent at once; 0: all."""
        return max(PIECE_BYTES, int(self.rate * PIECE_SECONDS)) if self.rate else 0


class Shaper:
    """See the module. All ways begin at this client's link."""

    def __init__(self) -> None:
        self._gone_at = 0.0  # when all that was sent has left the link
        self._numbers = itertools.count()
        self._turns: list[Turn] = []

    def join(self, priority: Priority) -> Turn:
        """Somebody has a piece to send."""
        turn = (priority.rank, next(self._numbers))
        bisect.insort(self._turns, turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """It was sent, or nobody wants it any more."""
        self._turns.remove(turn)

    def pause(self, turn: Turn, now: float) -> float | None:
        """Seconds until its piece may be sent; None: not before others were."""
        if self._turns[0] != turn:
            return None
        return max(0.0, self._gone_at - QUEUE_SECONDS - now)

    def sent(self, size: int, way: PathRate, now: float) -> None:
        if way.rate:
            self._gone_at = max(self._gone_at, now) + size / (HASTE * way.rate)
