# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""CAFIO's Figures 6 to 10 in kind: launches of recorded services at one surrogate.

The paper launches 20 applications in an order that is drawn anew for each run, and takes
the time until each is shown, its cache's hits until then, and the speed of its reads. Here an
application is a recorded service, and a launch is a life of one of its machines from the resume to
the end of its first operation. All go through one cache of a quarter of what they read. What is not
there is fetched: a request takes a round trip and its bytes' time. The bound is a cache that has
room for everything, and nothing at first. So figures are of the recordings and the model of a link,
the same on every host. Only the cache differs: readahead and what the machine is streamed are left
out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from bench import Figure, figure
from caching import EvictionPolicy, Key, Lru, ThreeQueues
from papers.cafio.algorithm import Cafio, File
from papers.workloads.recording import HELD_OUT, RESPONSE, Life, Recording, recordings
from satchel.ids import BLOCK_SIZE

RUNS = 2
ROUNDS = 2
"""Launches of each service in a run."""

PART = 4
RUN_BLOCKS = 16
COMPRESSED = 0.4
"""Bytes on a link for a byte of content."""


@dataclass(frozen=True)
class Device:
    """What a cache stands on. seconds: a round trip to what has the rest; rate: bytes a second;
    part: a cache holds one of so many chunks that are read."""

    name: str
    seconds: float
    rate: float
    part: int


DEVICES = (
    Device("a medium over the paper's Wi-Fi", 0.005, 11e6 / 8, 4),
    Device("home over a link of today, twice the cache", 0.035, 20e6 / 8, 2),
)
"""Links of docs/testbed.md."""

RATIOS = ((1, 1, 1), (3, 1, 1), (1, 3, 1), (1, 1, 3))
"""Of Figure 9: of how many hot, warm and cold services launches are."""


@dataclass(frozen=True)
class Request:
    """gap: seconds since the one before; keys: contents that are read, or written over."""

    gap: float
    file: File
    write: bool
    keys: tuple[Key, ...]


Launch = Sequence[Request]


class Cache(Protocol):
    """What a launch goes through. `read` says how many of its contents were not there."""

    def begin(self, app: str) -> None: ...
    def read(self, now: float, request: Request) -> int: ...
    def write(self, now: float, request: Request) -> None: ...


class OfPolicy:
    """A policy as a cache of `capacity` contents."""

    def __init__(self, make: Callable[[int], EvictionPolicy], capacity: int) -> None:
        self._policy = make(capacity)
        self._left = capacity

    def begin(self, app: str) -> None:
        pass

    def write(self, now: float, request: Request) -> None:
        pass

    def read(self, now: float, request: Request) -> int:
        missed = 0
        for key in request.keys:
            if self._policy.touched(key) is not None:
                continue
            missed += 1
            if self._left:
                self._left -= 1
            else:
                self._policy.victims(1)
        return missed


class OfCafio:
    """CAFIO's as it is printed."""

    def __init__(self, capacity: int) -> None:
        self._cafio = Cafio(capacity)
        self._open: set[File] = set()

    def begin(self, app: str) -> None:
        self._open = set()

    def write(self, now: float, request: Request) -> None:
        for key in request.keys:
            self._cafio.write(now, request.file, key)

    def read(self, now: float, request: Request) -> int:
        if request.file not in self._open:
            self._open.add(request.file)
            self._cafio.opened(request.file)
        return sum(not self._cafio.read(now, request.file, key) for key in request.keys)


CACHES: Mapping[str, Callable[[int], Cache]] = {
    "LRU": lambda capacity: OfPolicy(Lru, capacity),
    "CAFIO": OfCafio,
    "ours": lambda capacity: OfPolicy(ThreeQueues, capacity),
}

BOUND = "a cache of everything"


@dataclass(frozen=True)
class LaunchFigures:
    """Of launches. seconds: until the first response, on average; hits: of what was read; speed:
    bytes read for each second of waiting for them."""

    seconds: float
    hits: float
    speed: float


_MEASURES: Sequence[tuple[str, str, Callable[[LaunchFigures], float]]] = (
    ("first response", "s", lambda one: one.seconds),
    ("hit ratio", "1", lambda one: one.hits),
    ("read speed", "MB/s", lambda one: one.speed / 1e6),
)


def figures() -> Iterator[Figure]:
    device = DEVICES[0]
    by_app = {name: measured(name, device) for name in (*CACHES, BOUND)}
    for app in sorted(by_app["LRU"]):
        yield from _of("launch", app, {name: found[app] for name, found in by_app.items()})
    for one in DEVICES:
        average = {name: _mean([*measured(name, one).values()]) for name in (*CACHES, BOUND)}
        yield from _of("launches", one.name, average)
    for ratio in RATIOS:
        label = f"launches, hot:warm:cold {ratio[0]}:{ratio[1]}:{ratio[2]}: first response"
        every = (*CACHES, BOUND)
        found = {n: _mean([*measured(n, device, ratio).values()]).seconds for n in every}
        least, lru = (BOUND, found[BOUND]), ("LRU", found["LRU"])
        for name in ("CAFIO", "ours"):
            yield figure(f"{label}, {name}", found[name], "s", against=lru, bound=least)


