# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Importing onto disks of several rates, against the bound that follows from bytes and processors.

The disk is an ext4 on a loop device whose file is in memory; the kernel lets the writes of one
control group through at a rate (blkio of version 1, or io of version 2), which costs no processor.
The bound is the best over the levels: the longer of what the disk takes for the bytes stored and
what all processors take for their work, both measured with the same level throughout.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.device import run
from bench.harness import Figure, figure
from bench.store import keepers
from bench.store.inputs import Input, make_inputs, warm
from satchel.errors import UnavailableError

GOAL = 0.85
RATES = (60, 150, 500, 1500)
"""MB/s."""
LEVELS = (0, -3, 1)
PROGRAM = "bench.store.one_import"

_MEMORY = Path("/dev/shm")
_GROUPS = Path("/sys/fs/cgroup")
_SIZE = 12 << 30
"""Room for three times the content, below which imports compress all."""


@dataclass(frozen=True)
class Taken:
    """What an import took: bytes of all files, and seconds."""

    size: int
    seconds: float
    processor: float


@dataclass(frozen=True)
class Disk:
    """root: where it is mounted. limit: takes MB/s, 0 for none. group: whom the limit is for."""

    root: Path
    limit: Callable[[int], None]
    group: Path


def rate_figures(quick: bool) -> Iterator[Figure]:
    """The first disk of the bench. Needs root."""
    image = make_inputs(quick)["first"]
    with throttled_disk() as disk:
        yield from against_bound(image, disk, RATES)


def against_bound(image: Input, disk: Disk, rates: tuple[int, ...]) -> Iterator[Figure]:
    disk.limit(0)
    by_level = {level: _import(image, disk, level) for level in LEVELS}
    for level, taken in by_level.items():
        yield figure(f"import at level {level}, stored", taken.size / 1e6, "MB")
        yield figure(f"import at level {level}, processor", taken.processor, "s")
    for rate in rates:
        disk.limit(rate)
        taken = _import(image, disk, 0)
        level, seconds = min(
            ((level, bound(rate, each)) for level, each in by_level.items()),
            key=lambda pair: pair[1],
        )
        yield figure(
            f"import onto a disk of {rate} MB/s",
            image.data / 1e6 / taken.seconds,
            "MB/s",
            against=(f"its bound, at level {level}", image.data / 1e6 / seconds),
            at_least=GOAL,
            bound=("the longer of disk and processors", image.data / 1e6 / seconds),
        )
        yield figure(f"import onto a disk of {rate} MB/s, stored", taken.size / 1e6, "MB")


def bound(rate: int, taken: Taken) -> float:
    """Seconds that nothing which stores these bytes with this work can be under."""
    return max(taken.size / 1e6 / rate, taken.processor / (os.cpu_count() or 1))


def _import(image: Input, disk: Disk, level: int) -> Taken:
    warm(image.path)
    with tempfile.TemporaryDirectory(dir=disk.root) as name:
        store = Path(name, "store")
        join: list[str | Path] = [
            "sh",
            "-c",
            'echo $$ > "$0" && exec "$@"',
            disk.group / "cgroup.procs",
        ]
        program: list[str | Path] = [sys.executable, "-m", PROGRAM, store, image.path, str(level)]
        taken = keepers.run(
            [*join, *program], Path(name), {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        )
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    return Taken(size, taken.seconds, taken.processor)


@contextlib.contextmanager
def throttled_disk() -> Iterator[Disk]:
    """Raises UnavailableError where the kernel has no control group for it."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY)))
        image, root = folder / "image", folder / "mount"
        with image.open("wb") as file:
            file.truncate(_SIZE)
        root.mkdir()
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        loop = run("losetup", "--find", "--show", str(image))
        stack.callback(run, "losetup", "--detach", loop)
        run("mount", "-o", "discard", loop, str(root))
        stack.callback(run, "umount", str(root))
        number = (
            Path("/sys/class/block", Path(loop).name, "dev").read_text(encoding="ascii").strip()
        )
        group, limit = stack.enter_context(_group(f"satchel-bench-{os.getpid()}", number))
        yield Disk(root, limit, group)


@contextlib.contextmanager
def _group(name: str, device: str) -> Iterator[tuple[Path, Callable[[int], None]]]:
    first = (_GROUPS / "blkio").is_dir()
    group = _GROUPS / "blkio" / name if first else _GROUPS / name
    group.mkdir()
    file = group / ("blkio.throttle.write_bps_device" if first else "io.max")

    def limit(rate: int) -> None:
        if first:
            file.write_text(f"{device} {rate * 10**6}", encoding="ascii")
        else:
            file.write_text(f"{device} wbps={rate * 10**6 or 'max'}", encoding="ascii")

    try:
        if not file.exists():
            raise UnavailableError("there is no control group that limits a disk's rate")
        yield group, limit
    finally:
        group.rmdir()
