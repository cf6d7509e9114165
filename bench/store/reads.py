# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reading a volume of a store over NBD, beside other servers of the same image.

All serve on Unix sockets. What is read lies in one dense part of the image, which was read once
before: every block of it is present. fio asks; a page fault is a byte of a mapped nbdfuse file.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import random
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Figure, figure
from bench.host import this_host
from bench.store.inputs import SEED, Input, make_inputs
from chunkstore import Store
from hypervisor import RamMount
from overlay import serve_stored
from satchel.ids import BLOCK_SIZE
from testbed import await_up

SATCHEL = "satchel"
DECOMPRESSING = "satchel, each read decompressed"
NBDKIT = "nbdkit file, raw"
QEMU = "qemu-nbd, qcow2 with zstd"
OFFSET = 32 << 20
PART = 4
"""The part that is read is a quarter of the image, from OFFSET on: a disk is filled from there."""

FAULTS = 4000
ROUNDS = 3
SECONDS = 5


@dataclass(frozen=True)
class Load:
    """One way to read: what fio is told."""

    name: str
    unit: str
    options: tuple[str, ...]


LOADS = (
    Load("4 KB random, depth 1", "reads/s", ("--rw=randread", "--bs=4k", "--iodepth=1")),
    Load("4 KB random, depth 16", "reads/s", ("--rw=randread", "--bs=4k", "--iodepth=16")),
    Load("1 MB sequential", "MB/s", ("--rw=read", "--bs=1m", "--iodepth=1")),
)
CACHE_GOALS = (0.9, 0.9, 0.7)
"""Of `nbdkit file`, in the order of LOADS."""

SETTLED_GOALS = (3.0, 4.0, 1.0)
"""Of the compressed qcow2."""

FAULT_GOAL = 1.15


def read_figures(quick: bool) -> Iterator[Figure]:
    """From a surrogate's cache, which has chunks as they are."""
    with _servers(quick, settle=False) as served:
        uris = {SATCHEL: served.satchel, NBDKIT: served.nbdkit}
        yield from _load_figures("store read", uris, served, CACHE_GOALS)
        faults: dict[str, list[float]] = defaultdict(list)
        for _ in range(served.rounds):
            for name, uri in uris.items():
                faults[name].append(_fault(uri, served.folder / "mounted", served.part))
        fault, other = (statistics.median(faults[name]) * 1e6 for name in (SATCHEL, NBDKIT))
        against = (f"nbdfuse over {NBDKIT}", other)
        bound = "memory", BLOCK_SIZE / served.memory
        name = "store read, page fault"
        yield figure(name, fault, "us", against=against, at_most=FAULT_GOAL, bound=bound)


def settled_read_figures(quick: bool) -> Iterator[Figure]:
    """From a home store that is settled: blocks that were read before, as its machines read them,
    and beside them blocks that were not, each decompressed."""
    with _servers(quick, settle=True) as served, _qemu(served) as qemu:
        uris = {SATCHEL: served.satchel, QEMU: qemu, NBDKIT: served.nbdkit}
        uris[DECOMPRESSING] = served.decompressing
        yield from _load_figures("store read, settled", uris, served, SETTLED_GOALS)


@dataclass(frozen=True)
class Served:
    """One image over NBD, by us and as a raw file. `folder`: its path is short enough for
    sockets. memory: the host's, in MB/s."""

    image: Input
    folder: Path
    satchel: str
    decompressing: str
    nbdkit: str
    rounds: int
    seconds: int
    memory: float

    @property
    def part(self) -> tuple[int, int]:
        return OFFSET, self.image.path.stat().st_size // PART


@contextlib.contextmanager
def _servers(quick: bool, *, settle: bool) -> Iterator[Served]:
    image = make_inputs(quick)["second"]
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        with _satchel(image, folder, settle=settle) as ours, _nbdkit(image, folder) as nbdkit:
            memory = this_host(quick=quick).memory
            rounds, seconds = (1, 1) if quick else (ROUNDS, SECONDS)
            yield Served(image, folder, *ours, nbdkit, rounds, seconds, memory)


