# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Watches what a machine touches, for the profile of its service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from chunkstore import BlockState
from replica.profile import RESUME, RUN_BLOCKS, Access, RunKey
from volumes import Resolver, Volume

LIMIT = 1 << 16
"""Accesses that are kept until they are taken."""


class Recorder:
    """A resolver that notes what it is asked for, and in which phase, before it asks another one.

    Outside of any phase it notes nothing. Thread-safe.
    """

    def __init__(self, resolver: Resolver, phase: Callable[[], str]) -> None:
        self._resolver = resolver
        self._phase = phase
        self._lock = threading.Lock()
        self._accesses: list[Access] = []
        self._volumes: dict[str, Volume] = {}
        self._asked: set[tuple[str, int]] = set()
        self._looked: dict[str, int] = {}

    def __call__(self, volume: Volume, first: int, count: int) -> bytes | None:
        phase, now = self._phase(), time.time()
        with self._lock:
            if phase and len(self._accesses) < LIMIT:
                self._volumes[volume.name] = volume
                self._accesses.append(Access(now, phase, volume.name, first, count))
                self._asked.update((volume.name, n) for n in range(first, first + count))
        return self._resolver(volume, first, count)

    def take(self, known: Collection[RunKey] = ()) -> list[Access]:
        """What was asked for since the last call, in that order; then of the `known` runs what the
        machine has written and not committed, and what it found there. The machine runs, or has
        run."""
        with self._lock:
            accesses, self._accesses = self._accesses, []
            now = time.time()
            for name, volume in self._volumes.items():
                indices = [index for which, index in known if which == name]
                accesses += _written(volume, indices, now)
                if accesses[:1] and accesses[0].phase == RESUME:
                    accesses += self._found(volume, set(indices), now)
            return accesses

    def _found(self, volume: Volume, indices: set[int], now: float) -> list[Access]:
        touched = volume.map.touched()
        new = touched[self._looked.get(volume.name, 0) :]
        self._looked[volume.name] = len(touched)
        return [
            Access(now, "", volume.name, block, hit=True)
            for block in new
            if block // RUN_BLOCKS in indices and (volume.name, block) not in self._asked
        ]


def _written(volume: Volume, indices: list[int], now: float) -> list[Access]:
    accesses = []
    for index in indices:
        first = index * RUN_BLOCKS
        count = min(RUN_BLOCKS, volume.blocks - first)
        if volume.map.counts(first, count)[BlockState.DIRTY]:
            accesses += [
                Access(now, "", volume.name, block, write=True)
                for block in range(first, first + count)
                if volume.map.entry(block).state is BlockState.DIRTY
            ]
    return accesses
