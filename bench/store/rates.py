# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Writes of the store onto disks of several rates, relative to the bound of disk and processors.

For each level of compression, the disk needs time for the stored bytes, and the processors need
time for their work. The longer one bounds that level. Both are measured with this level on a disk
without a limit. The bound is that of the best level.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.harness import Figure, figure
from bench.store import keepers, one_work
from bench.store.inputs import Input, make_inputs, run_folder, warm
from bench.store.throttled import Disk, throttled_disk

GOAL = 0.85
RATES = (60, 150, 500, 1500)
"""MB/s of disks."""
STICKS = (8, 30)
"""MB/s of media."""
LEVELS = (0, -3, 1)
STICK_LEVELS = (1, 5, 12)

_NAME = "bench.store.one_work"
_STORE = "store"


@dataclass(frozen=True)
class WriteCost:
    """The cost of a work: bytes written, and seconds."""

    size: int
    seconds: float
    processor: float


def rate_figures(quick: bool) -> Iterator[Figure]:
    """Imports, checkpoints of a machine's first memory, and exports. Needs root."""
    inputs = make_inputs(quick)
    with throttled_disk() as disk:
        for work, name in (("import", "first"), ("checkpoint", "ram-used")):
            yield from _stored(disk, work, inputs[name])
        yield from _exported(disk, inputs["first"])


def stick_figures(quick: bool) -> Iterator[Figure]:
    """Carry a freshly imported store onto an empty medium. Needs root."""
    image = make_inputs(quick)["first"]
    with throttled_disk() as disk, run_folder() as folder:
        by_level = {level: _store(disk, "import", image, level) for level in STICK_LEVELS}
        _prepare(folder, image)
        for rate in STICKS:
            disk.limit(rate)
            taken = _measured(disk, "carry", folder / _STORE, "medium")
            yield from _against_bound(f"medium of {rate} MB/s", image, rate, taken, by_level)


def _stored(disk: Disk, work: str, image: Input) -> Iterator[Figure]:
    disk.limit(0)
    by_level = {level: _store(disk, work, image, level) for level in LEVELS}
    for level, taken in by_level.items():
        yield figure(f"{work} at level {level}, stored", taken.size / 1e6, "MB")
        yield figure(f"{work} at level {level}, processor", taken.processor, "s")
    for rate in RATES:
        disk.limit(rate)
        taken = _store(disk, work, image, 0)
        yield from _against_bound(
            f"{work} onto a disk of {rate} MB/s", image, rate, taken, by_level
        )


def _exported(disk: Disk, image: Input) -> Iterator[Figure]:
    """An export writes the image uncompressed."""
    with run_folder() as folder:
        _prepare(folder, image)
        for rate in RATES:
            disk.limit(rate)
            taken = _measured(disk, "export", folder / _STORE, "image")
            yield from _against_bound(
                f"export onto a disk of {rate} MB/s", image, rate, taken, {0: taken}
            )


def _against_bound(
    name: str, image: Input, rate: int, taken: WriteCost, by_level: dict[int, WriteCost]
) -> Iterator[Figure]:
    level, seconds = min(
        ((level, bound(rate, each)) for level, each in by_level.items()),
        key=lambda pair: pair[1],
    )
    limit = image.data / 1e6 / seconds
    yield figure(
        name,
        image.data / 1e6 / taken.seconds,
        "MB/s",
        against=(f"its bound, at level {level}", limit),
        at_least=GOAL,
        bound=("the longer of disk and processors", limit),
    )
    yield figure(f"{name}, written", taken.size / 1e6, "MB")


def bound(rate: int, taken: WriteCost) -> float:
    """Seconds that nothing which writes these bytes with this work can be under."""
    return max(taken.size / 1e6 / rate, taken.processor / (os.cpu_count() or 1))


def _prepare(folder: Path, image: Input) -> None:
    """A store as an import leaves it on a quick disk."""
    warm(image.path)
    one_work.import_file(folder / _STORE, image.path, 0)


def _store(disk: Disk, work: str, image: Input, level: int) -> WriteCost:
    """A work that makes a store, there."""
    warm(image.path)
    with tempfile.TemporaryDirectory(dir=disk.root) as name:
        return _run(disk, Path(name), work, Path(name, _STORE), image.path, str(level))


def _measured(disk: Disk, work: str, store: Path, target: str) -> WriteCost:
    """A work that reads a store and writes onto the disk."""
    for path in store.rglob("*"):
        if path.is_file():
            warm(path)
    with tempfile.TemporaryDirectory(dir=disk.root) as name:
        return _run(disk, Path(name), work, store, Path(name, target))


def _run(disk: Disk, folder: Path, work: str, *arguments: str | Path) -> WriteCost:
    group = disk.group / "cgroup.procs"
    join: list[str | Path] = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group]
    taken = keepers.run([*join, *_argv(work, *arguments)], folder, _environment())
    size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    return WriteCost(size, taken.seconds, taken.processor)


def _argv(work: str, *arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-m", _NAME, work, *arguments]


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
