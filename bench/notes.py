# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The service `notes` in benchmarks: a home with its image, operations, and replicas of it."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from chunkstore import Store
from homeserver import Home, HomeSettings
from hypervisor import Driver, MachineSpec, QemuDriver
from images import Manifest
from replay import Operation
from replay.adapters import http
from replica import MachineSnapshot, Replica
from sandbox import Cells
from satchel.ids import OperationNumber, ReplicaId
from testbed import built

SERVICE = "notes"


def add_note(number: int, *, after_seconds: int = 0) -> Operation:
    """The operation of this number, as of now or of so much later."""
    body = b'{"title": "a note", "text": "number %d of the bench"}' % number
    return posted(number, "/api/notes", "application/json", body, after_seconds=after_seconds)


def posted(
    number: int, target: str, content_type: str, body: bytes, *, after_seconds: int = 0
) -> Operation:
    """The operation of this number that sends `body` to a service."""
    now = time.time_ns() + after_seconds * 10**9
    headers = [("Content-Type", content_type)]
    payload = http.encode("POST", target, headers, body, number=number, time_ns=now, seed=1)
    return Operation(OperationNumber(number), now, 1, payload)


@contextlib.contextmanager
def notes_home(folder: Path) -> Iterator[Home]:
    """A new home below `folder`, with real machines and the built image; closed at the end."""
    settings = HomeSettings(data=folder / "data", run=folder / "run", images=built.cache_folder())
    built.built_image(SERVICE)
    Home.init(settings)
    home = Home(settings, QemuDriver())
    try:
        yield home
    finally:
        home.close()


@contextlib.contextmanager
def notes_checkpoint() -> Iterator[tuple[Home, Manifest]]:
    """A home, and a checkpoint of `notes` in its store, just after its boot."""
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder, notes_home(Path(folder)) as home:
        home.add_service(SERVICE, SERVICE)
        service = home.service(SERVICE)
        service.launch()
        manifest = service.checkpoint().manifest
        service.stop()
        yield home, manifest


@contextlib.contextmanager
def replica_of(
    manifest: Manifest,
    store: Store,
    folder: Path,
    cells: Cells | None = None,
    driver: Driver | None = None,
) -> Iterator[Replica]:
    """One of a checkpoint, not started yet; stopped at the end. driver: by default QEMU's."""
    replica = Replica(
        ReplicaId("bench"),
        MachineSpec.from_json(manifest.machine),
        store,
        driver or QemuDriver(),
        folder / "r",
        adapter=manifest.contract.adapter,
        stateful=manifest.contract.stateful,
        cells=cells,
    )
    try:
        yield replica
    finally:
        replica.stop()


def frozen_in(manifest: Manifest) -> MachineSnapshot:
    """The machine of a checkpoint."""
    return MachineSnapshot(manifest.operation, manifest.device_state, manifest.volumes, 0.0)
