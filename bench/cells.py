# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a cell costs: `notes` resumed from home's own store in a cell and without one, in turns.

Everything that is fetched is there already, so nothing hides the cost behind a link: the time until
the machine runs and answers its first request is that of starting three programs and of the blocks
that the guest touches. Needs a built image; builds it where there is none.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.notes import SERVICE, add_note, notes_home
from cell import Cells
from homeserver import Home
from hypervisor import MachineSpec, QemuDriver
from images import Manifest
from overlay import local_resolver
from replica import Frozen, Replica
from satchel.errors import UnsupportedError
from satchel.ids import ReplicaId

ROUNDS = 9
QUICK_ROUNDS = 2
OPERATIONS = 40
GOAL = 1.10


def figures() -> Iterator[Figure]:
    """Every figure of this bench."""
    yield from resume(quick=False)


def quick_figures() -> Iterator[Figure]:
    """Two rounds."""
    yield from resume(quick=True)


def resume(quick: bool) -> Iterator[Figure]:
    """Seconds to the first response, and per operation, each by what it is without a cell."""
    cells = Cells()
    if cells.reason:
        raise UnsupportedError("there is no cell to measure", why=cells.reason)
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder, notes_home(Path(folder)) as home:
        home.add_service(SERVICE, SERVICE)
        service = home.service(SERVICE)
        service.launch()
        manifest = service.checkpoint().manifest
        service.stop()
        kinds: tuple[Cells | None, ...] = (cells, None)
        taken: list[list[tuple[float, float]]] = [[], []]
        for number in range(QUICK_ROUNDS if quick else ROUNDS):
            for which in (0, 1) if number % 2 else (1, 0):
                taken[which].append(_resume(home, manifest, kinds[which]))
    shut, free = ([statistics.median(column) for column in zip(*one, strict=True)] for one in taken)
    name = "the same without a cell"
    first, warm = (name, free[0]), (name, free[1] * 1e3)
    yield figure("resume in a cell: first response", shut[0], "s", against=first, at_most=GOAL)
    yield figure("operation in a cell, warm", shut[1] * 1e3, "ms", against=warm, at_most=GOAL)


def _resume(home: Home, manifest: Manifest, cells: Cells | None) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        replica = Replica(
            ReplicaId("bench"),
            MachineSpec.from_json(manifest.machine),
            home.store,
            QemuDriver(),
            Path(name) / "r",
            adapter=manifest.adapter["kind"],
            stateful=manifest.adapter["stateful"],
            cells=cells,
        )
        frozen = Frozen(manifest.operation, manifest.device_state, manifest.volumes, 0.0)
        try:
            began = time.monotonic()
            replica.resume(frozen, local_resolver(home.store), home.store.read)
            replica.execute(add_note(replica.last + 1))
            response = time.monotonic() - began
            began = time.monotonic()
            for _ in range(OPERATIONS):
                replica.execute(add_note(replica.last + 1))
            return response, (time.monotonic() - began) / OPERATIONS
        finally:
            replica.stop()


PARTS = {"resume": resume}
