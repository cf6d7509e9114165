# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How much that nobody waits for may be under way at one source, by how long answers take.

Pure: the time is an argument, in seconds of any clock that does not go back. Not thread-safe.

The quickest answer of late shows how long the way is. What takes longer has waited on it, behind
others. Once what may be under way has been, and the quickest of these answers hardly waited, twice
as much may be. Else it is what makes an answer wait for QUEUE_SECONDS: what was under way when one
was asked for came within what that took. A rate that is learnt elsewhere does not come into it:
answers that are small beside the way look the same on a slow link and on a long one.

What is quickest is forgotten after a while, as a way may have become longer. Where answers always
wait behind each other, none shows it. So one small request then goes out without others.
(Vegas, LEDBAT: RFC 6817; the small request is BBR's ProbeRTT.)
"""

from __future__ import annotations

import math

QUEUE_SECONDS = 0.04
"""What a miss of the machine may find before it on the way."""

LEAST_BYTES = 16 << 10
FIRST_BYTES = 64 << 10
MOST_BYTES = 512 << 10

HARDLY = 0.25
"""Of QUEUE_SECONDS: what waits for less has not filled the link."""

MOST_GROWTH = 2.0
LEAST_GROWTH = 0.25
"""What may be under way beside what might be before, after each time that it was."""

LEAST_SECONDS = 1e-4

MEMORY_SECONDS = 4.0
"""After so long a quickest answer is the one of before, and after twice that forgotten."""


class Allowance:
    """See the module.

    bytes: what may be under way; probing: whether one small request is to go out without others
    """

    def __init__(self) -> None:
        self.bytes = FIRST_BYTES
        self.probing = True
        self._quickest = self._quickest_before = math.inf
        self._forget_at = math.inf
        self._round_began = -math.inf
        self._round_bytes = 0
        self._round_rate = 0.0
        self._round_quickest = math.inf

    @property
    def rate(self) -> float:
        """Bytes a second at which so much arrives within what it may take; 0 before the first
        answer."""
        return self.bytes / (self._way + QUEUE_SECONDS)

    @property
    def _way(self) -> float:
        return min(self._quickest, self._quickest_before)

    def answered(
        self, now: float, began: float, size: int, under_way: int, *, urgent: bool = False
    ) -> None:
        """An answer of `size` bytes.

        under_way: bytes that were when it was asked for, its own included; urgent: it is not of
        what this is about
        """
        took = max(now - began, LEAST_SECONDS)
        if self._way == math.inf:
            self._forget_at = now + MEMORY_SECONDS
        self._quickest = min(self._quickest, took)
        if began >= self._round_began:
            if self.probing:
                self.probing = urgent and under_way > LEAST_BYTES
            elif size and not urgent and 2 * under_way >= self.bytes:
                self._round_bytes += size
                self._round_quickest = min(self._round_quickest, took)
                self._round_rate = max(self._round_rate, under_way / took)
        if 2 * self._round_bytes >= self.bytes:
            self._judge()
            self._begin_round(now)
        if now >= self._forget_at:
            self._quickest_before, self._quickest = self._quickest, math.inf
            self._forget_at = now + MEMORY_SECONDS
            self.probing = True
            self._begin_round(now)

    def _judge(self) -> None:
        growth = self._round_rate * (self._way + QUEUE_SECONDS) / self.bytes
        if self._round_quickest - self._way < HARDLY * QUEUE_SECONDS:
            growth = MOST_GROWTH
        growth = min(max(growth, LEAST_GROWTH), MOST_GROWTH)
        self.bytes = min(max(int(growth * self.bytes), LEAST_BYTES), MOST_BYTES)

    def _begin_round(self, now: float) -> None:
        self._round_began = now
        self._round_bytes = 0
        self._round_rate = 0.0
        self._round_quickest = math.inf
