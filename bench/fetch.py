# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a resumed machine stands still, over emulated links: recorded touches, replayed.

Each touch of a trace comes as long after the answer to the one before as the real machine ran in
between. What is compared with is the fetcher that went from source to source, nearest first, in
the same run. The bound of a first response is the machine's own time and the bytes of what it
touched over the link's rate. Needs root, for the links.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.fetch_trace import FOLDER, Trace
from bench.fetch_world import SEED, Origin, World, make_origin, world
from bench.harness import Figure, figure
from bench.nearest_first import NearestFirst
from chunkstore import BlockState, Store
from overlay import Volume, create_volume
from satchel.ids import BLOCK_SIZE
from surrogate import Fetcher, Prefetcher, SocketSource, StoreSource
from testbed import PAPER, TODAY, Profile

READAHEAD_BLOCKS = 32
SERVICES = ("notes",)

HANG_TOUCHES = 100
HANG_AT = 40
"""The stick hangs at this touch of so many, all fetched on demand."""

NO_WORSE = 1.1
"""Where both contestants wait for the link's rate, neither can be better."""

LEAST_SLEEP = 0.001
"""A sleep is a little too long each time: gaps are saved up to this many seconds."""

OVERHEAD_GOAL_MS = 1.0
OVERHEAD_MISSES = 400


class _Fetching(Protocol):
    """What both contestants have."""

    def resolve(self, volume: Volume, first: int, count: int) -> None: ...
    def close(self) -> None: ...


Make = Callable[[Store, list[SocketSource]], _Fetching]


@dataclass
class Replayed:
    """seconds: until the first response; stalls: of each touch that had to wait."""

    seconds: float = 0.0
    stalls: list[float] = field(default_factory=list)

    @property
    def stalled(self) -> float:
        return sum(self.stalls)

    @property
    def longest(self) -> float:
        return max(self.stalls, default=0.0)


def _learning(store: Store, sources: list[SocketSource]) -> _Fetching:
    return Fetcher(store, sources, READAHEAD_BLOCKS)


def _nearest(store: Store, sources: list[SocketSource]) -> _Fetching:
    return NearestFirst(store, sources, READAHEAD_BLOCKS)


def figures() -> Iterator[Figure]:
    yield from _figures((PAPER, TODAY))


def quick_figures() -> Iterator[Figure]:
    yield from _figures((TODAY,))


def _figures(profiles: tuple[Profile, ...]) -> Iterator[Figure]:
    yield _overhead()
    for service in SERVICES:
        trace = Trace.load(FOLDER / f"{service}.json")
        with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
            folder = Path(name)
            origin = make_origin(folder, trace)
            for profile in profiles:
                with world(folder, profile, origin) as links:
                    bench = _Bench(folder, trace, origin, links, profile)
                    yield from bench.compare()
                for path in ("h", "hc", "r", "m", "sm", "sh"):
                    (folder / path).unlink(missing_ok=True)
            origin.media.close()
            origin.store.close()


