# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A store of millions of chunks: memory, and how fast chunks are put, found and read.

The chunks are small when compressed, so that the index is what is measured. Each size is measured
by a process of its own, which opens the store anew and grows it (bench.store.life). Its memory
counts with Python and all, but for the blocks that it puts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.host import HostRates, this_host
from bench.store.inputs import run_folder
from bench.store.life import BATCH
from satchel.ids import BLOCK_SIZE

SIZES = (1_024_000, 4_096_000, 16_384_000)

MEMORY_MB = 64.0
CHUNK_BYTES = 12
BUFFER_MB = (BATCH * BLOCK_SIZE) / 1e6
"""What the process itself holds: one batch of blocks."""


def scale_figures(quick: bool) -> Iterator[Figure]:
    """Figures for each number of chunks, ascending."""
    with run_folder() as folder:
        for size in SIZES:
            count = size // (20 if quick else 1)
            yield from _figures_at(folder / "store", count, this_host(quick=quick))


def _figures_at(folder: Path, chunks: int, host: HostRates) -> Iterator[Figure]:
    argv = [sys.executable, "-m", "bench.store.life", str(folder), str(chunks)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    name = f"store of {chunks / 1e6:g} million chunks"
    goal = MEMORY_MB + CHUNK_BYTES * chunks / 1e6
    yield figure(f"{name}: memory", measured["peak"] - BUFFER_MB, "MB", at_most=goal)
    yield figure(f"{name}: memory before there was a store", measured["program"], "MB")
    yield figure(f"{name}: memory while it grew", measured["grown"] - BUFFER_MB, "MB")
    yield figure(f"{name}: opened and loaded", measured["open"], "s")
    hashing = "the processors' SHA-1", host.sha1_all * 1e6 / BLOCK_SIZE
    for what, bound in (("put", hashing), ("found", None), ("not found", None)):
        yield figure(f"{name}: {what}", measured[what], "chunks/s", bound=bound)
    copying = "memory", host.memory * 1e6 / BLOCK_SIZE
    yield figure(f"{name}: read, one by one", measured["read"], "chunks/s", bound=copying)
