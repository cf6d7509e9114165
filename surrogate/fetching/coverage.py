# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How much of a replica's volumes is here, on the way, or changed, and where it came from.

A volume is told of in parts of equal size, so that the numbers of a large one are as few as those
of a small one.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chunkstore import BlockState
from volumes import Volume
from wire import PartNumbers, VolumeNumbers

PARTS = 64
"""Of a volume, at most."""

CACHE = "cache"
"""Where blocks came from that nobody was asked for."""

Span = tuple[Volume, int, int]
"""Blocks of a volume: the first, and how many."""

Part = tuple[str, int]
"""A volume and the number of one of its parts."""


class Coverage:
    """See the module. Thread-safe; for one replica."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._coming: Counter[Part] = Counter()
        self._brought: defaultdict[Part, Counter[str]] = defaultdict(Counter)

    @contextmanager
    def coming(self, spans: Sequence[Span]) -> Iterator[Counter[str]]:
        """Within it these blocks are on their way. Whoever brings them counts chunks by source in
        what it is given; who fails has brought none."""
        blocks = Counter[Part]()
        for span in spans:
            blocks.update(dict(_by_part(*span)))
        chunks = Counter[str]()
        with self._lock:
            self._coming.update(blocks)
        try:
            yield chunks
        finally:
            with self._lock:
                self._coming.subtract(blocks)
        source = max(chunks, key=chunks.__getitem__, default=CACHE)
        with self._lock:
            for part, count in blocks.items():
                self._brought[part][source] += count

    def numbers(self, volume: Volume) -> VolumeNumbers:
        """A volume now."""
        step = _step(volume)
        firsts = range(0, volume.blocks, step)
        parts = tuple(self._part(volume, n, first, step) for n, first in enumerate(firsts))
        return VolumeNumbers(volume.name, volume.blocks, parts)

    def _part(self, volume: Volume, number: int, first: int, step: int) -> PartNumbers:
        states = volume.map.counts(first, min(step, volume.blocks - first))
        absent = states[BlockState.ABSENT]
        with self._lock:
            brought = self._brought.get((volume.name, number))
            fetching = min(absent, max(0, self._coming[volume.name, number]))
        return PartNumbers(
            absent=absent - fetching,
            fetching=fetching,
            present=states[BlockState.ZERO] + states[BlockState.PACKED],
            dirty=states[BlockState.DIRTY],
            source=max(brought, key=brought.__getitem__) if brought else None,
        )


def _step(volume: Volume) -> int:
    """Blocks of a part."""
    return max(1, -(-volume.blocks // PARTS))


def _by_part(volume: Volume, first: int, count: int) -> Iterator[tuple[Part, int]]:
    step = _step(volume)
    while count:
        here = min(count, step - first % step)
        yield (volume.name, first // step), here
        first, count = first + here, count - here
