# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The cost of a cell, and its isolation: `notes` resumed from home's own store.

- resume: with a cell and without, in turns
- reads: 4 KiB blocks of a disk that is all there, asked of nbdkit by one reader and by sixteen; in
  a cell nbdkit asks the block reader for each
- libvirt: in a cell, as a domain of the user's libvirt and without libvirt, in turns; not for root
- load: operations of one replica beside the guest of another, which takes everything that its cell
  allows; relative to the same with that guest stopped

All blocks are local, so no link hides the cost. The first response takes the start of three
programs and the blocks that the guest touches. Builds the image if it is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness import Figure, figure
from bench.notes import add_note, frozen_in, notes_checkpoint, replica_of
from chunkstore import Store, TableRoot
from homeserver import Home
from hypervisor import LAUNCHER, Driver, MachineSpec, QemuDriver, SessionDriver, Wiring
from images import Manifest
from replica import Replica
from sandbox import CellMounts, Cells
from satchel.confinement import HOST
from satchel.errors import UnsupportedError
from volumes import BLOCK_READER, PLUGIN, VolumeServer, create_volume, local_resolver

ROUNDS = 9
QUICK_ROUNDS = 2
STARTS = 9
OPERATIONS = 40
GOAL = 1.10

DEPTHS = (1, 16)
READ_BYTES = 64 << 20
READS = 5000
STEP_BYTES = 4099 * 4096
"""Distance of two reads: a prime number of blocks, so that all of the disk is read."""

_TAKES_MEMORY = """
import os
held = []
while True:
    held.append(os.urandom(1 << 20))
"""

LOADS = {
    "processors": "for _ in 1 2 3 4; do (while :; do :; done) & done; wait",
    "memory": f"while :; do python3 -c '{_TAKES_MEMORY}'; done",
    "disk": "while :; do dd if=/dev/urandom of=/fill bs=64k; sync; done",
    "fork bomb": "f() { f | f & }; f",
}
"""What a guest does in a shell, by what it takes of its host."""

LOAD_SECONDS = 3.0
"""Until a load has begun, before anything is measured."""

BLOCK_OPERATIONS = 20
BLOCKS = 15
QUICK_BLOCKS = 2
LOADED_GOAL = 2.0


def resume(quick: bool) -> Iterator[Figure]:
    """Yield seconds to the first response and per operation, relative to those without a cell."""
    cells = _cells()
    shut, free = _in_turns([(cells, None), (None, None)], quick)
    name = "the same without a cell"
    first, warm = (name, free[0]), (name, free[1] * 1e3)
    yield figure("resume in a cell: first response", shut[0], "s", against=first, at_most=GOAL)
    yield figure("operation in a cell, warm", shut[1] * 1e3, "ms", against=warm, at_most=GOAL)


def reads(quick: bool) -> Iterator[Figure]:
    """Yield seconds per read in a cell, relative to those without a cell."""
    kinds: tuple[Cells | None, ...] = (_cells(), None)
    taken: dict[int, tuple[list[float], list[float]]] = {depth: ([], []) for depth in DEPTHS}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-")))
        store = stack.enter_context(Store.create(folder / "store"))
        (folder / "disk").write_bytes(os.urandom(READ_BYTES))
        root = store.import_file(folder / "disk")
        uris = [stack.enter_context(_served(store, root, folder / str(k), k)) for k in kinds]
        for uri in uris:
            subprocess.run(["nbdcopy", uri, "null:"], check=True)  # all blocks are there now
        for number in range(QUICK_ROUNDS if quick else ROUNDS):
            for depth, which in itertools.product(DEPTHS, (0, 1) if number % 2 else (1, 0)):
                taken[depth][which].append(_read(uris[which], depth))
    for depth, (shut, free) in taken.items():
        yield figure(
            f"read of 4 KiB in a cell, {depth} at a time",
            statistics.median(shut) * 1e6,
            "us",
            against=("the same without a cell", statistics.median(free) * 1e6),
        )


@contextlib.contextmanager
def _served(store: Store, root: TableRoot, folder: Path, cells: Cells | None) -> Iterator[str]:
    """The disk as an export of nbdkit, by its URI."""
    folder.mkdir()
    volume = create_volume(folder, "disk0", root)
    room = HOST
    if cells:
        seen = CellMounts(
            folder,
            readable=[PLUGIN, BLOCK_READER, LAUNCHER],
            held=[store.packs_path],
            volumes=[volume.map_path, volume.overlay],
        )
        room = cells.room(seen, memory=1 << 28, processors=1, kvm=False)
    resolver = local_resolver(store)
    server = VolumeServer.start(folder, store.packs_path, [volume], resolver, room=room)
    try:
        yield server.uri(volume.name)
    finally:
        server.stop()
        room.end()


def _read(uri: str, depth: int) -> float:
    """Seconds for one of READS, spread over the disk."""
    argv = ["qemu-img", "bench", "-f", "raw", "-c", str(READS), "-d", str(depth), "-s", "4096"]
    done = subprocess.run(
        [*argv, "-S", str(STEP_BYTES), uri], check=True, capture_output=True, text=True
    )
    found = re.search(r"completed in ([0-9.]+) seconds", done.stdout)
    assert found, done.stdout
    return float(found[1]) / READS


