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
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Figure, figure
from bench.store_inputs import SEED, Input
from chunkstore import Store
from hypervisor import RamMount
from overlay import serve_stored
from satchel.errors import UnavailableError
from satchel.ids import BLOCK_SIZE

SATCHEL = "satchel"
NBDKIT = "nbdkit file, raw"
QEMU = "qemu-nbd, qcow2 with zstd"
OFFSET = 32 << 20
PART = 4
"""The part that is read is a quarter of the image, from OFFSET on: a disk is filled from there."""

FAULTS = 4000
STARTS_WITHIN_SECONDS = 20


@dataclass(frozen=True)
class Load:
    """One way to read: what fio is told, and how many times as fast as a server we want to be."""

    name: str
    unit: str
    options: tuple[str, ...]
    goals: dict[str, float]


LOADS = (
    Load("4 KB random, depth 1", "reads/s", ("--rw=randread", "--bs=4k", "--iodepth=1"),
         {QEMU: 3.0, NBDKIT: 0.9}),
    Load("4 KB random, depth 16", "reads/s", ("--rw=randread", "--bs=4k", "--iodepth=16"),
         {QEMU: 4.0, NBDKIT: 0.9}),
    Load("1 MB sequential", "MB/s", ("--rw=read", "--bs=1m", "--iodepth=1"),
         {QEMU: 1.0, NBDKIT: 0.7}),
)  # fmt: skip
FAULT_GOAL = 1.15


def read_figures(image: Input, folder: Path, rounds: int, seconds: int) -> Iterator[Figure]:
    """The figures; `folder` is empty, and its path short enough for sockets."""
    size = image.path.stat().st_size
    part = (OFFSET, size // PART)
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    faults: dict[str, list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        uris = {
            SATCHEL: stack.enter_context(_satchel(image, folder)),
            NBDKIT: stack.enter_context(_nbdkit(image, folder)),
            QEMU: stack.enter_context(_qemu(image, folder)),
        }
        for uri in uris.values():
            _fio(uri, part, ("--rw=read", "--bs=1m", "--iodepth=4"))
        for _ in range(rounds):
            for load in LOADS:
                for name, uri in uris.items():
                    timed = (*load.options, "--time_based", f"--runtime={seconds}")
                    rates[name, load.name].append(_rate(load, _fio(uri, part, timed)))
            for name in (SATCHEL, NBDKIT):
                faults[name].append(_fault(uris[name], folder / "mounted", part))
    for load in LOADS:
        mine = statistics.median(rates[SATCHEL, load.name])
        for name in (NBDKIT, QEMU):
            against = (name, statistics.median(rates[name, load.name]))
            title = f"store read, {load.name}"
            yield figure(title, mine, load.unit, against=against, at_least=load.goals[name])
    fault, other = (statistics.median(faults[name]) * 1e6 for name in (SATCHEL, NBDKIT))
    against = (f"nbdfuse over {NBDKIT}", other)
    yield figure("store read, page fault", fault, "us", against=against, at_most=FAULT_GOAL)


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
def _satchel(image: Input, folder: Path) -> Iterator[str]:
    with Store.create(folder / "store") as store:
        root = store.import_file(image.path)
        with serve_stored(store, "volume", root, folder / "satchel.sock") as server:
            yield server.uri("volume")


@contextlib.contextmanager
def _nbdkit(image: Input, folder: Path) -> Iterator[str]:
    socket = folder / "nbdkit.sock"
    argv = ["nbdkit", "--foreground", "--readonly", "--unix", str(socket), "file", str(image.path)]
    with _server(argv, socket):
        yield f"nbd+unix:///?socket={socket}"


@contextlib.contextmanager
def _qemu(image: Input, folder: Path) -> Iterator[str]:
    disk, socket = folder / "disk.qcow2", folder / "qemu.sock"
    argv = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd"]
    subprocess.run([*argv, str(image.path), str(disk)], check=True)
    argv = ["qemu-nbd", "--read-only", "--persistent", "--shared=8", "--format=qcow2"]
    with _server([*argv, f"--socket={socket}", str(disk)], socket):
        yield f"nbd+unix:///?socket={socket}"


@contextlib.contextmanager
def _server(argv: list[str], socket: Path) -> Iterator[None]:
    with subprocess.Popen(argv) as process:
        try:
            deadline = time.monotonic() + STARTS_WITHIN_SECONDS
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise UnavailableError(f"{argv[0]} did not start")
                time.sleep(0.02)
            yield
        finally:
            process.terminate()
