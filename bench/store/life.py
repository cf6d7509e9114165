# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a store in which its memory is measured: python -m bench.store.life FOLDER CHUNKS.

Grows it to so many chunks and uses it. Imports nothing but the engine, because what a program's
other parts take would count as the store's.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chunkstore import Store, split_refs
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef

BATCH = 256
SAMPLE = 100 * BATCH
READ = 100
"""Of each batch of the sample, one by one."""
LEVEL = 1
"""Compressed, because 16 million raw chunks would take 67 GB of disk."""


def _blocks(first: int) -> bytes:
    """BATCH distinct blocks that are nearly empty."""
    blocks = bytearray(BATCH * BLOCK_SIZE)
    for number in range(BATCH):
        struct.pack_into("<Q", blocks, number * BLOCK_SIZE, first + number + 1)
    return bytes(blocks)


def live(folder: Path, chunks: int) -> dict[str, float]:
    """Grow the store to at least `chunks`, and use it. Rates, seconds, and MB: the most memory of
    the process while it grew the store, and altogether."""
    if not folder.exists():
        Store.create(folder).close()
    measured = {"program": _peak_mb()}
    with Store.open(folder, level=LEVEL) as store:
        here = store.stats().chunks
        measured["put"] = _rate(chunks - here, lambda: _put(store, range(here, chunks, BATCH)))
    measured["grown"] = _peak_mb()
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
        some = [ref for batch in refs for ref in split_refs(batch[: READ * CHUNK_REF_SIZE])]
        dice.shuffle(some)
        measured["read"] = _rate(len(some), lambda: _read(store, some))
    measured["peak"] = _peak_mb()
    return measured


def _put(store: Store, firsts: range) -> None:
    for first in firsts:
        store.put(_blocks(first))
    store.sync()


def _read(store: Store, refs: list[ChunkRef]) -> None:
    """Keeps nothing of what it reads: that would count as the store's memory."""
    for ref in refs:
        store.get(ref)


def _peak_mb() -> float:
    """The most memory that this process had since its program was started."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _rate(count: int, act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    print(json.dumps(live(Path(sys.argv[1]), int(sys.argv[2]))))