def _load_figures(
    title: str, uris: dict[str, str], served: Served, goals: tuple[float, ...]
) -> Iterator[Figure]:
    """Goals are against the second of `uris`; all of them are read once before."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for uri in uris.values():
        _fio(uri, served.part, ("--rw=read", "--bs=1m", "--iodepth=4"))
    for _ in range(served.rounds):
        for load in LOADS:
            for name, uri in uris.items():
                timed = (*load.options, "--time_based", f"--runtime={served.seconds}")
                rates[name, load.name].append(_rate(load, _fio(uri, served.part, timed)))
    for load, goal in zip(LOADS, goals, strict=True):
        mine, *others = (statistics.median(rates[name, load.name]) for name in uris)
        memory = served.memory / (1 if load.unit == "MB/s" else BLOCK_SIZE / 1e6)
        bound = "memory", memory
        for name, other, least in zip(list(uris)[1:], others, (goal, None, None), strict=False):
            against = (name, other)
            label = f"{title}, {load.name}"
            yield figure(label, mine, load.unit, against=against, at_least=least, bound=bound)


def _rate(load: Load, report: dict[str, float]) -> float:
    return report["bw_bytes"] / 1e6 if load.unit == "MB/s" else report["iops"]


def _fio(uri: str, part: tuple[int, int], options: tuple[str, ...]) -> dict[str, float]:
    offset, size = part
    argv = ["fio", "--name=read", "--ioengine=nbd", f"--uri={uri}", f"--offset={offset}"]
    argv += [f"--size={size}", f"--randseed={SEED}", "--output-format=json", *options]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    document = done.stdout[done.stdout.index("{") :]  # it says something of its own before
    report: dict[str, float] = json.loads(document)["jobs"][0]["read"]
    return report


def _fault(uri: str, mountpoint: Path, part: tuple[int, int]) -> float:
    """Seconds that touching a page for the first time takes."""
    offset, size = part
    mount = RamMount.mount(uri, mountpoint)
    try:
        with (
            mount.file.open("rb") as file,
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        ):
            mapped.madvise(mmap.MADV_RANDOM)
            blocks = random.Random(SEED).sample(range(size // BLOCK_SIZE), FAULTS)
            began = time.perf_counter()
            for block in blocks:
                mapped[offset + block * BLOCK_SIZE]
            return (time.perf_counter() - began) / FAULTS
    finally:
        mount.unmount()


@contextlib.contextmanager
def _satchel(image: Input, folder: Path, *, settle: bool) -> Iterator[tuple[str, str]]:
    Store.create(folder / "store").close()
    with Store.open(folder / "store", level=0) as store:
        root = store.import_file(image.path)
        if settle:
            store.settle()
        with (
            serve_stored(store, "volume", root, folder / "satchel.sock") as keeping,
            serve_stored(store, "volume", root, folder / "plain.sock", keep_unpacked=0) as plain,
        ):
            yield keeping.uri("volume"), plain.uri("volume")


@contextlib.contextmanager
def _nbdkit(image: Input, folder: Path) -> Iterator[str]:
    socket = folder / "nbdkit.sock"
    argv = ["nbdkit", "--foreground", "--readonly", "--unix", str(socket), "file", str(image.path)]
    with _server(argv, socket):
        yield f"nbd+unix:///?socket={socket}"


@contextlib.contextmanager
def _qemu(served: Served) -> Iterator[str]:
    disk, socket = served.folder / "disk.qcow2", served.folder / "qemu.sock"
    argv = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd"]
    subprocess.run([*argv, str(served.image.path), str(disk)], check=True)
    argv = ["qemu-nbd", "--read-only", "--persistent", "--shared=8", "--format=qcow2"]
    with _server([*argv, f"--socket={socket}", str(disk)], socket):
        yield f"nbd+unix:///?socket={socket}"


@contextlib.contextmanager
def _server(argv: list[str], socket: Path) -> Iterator[None]:
    with subprocess.Popen(argv) as process:
        try:
            await_up(argv[0], process, socket.exists)
            yield
        finally:
            process.terminate()
