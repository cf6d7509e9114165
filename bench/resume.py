# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a resume costs: `notes`, booted once, checkpointed, resumed where nothing is yet.

The link to the source is modelled in this process: a round trip of 5 ms and 11 Mb/s, the paper's
Wi-Fi. Needs a built image; builds it where there is none.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Figure, figure
from bench.notes import SERVICE, add_note, notes_home
from chunkstore import Below, Store, records_below
from homeserver import Home
from hypervisor import MachineSpec, QemuDriver
from images import Manifest
from replica import Frozen, Replica
from satchel.ids import ReplicaId
from surrogate import Fetcher, Prefetcher, Prior
from wire import Priority

ROUND_TRIP = 0.005
RATE = 11e6 / 8
LAZY_GOAL = 0.15
READAHEAD_BLOCKS = 32
WARM_OPERATIONS = 40


class SlowSource:
    """A store behind a link: one request at a time has it. Thread-safe."""

    name = "media"
    prior = Prior()

    def __init__(self, store: Store) -> None:
        self._store = store
        self._link = threading.Lock()
        self.requests = 0
        self.bytes = 0

    def fetch(self, refs: bytes, priority: Priority, silence: float, rate: float = 0.0) -> bytes:
        """Pack records, after the time that the link needs for them."""
        return self._carried(self._store.records(refs))

    def below(
        self, places: Sequence[Below], priority: Priority, silence: float, rate: float = 0.0
    ) -> bytes:
        """The same of places."""
        return self._carried(records_below(self._store.records, places))

    def renewed(self) -> bool:
        return False

    def close(self) -> None:
        """The store stays."""

    def _carried(self, records: bytes) -> bytes:
        time.sleep(ROUND_TRIP)
        with self._link:
            time.sleep(len(records) / RATE)
            self.requests += 1
            self.bytes += len(records)
        return records


@dataclass(frozen=True)
class Resumed:
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
    lazy = _resume(home, manifest, ahead=False)
    ahead = _resume(home, manifest, ahead=True)
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
    )
    yield figure("resume: requests", ahead.requests, "1", against=("on demand", lazy.requests))
    yield figure("operation, warm", ahead.warm * 1e3, "ms")


def _bound(resumed: Resumed) -> tuple[str, float]:
    return "the link", ROUND_TRIP + resumed.bytes / RATE + resumed.warm


def _resume(home: Home, manifest: Manifest, *, ahead: bool) -> Resumed:
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        with Store.create(folder / "store") as store:
            source = SlowSource(home.store)
            fetcher = Fetcher(store, [source], READAHEAD_BLOCKS)
            assert manifest.working_set is not None
            prefetcher = Prefetcher(store, fetcher, manifest.working_set)
            replica = Replica(
                ReplicaId("bench"),
                MachineSpec.from_json(manifest.machine),
                store,
                QemuDriver(),
                folder / "r",
                adapter=manifest.adapter["kind"],
                stateful=manifest.adapter["stateful"],
            )
            try:
                return _measure(replica, manifest, fetcher, prefetcher if ahead else None, source)
            finally:
                fetcher.close()
                replica.stop()
                prefetcher.join()


def _measure(
    replica: Replica,
    manifest: Manifest,
    fetcher: Fetcher,
    prefetcher: Prefetcher | None,
    source: SlowSource,
) -> Resumed:
    frozen = Frozen(manifest.operation, manifest.device_state, manifest.volumes, 0.0)
    began = time.monotonic()
    start = prefetcher.start if prefetcher else lambda volumes: None
    resolver = prefetcher.resolve if prefetcher else fetcher.resolve
    replica.resume(frozen, resolver, fetcher.read, start)
    running = time.monotonic() - began
    replica.execute(add_note(replica.last + 1))
    response = time.monotonic() - began
    requests, size = source.requests, source.bytes
    for _ in range(WARM_OPERATIONS):
        replica.execute(add_note(replica.last + 1))
    began = time.monotonic()
    for _ in range(WARM_OPERATIONS):
        replica.execute(add_note(replica.last + 1))
    warm = (time.monotonic() - began) / WARM_OPERATIONS
    return Resumed(running, response, requests, size, warm)
