# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The cost of a resume: `notes` is booted, checkpointed, and resumed on an empty host.

This process models the link to the source: the paper's Wi-Fi with a round trip of 5 ms and 11 Mb/s.
`resume.budget` has a medium that is too small for the state, over that link or a Wi-Fi of today.
The rest comes from home over a further link. Builds the image if it is missing.
"""

from __future__ import annotations

import contextlib
import lzma
import math
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.harness import Figure, figure
from bench.notes import (
    SERVICE,
    add_note,
    frozen_in,
    notes_checkpoint,
    notes_home,
    replica_of,
)
from chunkstore import PageRange, Store, records_below
from homeserver import Home
from images import Manifest
from media import Media
from replica import Replica
from satchel.ids import BLOCK_SIZE
from surrogate import Fetcher, Prefetcher, Prior
from testbed import PAPER, TODAY
from volumes import Volume, local_resolver
from wire import Priority

ROUND_TRIP = 0.005
RATE = 11e6 / 8
LAZY_GOAL = 0.15
READAHEAD_BLOCKS = 32
WARM_OPERATIONS = 40

BUDGET_GOAL = 1.3
BUDGET_ROUNDS = 3


@dataclass(frozen=True)
class LinkModel:
    """Seconds there and back, and bytes a second."""

    round_trip: float
    rate: float = math.inf


NEAR = LinkModel(ROUND_TRIP)
HOME = LinkModel(0.045, 20e6 / 8)
"""Home's, over links of today."""


class Chunks(Protocol):
    """A store or a medium."""

    def records(self, refs: bytes) -> bytes: ...


class Link:
    """The Wi-Fi: one answer at a time has it. rate: bytes a second"""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.turn = threading.Lock()


class SlowSource:
    """A store at the other end of a link. Thread-safe."""

    prior = Prior()

    def __init__(
        self, chunks: Chunks, link: Link, name: str = "media", way: LinkModel = NEAR
    ) -> None:
        """way: to it, before the link."""
        self.name = name
        self._chunks = chunks
        self._link = link
        self._way = way
        self.requests = 0
        self.bytes = 0

    def fetch(self, refs: bytes, priority: Priority, silence: float, rate: float = 0.0) -> bytes:
        """Pack records, after the time that the link needs for them."""
        return self._carried(self._chunks.records(refs))

    def below(
        self, places: Sequence[PageRange], priority: Priority, silence: float, rate: float = 0.0
    ) -> bytes:
        """The same of places."""
        return self._carried(records_below(self._chunks.records, places))

    def renewed(self) -> bool:
        return False

    def close(self) -> None:
        """The store stays."""

    def _carried(self, records: bytes) -> bytes:
        time.sleep(self._way.round_trip + len(records) / self._way.rate)
        with self._link.turn:
            time.sleep(len(records) / self._link.rate)
            self.requests += 1
            self.bytes += len(records)
        return records


Begun = tuple[float, int]
"""Seconds until the first response, and the bytes that home sent."""


@dataclass(frozen=True)
class ResumeMeasurement:
    """One resume on an empty host: seconds and bytes until it ran and until its first response."""

    running: float
    response: float
    requests: int
    bytes: int
    warm: float


def figures() -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="satchel-bench-") as name,
        notes_home(Path(name)) as home,
    ):
        yield from _home(home)


def _home(home: Home) -> Iterator[Figure]:
    home.add_service(SERVICE, SERVICE)
    service = home.service(SERVICE)
    began = time.monotonic()
    service.launch()
    boot = time.monotonic() - began
    taken = service.checkpoint()
    manifest = taken.manifest
    yield figure("checkpoint: machine paused", taken.paused_seconds, "s")
    service.stop()
    stored = len(home.store.records(home.store.reachable(manifest.roots())))
    yield figure("checkpoint: stored state", stored / 1e6, "MB")
    lazy = _resume(manifest, [SlowSource(home.store, Link(RATE))], ahead=False)
    ahead = _resume(manifest, [SlowSource(home.store, Link(RATE))])
    copy = ("a full copy over the same link", stored / RATE)
    name = "resume, all fetched on demand: first response"
    yield figure(name, lazy.response, "s", against=copy, bound=_bound(lazy))
    demand = ("all fetched on demand", lazy.response)
    yield figure("resume: running", ahead.running, "s", against=("first boot", boot))
    name, least = "resume: first response", _bound(ahead)
    yield figure(name, ahead.response, "s", against=demand, at_most=1.0, bound=least)
    yield figure(f"{name}, and a full copy", ahead.response, "s", against=copy, bound=least)
    yield figure(
        "resume: fetched before the first response",
        ahead.bytes / 1e6,
        "MB",
        against=("stored state", stored / 1e6),
        at_most=LAZY_GOAL,
        bound=("what the machine touches until then", _needed(home, manifest) / 1e6),
    )
    yield figure("resume: requests", ahead.requests, "1", against=("on demand", lazy.requests))
    yield figure("operation, warm", ahead.warm * 1e3, "ms")