def _of(what: str, which: str, found: Mapping[str, LaunchFigures]) -> Iterator[Figure]:
    label, lru, most = f"{what}, {which}", found["LRU"], found[BOUND]
    for name in ("CAFIO", "ours"):
        one = found[name]
        for title, unit, pick in _MEASURES:
            against, bound = ("LRU", pick(lru)), (BOUND, pick(most))
            yield figure(f"{label}: {title}, {name}", pick(one), unit, against=against, bound=bound)


def _mean(found: Sequence[LaunchFigures]) -> LaunchFigures:
    count = len(found)
    return LaunchFigures(
        sum(one.seconds for one in found) / count,
        sum(one.hits for one in found) / count,
        sum(one.speed for one in found) / count,
    )


@cache
def measured(
    name: str, device: Device, ratio: tuple[int, int, int] = (1, 1, 1)
) -> dict[str, LaunchFigures]:
    """By service, over RUNS of launches in orders that are drawn."""
    launches = services()
    footprint = {key for ones in launches.values() for o in ones for r in o for key in r.keys}
    tallies = {app: _Tally() for app in launches}
    for seed in range(RUNS):
        part = 1 if name == BOUND else device.part
        held = CACHES["LRU" if name == BOUND else name](max(1, len(footprint) // part))
        now, counts = 0.0, dict.fromkeys(launches, 0)
        for app in _order(sorted(launches), ratio, random.Random(seed)):
            launch = launches[app][counts[app] % len(launches[app])]
            counts[app] += 1
            now = _launched(held, app, launch, now, device, tallies[app]) + 10.0
    return {app: tally.measured() for app, tally in tallies.items() if tally.launches}


def _order(apps: list[str], ratio: tuple[int, int, int], draw: random.Random) -> list[str]:
    """Each service ROUNDS times as often as its third's part of the ratio, in drawn order."""
    third = -(-len(apps) // 3)
    order: list[str] = []
    for _ in range(ROUNDS):
        one = [app for n, app in enumerate(apps) for _ in range(ratio[n // third])]
        draw.shuffle(one)
        order += one
    return order


@dataclass
class _Tally:
    launches: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    read: int = 0
    missed: int = 0

    def measured(self) -> LaunchFigures:
        size = self.read * BLOCK_SIZE
        return LaunchFigures(
            self.seconds / self.launches,
            1 - self.missed / max(1, self.read),
            size / max(self.waited, 1e-3),
        )


def _launched(
    held: Cache, app: str, launch: Launch, now: float, device: Device, tally: _Tally
) -> float:
    """When it had responded, which is added to what is known."""
    began = now
    held.begin(app)
    for request in launch:
        now += request.gap
        if request.write:
            held.write(now, request)
            continue
        missed = held.read(now, request)
        wait = device.seconds + missed * BLOCK_SIZE * COMPRESSED / device.rate if missed else 0.0
        now += wait
        tally.waited += wait
        tally.read += len(request.keys)
        tally.missed += missed
    tally.launches += 1
    tally.seconds += now - began
    return now


@cache
def services() -> dict[str, list[Launch]]:
    """By workload, the lives of its held-out recording that were resumed and have responded."""
    found = {one.workload: _launches(one) for one in recordings(HELD_OUT)}
    return {name: launches for name, launches in found.items() if launches}


def _launches(recording: Recording) -> list[Launch]:
    until = {
        number: min(
            (m.at for m in recording.marks if m.life == number and m.what.startswith(RESPONSE)),
            default=0,
        )
        for number, life in enumerate(recording.lives)
        if not life.booted
    }
    launches: dict[int, list[Request]] = {number: [] for number in until}
    written: dict[int, set[tuple[str, int]]] = {number: set() for number in until}
    gaps = dict.fromkeys(until, 0.0)
    for at, access in enumerate(recording.accesses):
        for number in gaps:
            gaps[number] += access.gap if launches[number] or number == access.life else 0.0
        number = access.life
        if at >= until.get(number, 0):
            continue
        life = recording.lives[number]
        blocks = [
            (access.volume, block)
            for block in range(access.first, access.first + access.count)
            if (access.volume, block) not in written[number]
        ]
        if access.write:
            written[number].update(blocks)
        for request in _requests(recording.workload, life, access.write, blocks):
            launches[number].append(replace(request, gap=gaps[number]))
            gaps[number] = 0.0
    return [requests for requests in launches.values() if requests]


def _requests(
    workload: str, life: Life, write: bool, blocks: Sequence[tuple[str, int]]
) -> Iterator[Request]:
    """One for each file that is touched."""
    runs: dict[tuple[str, int], list[Key]] = {}
    for volume, block in blocks:
        if content := life.content[volume].get(block):
            runs.setdefault((volume, block // RUN_BLOCKS), []).append((workload, content))
    for (volume, run), keys in runs.items():
        yield Request(0.0, (life.service, volume, run), write, tuple(keys))


__all__ = ["figures"]
