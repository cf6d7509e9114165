# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home was told that machines of a service touched elsewhere, until a checkpoint learns it.

It is in memory only, and a daemon that ends forgets it: it makes working sets better, and nothing
else. Who tells it is a surrogate, by way of the owner's client. A surrogate that lies makes a
working set bring what is not needed, for a generation or two.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from replica import AWAY, Access
from satchel.ids import BLOCK_SIZE

LIMIT = 8
"""Machines between two checkpoints; the newest count."""

BLOCKS_LIMIT = 1 << 15
"""Of one machine and volume, the first that it touched: 128 MiB. Twice what any workload of ours
touches."""


class RemoteTouches:
    """Of one service. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machines: deque[Mapping[str, tuple[int, ...]]] = deque(maxlen=LIMIT)

    def add(self, touched: Mapping[str, tuple[int, ...]]) -> None:
        """Of one machine, runs as wire.TouchReport has them."""
        with self._lock:
            self._machines.append(touched)

    def take(self, sizes: Mapping[str, int], now: float) -> list[list[Access]]:
        """Of each machine, the oldest first; it is forgotten here. sizes: bytes of the volumes that
        there are; of others, and beyond their ends, nothing is believed."""
        with self._lock:
            machines = list(self._machines)
            self._machines.clear()
        found = []
        for touched in machines:
            by_volume = [
                _accesses(name, touched[name], sizes[name] // BLOCK_SIZE, now)
                for name in sorted(touched)
                if name in sizes
            ]
            found.append([access for accesses in by_volume for access in accesses])
        return found


def _accesses(volume: str, numbers: Iterable[int], end: int, now: float) -> Iterator[Access]:
    numbers, left = iter(numbers), BLOCKS_LIMIT
    for first, count in zip(numbers, numbers, strict=True):
        taken = min(count, end - first, left)
        if taken > 0:
            left -= taken
            yield Access(now, AWAY, volume, first, taken)