def _bound(resumed: ResumeMeasurement) -> tuple[str, float]:
    return "the link", ROUND_TRIP + resumed.bytes / RATE + resumed.warm


def _needed(home: Home, manifest: Manifest) -> int:
    """Return the compressed size of the blocks that a machine touches until its first response, and
    of its device state."""
    touched: set[tuple[str, int]] = set()
    resolve = local_resolver(home.store)

    def watch(volume: Volume, first: int, count: int) -> bytes | None:
        touched.update((volume.name, block) for block in range(first, first + count))
        return resolve(volume, first, count)

    with (
        tempfile.TemporaryDirectory(prefix="satchel-bench-") as name,
        replica_of(manifest, home.store, Path(name)) as replica,
    ):
        replica.resume(frozen_in(manifest), watch, home.store.read)
        replica.execute(add_note(replica.last + 1))
    content = b"".join(
        home.store.read(manifest.volumes[volume], block * BLOCK_SIZE, BLOCK_SIZE)
        for volume, block in sorted(touched)
    )
    return len(lzma.compress(content)) + len(lzma.compress(home.store.read(manifest.device_state)))


def _resume(
    manifest: Manifest, sources: Sequence[SlowSource], *, ahead: bool = True, warm: bool = True
) -> ResumeMeasurement:
    """Resume on a host that has nothing. warm: measure an operation once it is fast."""
    assert manifest.working_set is not None
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-bench-")))
        store = stack.enter_context(Store.create(folder / "store"))
        fetcher = Fetcher(store, sources, READAHEAD_BLOCKS)
        prefetcher = Prefetcher(store, fetcher, manifest.working_set)
        stack.callback(prefetcher.join)
        replica = stack.enter_context(replica_of(manifest, store, folder))
        stack.callback(fetcher.close)
        begun = _begun(replica, manifest, fetcher, prefetcher if ahead else None)
        requests = sum(source.requests for source in sources)
        size = sum(source.bytes for source in sources)
        each = _warm(replica) if warm else 0.0
    return ResumeMeasurement(*begun, requests, size, each)


def _begun(
    replica: Replica, manifest: Manifest, fetcher: Fetcher, prefetcher: Prefetcher | None
) -> tuple[float, float]:
    """Seconds until it ran, and until its first response."""
    began = time.monotonic()
    start = prefetcher.start if prefetcher else lambda volumes: None
    resolver = prefetcher.resolve if prefetcher else fetcher.resolve
    replica.resume(frozen_in(manifest), resolver, fetcher.read, start)
    running = time.monotonic() - began
    replica.execute(add_note(replica.last + 1))
    return running, time.monotonic() - began


def _warm(replica: Replica) -> float:
    """Seconds of an operation."""
    for _ in range(WARM_OPERATIONS):
        replica.execute(add_note(replica.last + 1))
    began = time.monotonic()
    for _ in range(WARM_OPERATIONS):
        replica.execute(add_note(replica.last + 1))
    return (time.monotonic() - began) / WARM_OPERATIONS


def budget(quick: bool) -> Iterator[Figure]:
    """A medium with a tenth of the state, and the rest at home, by one with all of it."""
    with (
        tempfile.TemporaryDirectory(prefix="satchel-bench-") as name,
        notes_checkpoint() as (home, manifest),
    ):
        stored = len(home.store.records(home.store.reachable(manifest.roots())))
        roots = [Path(name) / "whole", Path(name) / "tenth"]
        for root, size in zip(roots, (None, stored // 10), strict=True):
            root.mkdir()
            Media.init(root).close()
            home.sync([], root, budget=size)
        for words, profile in (("the paper's Wi-Fi", PAPER), ("a Wi-Fi of today", TODAY)):
            rounds = [
                [_from_medium(home, manifest, root, profile.wifi / 8) for root in roots]
                for _ in range(1 if quick else BUDGET_ROUNDS)
            ]
            what = f"resume over {words}, a tenth of the state on the medium"
            yield from _of_budget(what, *zip(*rounds, strict=True))


def _of_budget(what: str, whole: Sequence[Begun], tenth: Sequence[Begun]) -> Iterator[Figure]:
    full = ("all of it there", statistics.median(response for response, _ in whole))
    seconds = statistics.median(response for response, _ in tenth)
    yield figure(f"{what}: first response", seconds, "s", against=full, at_most=BUDGET_GOAL)
    size = statistics.median(far for _, far in tenth)
    yield figure(f"{what}: from home until then", size / 1e6, "MB")


def _from_medium(home: Home, manifest: Manifest, root: Path, rate: float) -> Begun:
    """Resume from a medium over a Wi-Fi of so many bytes a second, and from home beyond it."""
    link = Link(rate)
    with Media.open(root) as media:
        far = SlowSource(home.store, link, "home", HOME)
        resumed = _resume(manifest, [SlowSource(media, link), far], warm=False)
    return resumed.response, far.bytes


PARTS: dict[str, Callable[[bool], Iterator[Figure]]] = {"budget": budget}
