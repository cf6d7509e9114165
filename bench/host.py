# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the host of a bench can do: figures of two hosts mean little without it.

Rates are in MB/s, a million bytes each. A host that does other work meanwhile shows less.
"""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.processors import shares

PIECE = 4 << 20
PIECES = 64
QUICK_PIECES = 8


@dataclass(frozen=True)
class HostRates:
    """processors: those that this process may use. shares: what each role of a bench with several
    has of them (bench/processors.py). memory: bytes copied within it.

    sha1_one, sha1_all: bytes hashed by one thread, and by one for each processor at once.
    disk_write, disk_read: of a file written in order to the end of an fsync, then read past the
    page cache; where the file system has no direct reads, as some tmpfs, disk_read is None.
    """

    processor: str
    processors: int
    shares: str
    kernel: str
    memory: float
    sha1_one: float
    sha1_all: float
    disk_write: float
    disk_read: float | None

    def least(
        self, *, read: float = 0, copied: float = 0, hashed: float = 0, written: float = 0
    ) -> tuple[str, float]:
        """What bounds work on so many bytes, all of it at once, and the seconds that this takes.

        read: from the disk; hashed: by all processors; written: to the end of an fsync.
        """
        work = {
            "the disk's reads": (read, self.disk_read),
            "memory": (copied, self.memory),
            "the processors' SHA-1": (hashed, self.sha1_all),
            "the disk's writes": (written, self.disk_write),
        }
        taken = {what: size / 1e6 / rate for what, (size, rate) in work.items() if size and rate}
        by = max(taken, key=lambda what: taken[what])
        return by, taken[by]

    def fastest(self, size: float, **work: float) -> tuple[str, float]:
        """The same in MB/s of `size` bytes. work: see least."""
        by, seconds = self.least(**work)
        return by, size / 1e6 / seconds

    def to_json(self) -> str:
        """One line: an object with the key `host`, rates to three significant digits."""
        rounded = {
            key: float(f"{value:.3g}") if isinstance(value, float) else value
            for key, value in asdict(self).items()
        }
        return json.dumps({"host": rounded})


@functools.cache
def this_host(*, quick: bool = False) -> HostRates:
    """Of this host, on the disk of the present folder; measured once by a process."""
    return measure_host(Path.cwd(), quick=quick)


def measure_host(folder: Path, *, quick: bool = False) -> HostRates:
    """Measure in about two seconds, on the disk of `folder`; leaves nothing there.

    quick: with an eighth of the bytes. Raises OSError where the disk is full.
    """
    pieces = QUICK_PIECES if quick else PIECES
    processors = len(os.sched_getaffinity(0))
    with mmap.mmap(-1, PIECE) as piece:
        piece.write(os.urandom(PIECE))
        target = bytearray(PIECE)
        written, read = _disk(folder, piece, pieces)
        return HostRates(
            processor=_processor(),
            processors=processors,
            shares=shares(),
            kernel=platform.release(),
            memory=_rate(pieces, lambda: _copy(target, piece)),
            sha1_one=_hashed(piece, pieces, 1),
            sha1_all=_hashed(piece, pieces, processors),
            disk_write=written,
            disk_read=read,
        )


def _rate(pieces: int, act: Callable[[], object], *, last: Callable[[], object] = int) -> float:
    began = time.perf_counter()
    for _ in range(pieces):
        act()
    last()
    return pieces * PIECE / 1e6 / (time.perf_counter() - began)


def _copy(target: bytearray, piece: mmap.mmap) -> None:
    memoryview(target)[:] = memoryview(piece)


def _hashed(piece: mmap.mmap, pieces: int, threads: int) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda _: hashlib.sha1(piece).digest(), range(pieces * threads)):
            pass
    return threads * pieces * PIECE / 1e6 / (time.perf_counter() - began)


def _disk(folder: Path, piece: mmap.mmap, pieces: int) -> tuple[float, float | None]:
    with tempfile.NamedTemporaryFile(dir=folder, prefix="host-") as file:
        written = _rate(
            pieces, lambda: os.write(file.fileno(), piece), last=lambda: os.fsync(file.fileno())
        )
        try:
            direct = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            return written, None
        try:
            read = _rate(pieces, lambda: os.readv(direct, [piece]))
        finally:
            os.close(direct)
    return written, read


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
