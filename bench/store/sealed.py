# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A sealed medium against one in clear: what a checkpoint writes, and what a resume reads.

Each round measures both in turn on a modelled stick (bench/store/stick.py), with as much noise as
text. A resume reads records in batches, as a surrogate does, and admits them to an empty store.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.store.inputs import run_folder
from bench.store.stick import carry, exhaust, modelled
from chunkstore import Store, TableRoot
from media import Media, SealKeys, new_seal
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE

GOAL = 1.15
ROUNDS = 5
BATCH = 256
"""Chunks that a resume asks for at once."""


def sealed_figures(quick: bool) -> Iterator[Figure]:
    """Medians of rounds."""
    blocks = (1 << 14) // (8 if quick else 1)
    taken: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with run_folder() as folder, Store.create(folder / "store") as store:
        volume = store.import_bytes(_noise(blocks) + _text(blocks))
        for _ in range(2 if quick else ROUNDS):
            for sealed, runs in taken.items():
                runs.append(_round(folder, store, volume, sealed=sealed))
    for index, name in enumerate(("import onto a medium", "resume from a medium")):
        ours, clear = (statistics.median(run[index] for run in taken[way]) for way in (True, False))
        yield figure(f"{name}, sealed", ours, "s", against=("in clear", clear), at_most=GOAL)


def _noise(blocks: int) -> bytes:
    return random.Random(1).randbytes(blocks * BLOCK_SIZE)


def _text(blocks: int) -> bytes:
    """Lines that get a third as long by compression."""
    chance = random.Random(2)
    words = [chance.randbytes(4).hex() for _ in range(4096)]
    text = " ".join(chance.choices(words, k=blocks * BLOCK_SIZE // 9 + 1))
    return text.encode()[: blocks * BLOCK_SIZE]


def _round(folder: Path, store: Store, volume: TableRoot, *, sealed: bool) -> tuple[float, float]:
    """Seconds of the two."""
    keys = SealKeys(folder / "keys")
    with modelled(folder) as root:
        exhaust(root)
        with Media.init(root, new_seal([]) if sealed else None, keys) as media:
            began = time.perf_counter()
            carry(media, store, volume)
            imported = time.perf_counter() - began
    with modelled(folder, made=True) as root, Media.open(root, keys) as media:  # no page is cached
        began = time.perf_counter()
        _resume(media, store.reachable([volume]), folder / "resumed")
        return imported, time.perf_counter() - began


def _resume(media: Media, refs: bytes, place: Path) -> None:
    step = BATCH * CHUNK_REF_SIZE
    with Store.create(place) as store:
        for start in range(0, len(refs), step):
            store.admit(media.records(refs[start : start + step]))
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    place.rmdir()