def libvirt(quick: bool) -> Iterator[Figure]:
    """Yield the seconds under the user's libvirt, relative to those without libvirt."""
    cells = _cells()
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as run:
        driver = SessionDriver(Path(run))
        if lacking := driver.lacking():
            raise UnsupportedError("cannot measure domains of libvirt", why=", ".join(lacking))
        starts = [_starts(one, Path(run)) for one in (driver, QemuDriver())]
        domain, plain = _in_turns([(cells, driver), (cells, None)], quick)
    name = "the same without libvirt"
    against = (name, starts[1])
    yield figure("start of a domain", starts[0], "s", against=against)
    yield figure("resume of a domain: first response", domain[0], "s", against=(name, plain[0]))
    against = (name, plain[1] * 1e3)
    yield figure("operation in a domain, warm", domain[1] * 1e3, "ms", against=against)


def _starts(driver: Driver, run: Path) -> float:
    """The median of the seconds that a machine of 16 MiB takes, after a first one."""
    spec, taken = MachineSpec(memory_mib=16, disks=()), []
    for number in range(STARTS + 1):
        folder = run / f"{driver.name}-{number}"  # in an old one libvirt first ends the old domain
        folder.mkdir()
        with (folder / "ram").open("wb") as file:
            file.truncate(spec.memory_bytes)
        began = time.monotonic()
        machine = driver.start(spec, Wiring(folder, folder / "ram"), None)
        taken.append(time.monotonic() - began)
        machine.stop()
    return statistics.median(taken[1:])


Kind = tuple[Cells | None, Driver | None]
"""In which cells, by which driver; None: in none, by QEMU's."""


def _in_turns(kinds: Sequence[Kind], quick: bool) -> list[list[float]]:
    """For each of two kinds, the medians of the seconds to a first response and per operation."""
    taken: list[list[tuple[float, float]]] = [[], []]
    with notes_checkpoint() as (home, manifest):
        for number in range(QUICK_ROUNDS if quick else ROUNDS):
            for which in (0, 1) if number % 2 else (1, 0):
                taken[which].append(_resume(home, manifest, *kinds[which]))
    return [[statistics.median(column) for column in zip(*one, strict=True)] for one in taken]


def load(quick: bool) -> Iterator[Figure]:
    """The 99th percentile of operations beside each load, by that while its machine is stopped."""
    cells = _cells()
    blocks = QUICK_BLOCKS if quick else BLOCKS
    with notes_checkpoint() as (home, manifest), resumed(home, manifest, cells) as measured:
        _operations(measured, BLOCK_OPERATIONS)  # fetches the blocks that they touch
        for name, script in LOADS.items():
            with resumed(home, manifest, cells) as hostile:
                begin_load(hostile, script)
                time.sleep(LOAD_SECONDS)
                idle, loaded = _beside(measured, hostile, blocks)
            yield figure(
                f"operation beside a guest's load, {name}: 99th percentile",
                loaded * 1e3,
                "ms",
                against=("while that guest's machine is stopped", idle * 1e3),
                at_most=LOADED_GOAL,
            )


def _beside(measured: Replica, hostile: Replica, blocks: int) -> tuple[float, float]:
    """The percentile with the other machine stopped, and with it running; in turns, so that what
    else this host does counts for both."""
    machine = int((hostile.run_dir / "qemu.pid").read_text())
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * blocks):
        loaded = number % 2
        os.kill(machine, signal.SIGCONT if loaded else signal.SIGSTOP)
        taken[loaded].extend(_operations(measured, BLOCK_OPERATIONS))
    return _percentile(taken[0]), _percentile(taken[1])


def begin_load(replica: Replica, script: str) -> None:
    """Have its guest run that in a shell until it ends; returns at once."""
    command = ["/bin/sh", "-c", 'setsid /bin/sh -c "$0" >/dev/null 2>&1 </dev/null &', script]
    status, said = replica.run(command, 120.0)
    assert status == 0, said


def _operations(replica: Replica, count: int) -> list[float]:
    """The seconds that each of so many takes, one after the other."""
    found = []
    for _ in range(count):
        operation = add_note(replica.last + 1)
        began = time.monotonic()
        replica.execute(operation)
        found.append(time.monotonic() - began)
    return found


def _percentile(seconds: list[float]) -> float:
    """The 99th."""
    return sorted(seconds)[int(len(seconds) * 0.99) - 1]


def _cells() -> Cells:
    cells = Cells()
    if cells.reason:
        raise UnsupportedError("cannot measure a cell", why=cells.reason)
    return cells


@contextlib.contextmanager
def resumed(
    home: Home, manifest: Manifest, cells: Cells | None, driver: Driver | None = None
) -> Iterator[Replica]:
    """A replica that runs."""
    with (
        tempfile.TemporaryDirectory(prefix="satchel-bench-") as name,
        replica_of(manifest, home.store, Path(name), cells, driver) as replica,
    ):
        replica.resume(frozen_in(manifest), local_resolver(home.store), home.store.read)
        yield replica


def _resume(
    home: Home, manifest: Manifest, cells: Cells | None, driver: Driver | None
) -> tuple[float, float]:
    began = time.monotonic()
    with resumed(home, manifest, cells, driver) as replica:
        replica.execute(add_note(replica.last + 1))
        response = time.monotonic() - began
        warm = _operations(replica, OPERATIONS)
    return response, statistics.fmean(warm)


PARTS = {"resume": resume, "reads": reads, "libvirt": libvirt, "load": load}
