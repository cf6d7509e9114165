# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a resumed machine stands still, over emulated links: recorded touches, replayed.

What is compared with is the fetcher that went from source to source, nearest first, in
the same run. The bound of a first response is the machine's own time and the bytes of what it
touched over the link's rate. Needs root, for the links.
"""

from __future__ import annotations

import functools
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.fetch.operations import operation_figures
from bench.fetch.prediction import WORKLOADS, prediction_figures
from bench.fetch.replay import Make, Replayed, Resume, learning, nearest
from bench.fetch.trace import FOLDER, Trace
from bench.fetch.world import SEED, SOCKETS, Origin, World, make_origin, world
from bench.harness import Figure, figure
from chunkstore import Store
from overlay import create_volume
from satchel.ids import BLOCK_SIZE
from surrogate import Fetcher, StoreSource
from testbed import PAPER, TODAY, Profile

SERVICES = ("notes",)

HANG_TOUCHES = 100
HANG_AT = 40
"""The stick hangs at this touch of so many, all fetched on demand."""

NO_WORSE = 1.1
"""Where both contestants wait for the link's rate, neither can be better."""

OVER_FETCH_GOAL = 0.25

OVERHEAD_GOAL_MS = 1.0
OVERHEAD_MISSES = 400


def figures() -> Iterator[Figure]:
    yield from _figures((PAPER, TODAY))
    yield from prediction_figures(False)


def quick_figures() -> Iterator[Figure]:
    yield from _figures((TODAY,))
    yield from prediction_figures(True)


PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "prediction": prediction_figures,
    **{f"prediction.{n}": functools.partial(prediction_figures, only=(n,)) for n in WORKLOADS},
}


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
                    yield from operation_figures(folder, trace, origin, links, profile)
                for path in SOCKETS:
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
        yield from self._foreseen(*streamed[0].foresight)
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

    def _foreseen(self, touched: int, foreseen: int, used: int) -> Iterator[Figure]:
        label = f"{self._label}: with the stream: brought ahead"
        of_used, of_touched = ("and used", used), ("touched", touched)
        vain = float(foreseen - used)
        yield figure(f"{label} in vain", vain, "blocks", against=of_used, at_most=OVER_FETCH_GOAL)
        yield figure(f"{label} and used", used, "blocks", against=of_touched)

    def _pair(self, *, stream: bool, home: bool, hang: bool = False) -> tuple[Replayed, Replayed]:
        """The same with either fetcher, one after the other."""
        run = functools.partial(self._replay, stream=stream, home=home, hang=hang)
        return run(learning), run(nearest)

    def _replay(self, make: Make, *, stream: bool, home: bool, hang: bool) -> Replayed:
        def before(number: int) -> None:
            if hang and number == HANG_AT:
                self._links.hang()

        sockets = {"media": self._links.media} | ({"home": self._links.home} if home else {})
        origin = self._origin
        resume = Resume(origin.roots, origin.working_set, self._touches, sockets, before)
        return resume.replay(self._folder, make, stream=stream, ended=self._links.restore)


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
