# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where in a service's volumes what was touched is not touched again in time: learnt by hindsight.

Of accesses that are past it can be said what would have been right to keep: what Belady's optimum
keeps until it is asked for again. Blocks that lie together behave alike, in the next checkpoint
too, and after another boot of the same image. So a region is cold if of its accesses few would have
been found by the next one. Jain and Lin (Hawkeye, ISCA 2016) learn by the instruction that
accesses; here it is the place.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

from surrogate import Key

REGION_BLOCKS = 64
"""Blocks of a region: those below one table page."""

WORTHWHILE = 0.25
"""A region is cold if a smaller part of its accesses than this would have been found again."""

Region = tuple[str, str, int]
"""Service, volume, number of the region in it."""


def region_of(service: str, volume: str, block: int) -> Region:
    return service, volume, block // REGION_BLOCKS


def cold_regions(accesses: Sequence[tuple[Key, Region]], capacity: int) -> frozenset[Region]:
    """Those in which a cache of that many chunks keeps nothing but briefly."""
    kept = _kept([key for key, _ in accesses], capacity)
    every = Counter(region for _, region in accesses)
    found = Counter(region for (_, region), again in zip(accesses, kept, strict=True) if again)
    return frozenset(r for r, count in every.items() if found[r] < WORTHWHILE * count)


def _kept(keys: Sequence[Key], capacity: int) -> list[bool]:
    """Of each access, whether Belady's optimum keeps the chunk until it is asked for again."""
    kept = [False] * len(keys)
    here: dict[Key, int] = {}  # when it was asked for last
    order: list[tuple[int, int]] = []  # the latest next access first; what is outdated stays in it
    upcoming = _next_accesses(keys)
    for now, key in enumerate(keys):
        if key in here:
            kept[here[key]] = True
        here[key] = now
        heapq.heappush(order, (-upcoming[now], now))
        while len(here) > capacity:
            _, when = heapq.heappop(order)
            if here.get(keys[when]) == when:
                del here[keys[when]]
    return kept


def _next_accesses(keys: Sequence[Key]) -> list[int]:
    upcoming = [0] * len(keys)
    seen: dict[Key, int] = {}
    for now in range(len(keys) - 1, -1, -1):
        upcoming[now] = seen.get(keys[now], 2 * len(keys))
        seen[keys[now]] = now
    return upcoming


__all__ = ["Region", "cold_regions", "region_of"]
