# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate's cache keeps, judged by recorded workloads: hit ratios at a quarter of the
footprint.

Ours is what a surrogate has, of which nothing was learnt before. Figures are those of the held-out
runs; what there is to set was set by the training runs (part `training`). The others
are libCacheSim's, by the authors of S3-FIFO, and CAFIO's as it is printed. Belady's optimum knows
the future. Part `launches` has that paper's Figures 6 to 10 in kind.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench import Figure, figure
from caching import EvictionPolicy, ThreeQueues
from papers.cafio import launches
from papers.cafio.algorithm import Cafio, File
from papers.cafio.launches import RUN_BLOCKS
from papers.workloads.recording import HELD_OUT, TRAINING, Recording, recordings
from satchel.errors import UnsupportedError

PART = 4
"""A cache holds one of so many of the chunks that are asked for."""

LRU_LOW = 0.5
ABOVE_LRU = 1.45
OF_BELADY = 0.9
NO_WORSE = 0.99
NEVER = 1 << 62

FIXED = "what is asked for most"

PEERS = {"LRU": "LRU", "S3-FIFO": "S3FIFO", "ARC": "ARC", "Belady": "Belady"}


@dataclass(frozen=True)
class CacheTrace:
    """What was asked for: numbers of contents."""

    name: str
    keys: tuple[int, ...]

    @classmethod
    def of(cls, recording: Recording) -> CacheTrace:
        keys = (number for _, numbers in recording.reads() for number in numbers)
        return cls(recording.workload, tuple(keys))

    @functools.cached_property
    def capacity(self) -> int:
        """Chunks that the cache has room for."""
        return max(1, len(set(self.keys)) // PART)


def figures() -> Iterator[Figure]:
    return _figures(HELD_OUT)


def training_figures(quick: bool) -> Iterator[Figure]:
    return _figures(TRAINING)


def launch_figures(quick: bool) -> Iterator[Figure]:
    """quick: makes no difference."""
    return launches.figures()


PARTS = {"training": training_figures, "launches": launch_figures}


def _figures(run: str) -> Iterator[Figure]:
    for recording in recordings(run):
        yield from _compared(recording, CacheTrace.of(recording))


def _compared(recording: Recording, asked: CacheTrace) -> Iterator[Figure]:
    found = {name: peer_hits(kind, asked) for name, kind in PEERS.items()}
    ours = hits(ThreeQueues(asked.capacity), asked)
    lru, belady = found["LRU"], found["Belady"]
    label = f"cache {asked.name}: hit ratio"
    near = ours < ABOVE_LRU * lru and ours >= OF_BELADY * belady
    above, of_optimum = (None, OF_BELADY) if near else (ABOVE_LRU, None)
    if lru >= LRU_LOW:
        above = of_optimum = None
    optimum = "Belady", belady
    yield figure(label, ours, "1", against=("LRU", lru), at_least=above, bound=optimum)
    of_belady = f"{label}, of the optimum"
    yield figure(of_belady, ours, "1", against=optimum, at_least=of_optimum, bound=optimum)
    better = "the better of LRU and S3-FIFO", max(lru, found["S3-FIFO"])
    name = f"{label}, never worse"
    yield figure(name, ours, "1", against=better, at_least=NO_WORSE, bound=optimum)
    others = {name: found[name] for name in ("S3-FIFO", "ARC")}
    others["CAFIO's score"] = cafio_hits(recording, asked.capacity)
    others[FIXED] = _fixed_hits(asked)
    for name, other in others.items():
        yield figure(f"{label}, {name}", other, "1", against=optimum, bound=optimum)


def hits(policy: EvictionPolicy, asked: CacheTrace) -> float:
    """The part of what was asked for that a cache with that policy had."""
    found = held = 0
    for key in asked.keys:
        if policy.touched(key) is not None:
            found += 1
        elif held == asked.capacity:
            assert policy.victims(1)
        else:
            held += 1
    return found / len(asked.keys)


def cafio_hits(recording: Recording, capacity: int) -> float:
    """The same of CAFIO's cache, which is told times, files and writes too."""
    cafio, opened = Cafio(capacity), set[tuple[int, File]]()
    now, found, asked = 0.0, 0, 0
    dirty: set[tuple[int, str, int]] = set()
    for access in recording.accesses:
        now += access.gap
        life = recording.lives[access.life]
        content = life.content[access.volume]
        for block in range(access.first, access.first + access.count):
            place = access.life, access.volume, block
            if block not in content or place in dirty:
                continue
            file = life.service, access.volume, block // RUN_BLOCKS
            if access.write:
                dirty.add(place)
                cafio.write(now, file, content[block])
                continue
            if (access.life, file) not in opened:
                opened.add((access.life, file))
                cafio.opened(file)
            asked += 1
            found += cafio.read(now, file, content[block])
    return found / asked


def _fixed_hits(asked: CacheTrace) -> float:
    """The same of a cache that knows how often each will be asked for, keeps those asked for most
    often, and nothing else."""
    most = Counter(asked.keys).most_common(asked.capacity)
    return sum(count - 1 for _, count in most) / len(asked.keys)


def peer_hits(kind: str, asked: CacheTrace) -> float:
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
        fix = "run `scripts/bench cafio`, which installs it"
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
