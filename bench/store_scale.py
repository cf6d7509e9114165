# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A store of millions of chunks: memory, and how fast chunks are put, found and read.

The chunks are small when compressed, so that the index is what is measured. Each size is measured
by a process of its own, which opens the store anew and grows it: python -m bench.store_scale.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.store_inputs import run_folder
from bench.store_keepers import peak_mb
from chunkstore import Store, split_refs
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef

SIZES = (1_024_000, 4_096_000, 16_384_000)
BATCH = 256
SAMPLE = 100 * BATCH
READS = 10_000
LEVEL = 1
"""Compressed, because 16 million raw chunks would take 67 GB of disk."""

MEMORY_MB = 64.0
CHUNK_BYTES = 12
BUFFER_MB = (BATCH * BLOCK_SIZE) / 1e6
"""What this bench itself holds: one batch of blocks."""


def scale_figures(quick: bool) -> Iterator[Figure]:
    """Figures for each number of chunks, ascending."""
    with run_folder() as folder:
        for size in SIZES:
            yield from _figures_at(folder / "store", size // (20 if quick else 1))


def _figures_at(folder: Path, chunks: int) -> Iterator[Figure]:
    argv = [sys.executable, "-m", "bench.store_scale", str(folder), str(chunks)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    name = f"store of {chunks / 1e6:g} million chunks"
    goal = MEMORY_MB + CHUNK_BYTES * chunks / 1e6
    yield figure(f"{name}: memory", measured["peak"] - BUFFER_MB, "MB", at_most=goal)
    yield figure(f"{name}: opened and loaded", measured["open"], "s")
    for what, unit in (("put", "chunks/s"), ("found", "chunks/s"), ("not found", "chunks/s")):
        yield figure(f"{name}: {what}", measured[what], unit)
    yield figure(f"{name}: read, one by one", measured["read"], "chunks/s")


def _blocks(first: int) -> bytes:
    """BATCH distinct blocks that are nearly empty."""
    blocks = bytearray(BATCH * BLOCK_SIZE)
    for number in range(BATCH):
        struct.pack_into("<Q", blocks, number * BLOCK_SIZE, first + number + 1)
    return bytes(blocks)


def _measure(folder: Path, chunks: int) -> dict[str, float]:
    """Grow the store to at least `chunks`, and use it."""
    if not folder.exists():
        Store.create(folder).close()
    measured: dict[str, float] = {}
    with Store.open(folder, level=LEVEL) as store:
        here = store.stats().chunks
        measured["put"] = _rate(chunks - here, lambda: _put(store, range(here, chunks, BATCH)))
    began = time.perf_counter()
    with Store.open(folder, level=LEVEL) as store:
        store.has(bytes(CHUNK_REF_SIZE))
        measured["open"] = time.perf_counter() - began
        dice = random.Random(chunks)
        firsts = [dice.randrange(chunks // BATCH) * BATCH for _ in range(SAMPLE // BATCH)]
        refs = [store.put(_blocks(first)) for first in firsts]
        measured["found"] = _rate(SAMPLE, lambda: [store.has(batch) for batch in refs])
        strange = [dice.randbytes(BATCH * CHUNK_REF_SIZE) for _ in firsts]
        measured["not found"] = _rate(SAMPLE, lambda: [store.has(batch) for batch in strange])
        some = dice.sample(split_refs(b"".join(refs)), READS)
        measured["read"] = _rate(READS, lambda: _read(store, some))
    measured["peak"] = peak_mb(os.getpid())
    return measured


def _put(store: Store, firsts: range) -> None:
    for first in firsts:
        store.put(_blocks(first))
    store.sync()


def _read(store: Store, refs: list[ChunkRef]) -> None:
    """Keeps nothing of what it reads: that would count as the store's memory."""
    for ref in refs:
        store.get(ref)


def _rate(count: int, act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), int(sys.argv[2]))))
