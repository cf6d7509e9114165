# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate's cache keeps, judged by recorded workloads: hit ratios at a quarter of the
footprint.

Ours is told what was cold in the training run of the workload, which no surrogate learns yet;
figures are those of the held-out run. The others are libCacheSim's, by the authors of S3-FIFO, and
the three queues of CAFIO with the score of that paper. Belady's optimum knows the future.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.cafio import Cafio
from bench.harness import Figure, figure
from bench.recording import HELD_OUT, TRAINING, Recording, recordings
from bench.regions import Region, cold_regions, region_of
from satchel.errors import UnsupportedError
from surrogate import Policy, ThreeQueues

PART = 4
"""A cache holds one of so many of the chunks that are asked for."""

LRU_LOW = 0.5
ABOVE_LRU = 1.45
OF_BELADY = 0.9
NO_WORSE = 0.99
NEVER = 1 << 62

PEERS = {"LRU": "LRU", "S3-FIFO": "S3FIFO", "ARC": "ARC", "Belady": "Belady"}


@dataclass(frozen=True)
class Asked:
    """What was asked for: numbers of contents, and of which region."""

    name: str
    keys: tuple[int, ...]
    regions: tuple[Region, ...]

    @classmethod
    def of(cls, recording: Recording) -> Asked:
        keys: list[int] = []
        regions: list[Region] = []
        for access, blocks in recording.read_blocks():
            service = recording.lives[access.life].service
            for block, number in blocks:
                keys.append(number)
                regions.append(region_of(service, access.volume, block))
        return cls(recording.workload, tuple(keys), tuple(regions))

    @functools.cached_property
    def capacity(self) -> int:
        """Chunks that the cache has room for."""
        return max(1, len(set(self.keys)) // PART)

    def cold(self) -> frozenset[Region]:
        return cold_regions(list(zip(self.keys, self.regions, strict=True)), self.capacity)


def figures() -> Iterator[Figure]:
    training = {r.workload: r for r in recordings(TRAINING)}
    for recording in recordings(HELD_OUT):
        asked = Asked.of(recording)
        yield from _compared(asked, Asked.of(training[asked.name]).cold())


def _compared(asked: Asked, cold: frozenset[Region]) -> Iterator[Figure]:
    found = {name: peer_hits(kind, asked) for name, kind in PEERS.items()}
    ours = hits(ThreeQueues(asked.capacity), asked, cold)
    lru, belady = found["LRU"], found["Belady"]
    label = f"cache {asked.name}: hit ratio"
    near = ours < ABOVE_LRU * lru and ours >= OF_BELADY * belady
    above, of_optimum = (None, OF_BELADY) if near else (ABOVE_LRU, None)
    if lru >= LRU_LOW:
        above = of_optimum = None
    yield figure(label, ours, "1", against=("LRU", lru), at_least=above)
    of_belady = f"{label}, of the optimum"
    yield figure(of_belady, ours, "1", against=("Belady", belady), at_least=of_optimum)
    better = max(lru, found["S3-FIFO"])
    against = ("the better of LRU and S3-FIFO", better)
    yield figure(f"{label}, never worse", ours, "1", against=against, at_least=NO_WORSE)
    for name in ("S3-FIFO", "ARC"):
        yield figure(f"{label}, {name}", found[name], "1", against=("Belady", belady))
    unlearnt = hits(ThreeQueues(asked.capacity), asked)
    yield figure(f"{label}, nothing learnt", unlearnt, "1", against=("Belady", belady))
    cafio = hits(Cafio(asked.capacity), asked)
    yield figure(f"{label}, CAFIO's queues", cafio, "1", against=("Belady", belady))


def hits(policy: Policy, asked: Asked, cold: frozenset[Region] = frozenset()) -> float:
    """The part of what was asked for that a cache with that policy had."""
    found = held = 0
    for key, region in zip(asked.keys, asked.regions, strict=True):
        if policy.touched(key, cold=region in cold) is not None:
            found += 1
        elif held == asked.capacity:
            assert policy.victims(1)
        else:
            held += 1
    return found / len(asked.keys)


def peer_hits(kind: str, asked: Asked) -> float:
    """The same of a policy of libCacheSim."""
    simulator = _simulator()
    cache = getattr(simulator, kind)(cache_size=asked.capacity)
    request = simulator.Request()
    request.obj_size = 1
    found = 0
    for now, (key, upcoming) in enumerate(zip(asked.keys, _upcoming(asked.keys), strict=True)):
        request.obj_id = key
        request.clock_time = now
        request.next_access_vtime = upcoming
        found += cache.get(request)
    return found / len(asked.keys)


def _simulator() -> Any:
    try:
        return importlib.import_module("libcachesim")
    except ImportError as error:
        fix = "run `scripts/bench cache`, which installs it"
        raise UnsupportedError("cannot compare caches", why="no libcachesim", fix=fix) from error


def _upcoming(keys: Sequence[int]) -> list[int]:
    """When each is asked for next."""
    upcoming = [NEVER] * len(keys)
    seen: dict[int, int] = {}
    for now in range(len(keys) - 1, -1, -1):
        upcoming[now] = seen.get(keys[now], NEVER)
        seen[keys[now]] = now
    return upcoming


__all__ = ["figures"]
