# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a schedule keeps: how each source stands, what is wanted, what is under way. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from chunkstore import PageRange
from satchel.ids import BLOCK_SIZE, ChunkRef
from surrogate.fetching.estimate import Estimate, Prior
from wire import Priority

Key = ChunkRef | PageRange
"""What is wanted: a chunk's reference, or a place below a page."""

BATCH = 512
"""Wants in one request at most."""

URGENT_REQUESTS = 12
"""Requests under way at one source at most."""

STEADY_REQUESTS = 4
"""The same for a request that nobody waits for."""

URGENT_BATCH_SECONDS = 0.5

ASIDE_SECONDS = 0.02
ASIDE_BYTES = 120_000
AHEAD_SECONDS = 0.05
AHEAD_BYTES = 512 << 10
ASIDE_LEAST_BYTES = 8 << 10
"""What a request that nobody waits for may take; what the machine waits for may be behind it. Where
it is the only one, as in the background, it may be larger. On a long link it is as large as fills
that with a few requests, and by a block more: else whole blocks leave a part of it empty, and the
rate that is seen confirms itself."""

WHOLE_BLOCK_BYTES = BLOCK_SIZE + 64
"""What a block takes that is not compressed, with its header."""

FIRST_BATCH_BYTES = 128 << 10
LEAST_BATCH_BYTES = 32 << 10
"""What is asked for in one request while the rate is not known: when urgent, and otherwise. As much
as shows the rate."""

MOST_BATCH_BYTES = 1 << 20

FAST_RATE = 3e6
"""Bytes a second. Over it a request takes longer at both ends than on the link, so that the next
one is to be under way meanwhile; and what it brings holds up little."""

FORGOTTEN_SECONDS = 60.0
"""A source that has not answered for so long is not known any more."""

SILENCE_FACTOR = 6.0
LEAST_SILENCE_SECONDS = 3.0
FIRST_SILENCE_SECONDS = 15.0
MOST_SILENCE_SECONDS = 60.0
"""A source may be silent for six times its slowest recent request, within these bounds. Before its
rate is known that says nothing yet, and each silence in a row doubles the next: requests that wait
behind each other on a slow link must not all be given up for ever."""


class SourceState:
    """How one source stands, and what is under way there. Compared by identity.

    usable_from: when it may be asked again; on_trial: it failed and has not answered since
    """

    def __init__(self, name: str, prior: Prior) -> None:
        self.name = name
        self.estimate = Estimate(prior)
        self.flying: dict[int, Dispatch] = {}
        self.flying_bytes = 0
        self.usable_from = -math.inf
        self.on_trial = False
        self.faults_in_row = 0

    @property
    def silence(self) -> float:
        """Seconds without a byte after which the connection counts as dead: a person who walked
        away leaves one that never says so."""
        least = LEAST_SILENCE_SECONDS if self.estimate.rate_known else FIRST_SILENCE_SECONDS
        patience = max(SILENCE_FACTOR * self.estimate.slowest, least)
        return min(patience * (1 << min(self.faults_in_row, 8)), MOST_SILENCE_SECONDS)

    def known(self, now: float) -> bool:
        """Whether it has answered lately."""
        return self.estimate.idle_since(now) < FORGOTTEN_SECONDS

    def late(self, now: float) -> float:
        """Seconds by which it is overdue with what it was asked for longest ago."""
        return max((now - d.overdue_at for d in self.flying.values() if d.overdue), default=0.0)

    def room(self, priority: Priority) -> int:
        """How many more requests it may get now."""
        if self.on_trial:
            return 0 if self.flying else 1
        if priority is Priority.DEMAND:
            return URGENT_REQUESTS - len(self.flying)
        if priority is Priority.BACKGROUND:
            return 0 if self.flying else 1
        batch = self.batch_bytes(priority)
        fills = 2 * batch if self.estimate.rate > FAST_RATE else batch
        enough = max(self._busy_bytes, fills)
        busy = len(self.flying) >= STEADY_REQUESTS or self.flying_bytes > enough
        return 0 if busy else 1

    @property
    def _busy_bytes(self) -> float:
        """Bytes under way with which the link is always busy."""
        return 2 * self.estimate.bandwidth_delay

    def batch_bytes(self, priority: Priority) -> int:
        """What one request may ask for."""
        estimate = self.estimate
        if priority is Priority.DEMAND:
            if not estimate.rate_known:
                return FIRST_BATCH_BYTES
            fits = int(URGENT_BATCH_SECONDS * estimate.rate)
            return min(max(fits, LEAST_BATCH_BYTES), MOST_BATCH_BYTES)
        if not estimate.rate_known:
            return LEAST_BATCH_BYTES
        if priority is Priority.BACKGROUND:
            return max(min(int(AHEAD_SECONDS * estimate.rate), AHEAD_BYTES), ASIDE_LEAST_BYTES)
        aside = min(int(ASIDE_SECONDS * estimate.rate), ASIDE_BYTES)
        fills = int(self._busy_bytes / (STEADY_REQUESTS - 1)) + WHOLE_BLOCK_BYTES
        return max(aside, min(fills, MOST_BATCH_BYTES), ASIDE_LEAST_BYTES)


@dataclass(eq=False)
class Want:
    """One thing that is waited for.

    size: bytes of an answer, about; standings: who may be asked, the nearest first; lacking: who
    has it not; flying: where it is under way; search_at: when all are asked again
    """

    key: Key
    size: int
    priority: Priority
    standings: list[SourceState]
    lacking: set[SourceState] = field(default_factory=set)
    flying: set[SourceState] = field(default_factory=set)
    search_at: float = -math.inf

    def may(self, standing: SourceState, now: float) -> bool:
        """Whether that source can be asked for it now."""
        return (
            standing.usable_from <= now
            and standing not in self.lacking
            and standing not in self.flying
            and standing in self.standings
        )

    def candidates(self, now: float) -> list[SourceState]:
        """Who can be asked; those on trial only where nobody else can, nor has been."""
        able = [standing for standing in self.standings if self.may(standing, now)]
        trusted = [standing for standing in able if not standing.on_trial]
        return trusted if trusted or self.flying else able


@dataclass(eq=False)
class Dispatch:
    """One request under way.

    predicted: seconds; overdue_at: when it is asked for elsewhere too; alone: nothing else was
    under way there when it began
    """

    number: int
    standing: SourceState
    wants: list[Want]
    priority: Priority
    size: int
    began: float
    predicted: float
    overdue_at: float
    alone: bool
    overdue: bool = False

    @property
    def keys(self) -> list[Key]:
        return [want.key for want in self.wants]