class _Bench:
    """One trace over the links of one profile."""

    def __init__(
        self, folder: Path, trace: Trace, origin: Origin, links: World, profile: Profile
    ) -> None:
        self._folder = folder
        self._trace = trace
        self._origin = origin
        self._links = links
        self._label = f"fetch {trace.service}, {profile.name}"
        self._rate = profile.wifi / 8
        self._touches = trace.touches[: trace.response]

    def compare(self) -> Iterator[Figure]:
        ran = sum(touch.gap for touch in self._touches)
        yield figure(f"{self._label}: machine's own time until the first response", ran, "s")
        lazy = self._pair(stream=False, home=False)
        yield from self._told("on demand, from media", *lazy)
        streamed = self._pair(stream=True, home=True)
        yield from self._told("with the stream", *streamed)
        bound = ran + self._origin.working_set.size / self._rate
        yield figure(
            f"{self._label}: with the stream: first response, and the bound",
            streamed[0].seconds,
            "s",
            against=("machine's time and the working set over the link's rate", bound),
        )
        demand = ("on demand", lazy[0].stalled)
        what = f"{self._label}: stalls with the stream, and without"
        yield figure(what, streamed[0].stalled, "s", against=demand)
        self._touches = self._touches[:HANG_TOUCHES]
        pulled = self._pair(stream=False, home=True, hang=True)
        label = f"{self._label}: the stick hangs, {HANG_TOUCHES - HANG_AT} touches later"
        other = ("nearest first", pulled[1].stalled)
        yield figure(f"{label}: stalls", pulled[0].stalled, "s", against=other, at_most=1.0)
        other = ("nearest first", pulled[1].longest)
        yield figure(f"{label}: longest stall", pulled[0].longest, "s", against=other, at_most=1.0)

    def _told(self, what: str, mine: Replayed, other: Replayed) -> Iterator[Figure]:
        name = "nearest first"
        stalled, seconds = (name, other.stalled), (name, other.seconds)
        label = f"{self._label}: {what}"
        yield figure(f"{label}: stalls", mine.stalled, "s", against=stalled, at_most=NO_WORSE)
        response = f"{label}: first response"
        yield figure(response, mine.seconds, "s", against=seconds, at_most=NO_WORSE)

    def _pair(self, *, stream: bool, home: bool, hang: bool = False) -> tuple[Replayed, Replayed]:
        """The same with either fetcher, one after the other."""
        mine = self._replay(_learning, stream=stream, home=home, hang=hang)
        return mine, self._replay(_nearest, stream=stream, home=home, hang=hang)

    def _replay(self, make: Make, *, stream: bool, home: bool, hang: bool) -> Replayed:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            with Store.create(folder / "cache") as cache:
                sources = [SocketSource("media", self._links.media)]
                if home:
                    sources.append(SocketSource("home", self._links.home))
                fetcher = make(cache, sources)
                volumes = {
                    name: create_volume(folder, name, root)
                    for name, root in self._origin.roots.items()
                }
                ahead = Prefetcher(cache, fetcher, self._origin.working_set)  # type: ignore[arg-type]
                try:
                    if stream:
                        ahead.start(volumes)
                    resolve = ahead.resolve if stream else fetcher.resolve
                    return self._touch(volumes, resolve, hang=hang)
                finally:
                    fetcher.close()
                    self._links.restore()
                    ahead.join()
                    for volume in volumes.values():
                        volume.remove()

    def _touch(
        self,
        volumes: dict[str, Volume],
        resolve: Callable[[Volume, int, int], None],
        *,
        hang: bool,
    ) -> Replayed:
        found = Replayed()
        began = due = time.monotonic()
        for number, touch in enumerate(self._touches):
            if hang and number == HANG_AT:
                self._links.hang()
            due += touch.gap
            if (early := due - time.monotonic()) > LEAST_SLEEP:
                time.sleep(early)
            volume = volumes[touch.volume]
            blocks = range(touch.first, touch.first + touch.count)
            if any(volume.map.entry(block).state is BlockState.ABSENT for block in blocks):
                missed = time.monotonic()
                resolve(volume, touch.first, touch.count)
                found.stalls.append(time.monotonic() - missed)
                due += found.stalls[-1]
        found.seconds = time.monotonic() - began
        return found


def _overhead() -> Figure:
    """What a surrogate adds to a miss: one chunk after the other from a store in this process, so
    that nothing else takes time."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        with Store.create(folder / "home") as home, Store.create(folder / "cache") as cache:
            path = folder / "disk"
            path.write_bytes(random.Random(SEED).randbytes(OVERHEAD_MISSES * BLOCK_SIZE))
            root = home.import_file(path)
            volume = create_volume(folder, "disk0", root)
            fetcher = Fetcher(cache, [StoreSource("home", home)], 1)
            seconds = []
            for block in range(OVERHEAD_MISSES):
                began = time.perf_counter()
                fetcher.resolve(volume, block, 1)
                seconds.append(time.perf_counter() - began)
            fetcher.close()
            volume.remove()
    added = statistics.median(seconds) * 1e3
    return figure("fetch: added to a miss", added, "ms", at_most=OVERHEAD_GOAL_MS)


__all__ = ["figures", "quick_figures"]
