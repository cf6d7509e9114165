# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is learnt of one source while it works: round trip, rate, how often it has what is asked.

Pure: the time is an argument, in seconds of any clock that does not go back. Not thread-safe.

The rate is that of a pipeline, not of a request: bytes that arrived while requests were under way
without a pause, by the time that took, less one round trip; sums of both, not an average of rates:
answers that share a link end at once, and the second seems to have taken no time. What came slowly
because little was asked for says nothing, but that the link is at least as fast. The round trip is
the least that a lone request took; it creeps up again where all small ones take longer. What was
not asked of a source for long is believed less and less: the share of chunks that it has goes back
to what was assumed.
(As TCP estimates a path: RFC 6298 for the deviation, BBR for rate and round trip apart, and for
samples that the application limits.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

RATE_SAMPLE_BYTES = 32 << 10
"""What has to arrive without a pause before it says anything about the rate."""

RATE_MEMORY = 0.8
"""How much of what the rate was learnt from still counts with the next sample."""

FASTER_MEMORY = 0.5
"""The same where the sample is faster: each one can only be as fast as there was asked for."""

ROUND_TRIP_WEIGHT = 0.1
SMALL_BYTES = 4608
"""At least half of the time of an answer of twice this size counts as round trip, and less of a
larger one's: the rate that explains the rest may be what is wrong."""

HITS_WEIGHT = 0.2
DEVIATION_WEIGHT = 0.25

LEAST_SECONDS = 1e-4

MEMORY_SECONDS = 60.0
"""After so long without an answer two thirds of what was learnt about hits are forgotten."""

OVERDUE_DEVIATIONS = 4.0
OVERDUE_FACTOR = 2.0
OVERDUE_LEAST_SECONDS = 0.3
"""A request is overdue after twice its predicted time, and after four times the usual error."""

OVERDUE_UNKNOWN_SECONDS = 1.0
"""The same for a source of which nothing is known."""


@dataclass(frozen=True)
class Prior:
    """What is assumed of a source before it has answered: seconds, bytes/s, share of hits."""

    round_trip: float = 0.005
    rate: float = 2e6
    hits: float = 1.0


class Estimate:
    """See the module.

    measured: whether there was an answer; rate_known: whether the rate is more than assumed
    """

    def __init__(self, prior: Prior) -> None:
        self._prior = prior
        self.round_trip = prior.round_trip
        self.rate = prior.rate
        self.deviation = 0.0
        self.measured = False
        self.rate_known = False
        self.slowest = 0.0
        self._hits = prior.hits
        self._answered_at = -math.inf
        self._flying = 0
        self._flow_from = 0.0
        self._flow_bytes = 0
        self._flow_starts = self._flow_full = False
        self._bytes = self._seconds = 0.0

    def __str__(self) -> str:
        """One line for a log."""
        return (
            f"round trip {self.round_trip * 1e3:.1f} ms, rate {self.rate / 1e6:.2f} MB/s"
            f"{'' if self.rate_known else ' (assumed)'}, slowest answer {self.slowest:.1f} s"
        )

    @property
    def bandwidth_delay(self) -> float:
        """Bytes that are under way while the link is busy; 0 while that is not known."""
        return self.rate * self.round_trip if self.rate_known else 0.0

    def hits(self, now: float) -> float:
        """The share of what is asked for that it will have."""
        kept = math.exp(-max(0.0, now - self._answered_at) / MEMORY_SECONDS)
        return self._prior.hits + (self._hits - self._prior.hits) * kept

    def seconds(self, size: int, ahead: int) -> float:
        """How long an answer of `size` bytes takes behind `ahead` bytes that were asked before."""
        return self.round_trip + (ahead + size) / self.rate

    def overdue(self, predicted: float) -> float:
        """After how many seconds an answer that was predicted so is to be asked for elsewhere."""
        if not self.measured:
            return max(OVERDUE_UNKNOWN_SECONDS, OVERDUE_FACTOR * predicted)
        late = predicted + OVERDUE_DEVIATIONS * self.deviation + OVERDUE_LEAST_SECONDS
        return max(late, OVERDUE_FACTOR * predicted)

    def idle_since(self, now: float) -> float:
        """Seconds since its last answer; infinite before the first."""
        return now - self._answered_at

    def sent(self, now: float) -> None:
        """A request leaves."""
        if self._flying == 0:
            self.restarted(now)
        self._flying += 1

    def restarted(self, now: float) -> None:
        """What is under way begins to come from here on."""
        self._begin_sample(now, starts=True)

    def gone(self) -> None:
        """A request has ended without an answer."""
        self._flying -= 1

    def answered(
        self, now: float, began: float, size: int, predicted: float, *, alone: bool, full: bool
    ) -> None:
        """An answer of `size` bytes has come whole.

        predicted: seconds it was to take; alone: no other request was under way when it began;
        full: the link was busy, and more was waited for
        """
        took = max(now - began, LEAST_SECONDS)
        self._flying -= 1
        self._answered_at = now
        self.slowest = max(took, 0.9 * self.slowest)
        if size:
            self._flow(now, size, full=full)
        self._learn_round_trip(took, size, alone=alone)
        if self.measured:
            self.deviation += DEVIATION_WEIGHT * (abs(took - predicted) - self.deviation)
        else:
            self.deviation = took / 2
        self.measured = True

    def had(self, asked: int, got: int) -> None:
        """Of `asked` chunks the source had `got`."""
        if asked:
            weight = 1.0 - (1.0 - HITS_WEIGHT) ** min(asked, 16)
            self._hits += weight * (min(got, asked) / asked - self._hits)

    def _flow(self, now: float, size: int, *, full: bool) -> None:
        lone = self._flow_starts and not self._flow_bytes
        self._flow_full &= full
        self._flow_bytes += size
        if self._flow_bytes < RATE_SAMPLE_BYTES:
            return
        took = now - self._flow_from
        if self._flow_starts:
            took = max(took - self.round_trip, took / 4)
        took = max(took, LEAST_SECONDS)
        faster = self._flow_bytes > self.rate * took
        if not self.rate_known or lone or self._flow_full or faster:
            memory = FASTER_MEMORY if faster else RATE_MEMORY
            self._bytes = memory * self._bytes + self._flow_bytes
            self._seconds = memory * self._seconds + took
            self.rate = self._bytes / self._seconds
            self.rate_known = True
        self._begin_sample(now, starts=False)

    def _begin_sample(self, now: float, *, starts: bool) -> None:
        self._flow_from, self._flow_bytes = now, 0
        self._flow_starts, self._flow_full = starts, True

    def _learn_round_trip(self, took: float, size: int, *, alone: bool) -> None:
        part = min(0.5, SMALL_BYTES / max(size, 1))
        least = max(took - size / self.rate, part * took, LEAST_SECONDS)
        if not self.measured or least < self.round_trip:
            self.round_trip = least if alone or not self.measured else min(self.round_trip, took)
        elif alone and size / self.rate < self.round_trip:
            self.round_trip += ROUND_TRIP_WEIGHT * (least - self.round_trip)
