# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Importing images into a store beside other tools: speed, processor time, memory.

Speeds are of the bytes that are not zero. Each import is a command of its own, whose data is
durable when it ends; what is imported is in the page cache.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness import Figure, figure
from bench.host import HostRates, this_host
from bench.store.inputs import STEPS, Input, make_inputs, run_folder
from bench.store.keepers import BorgBlocks, BorgFixed, Keeper, Satchel
from bench.store.race import Race
from chunkstore import Store

FASTEST = "the fastest that deduplicates"
GOALS = {
    "first": {FASTEST: 2.0, BorgBlocks.name: 3.0},
    "second": {FASTEST: 2.0, BorgBlocks.name: 3.0},
    "changed": {FASTEST: 5.0},
    "ram": {BorgBlocks.name: 2.0},
    "ram-used": {BorgBlocks.name: 2.0},
}
"""How many times as fast as a peer."""

HASH_GOAL = 0.6
MEMORY_MB = 64.0
CHUNK_BYTES = 12
"""Goal for memory: so much, and so much for each chunk of the store."""

ROUNDS = 3

_PIECE = 1 << 20


def import_figures(quick: bool) -> Iterator[Figure]:
    """Beside the peers that can win, which are fast enough for several rounds."""
    inputs = make_inputs(quick)
    for name, image in inputs.items():
        yield figure(f"store input {name}: not zero", image.data / 1e6, "MB")
    with run_folder() as folder:
        race = Race(inputs, folder, (Satchel, BorgFixed, BorgBlocks))
        hashing = []
        for _ in range(1 if quick else ROUNDS):
            entered = race.enter()
            for step in STEPS:
                race.put(entered, step)
                if step == "changed":
                    hashing.append(_sha1_pass(inputs[step].path))
            chunks = _chunks(entered[0])
            race.leave(entered)
    for step in STEPS:
        bound = _bound(this_host(quick=quick), race, inputs[step], step)
        yield from _speeds(race, inputs[step], step, GOALS[step], bound)
    rate = _rate(race, inputs["changed"], Satchel.name, "changed")
    limit = inputs["changed"].data / 1e6 / statistics.median(hashing)
    against = ("one SHA-1 pass of OpenSSL on two cores", limit)
    bound = _bound(this_host(quick=quick), race, inputs["changed"], "changed")
    name = "store import changed"
    yield figure(name, rate, "MB/s", against=against, at_least=HASH_GOAL, bound=bound)
    goal = MEMORY_MB + chunks * CHUNK_BYTES / 1e6
    for step in STEPS:
        seconds, other = (_processor(race, kind.name, step) for kind in (Satchel, BorgFixed))
        against = (BorgFixed.name, other)
        yield figure(f"store import {step}, processor", seconds, "s", against=against)
        peak = race.peak_mb(Satchel.name, step)
        yield figure(f"store import {step}, memory", peak, "MB", at_most=goal)


def _bound(host: HostRates, race: Race, image: Input, step: str) -> tuple[str, float]:
    """Of an import: every byte is read from the page cache and hashed; what is new is written."""
    at = STEPS.index(step)
    before = race.sizes[Satchel.name, STEPS[at - 1]] if at else 0
    new = race.sizes[Satchel.name, step] - before
    return host.fastest(image.data, copied=image.data, hashed=image.data, written=new)


def _speeds(
    race: Race, image: Input, step: str, goals: dict[str, float], bound: tuple[str, float]
) -> Iterator[Figure]:
    name = f"store import {step}"
    rate = _rate(race, image, Satchel.name, step)
    if FASTEST in goals:
        fastest = race.fastest(step)
        against = (f"{fastest}, {FASTEST}", _rate(race, image, fastest, step))
        goal = goals[FASTEST]
        yield figure(name, rate, "MB/s", against=against, at_least=goal, bound=bound)
    for kind in race.peers:
        against, least = (kind.name, _rate(race, image, kind.name, step)), goals.get(kind.name)
        yield figure(name, rate, "MB/s", against=against, at_least=least, bound=bound)


def _rate(race: Race, image: Input, keeper: str, step: str) -> float:
    return image.data / 1e6 / race.seconds(keeper, step)


def _processor(race: Race, keeper: str, step: str) -> float:
    return statistics.median(run.processor for run in race.runs[keeper, step])


def _chunks(keeper: Keeper) -> int:
    with Store.open(keeper.kept) as store:
        return store.stats().chunks


def _sha1_pass(path: Path) -> float:
    """Seconds that two threads need to hash what is not a hole, in large pieces."""
    size = path.stat().st_size
    half = size // 2 // _PIECE * _PIECE
    return _together(
        [
            threading.Thread(target=_hash_range, args=(path, *part))
            for part in ((0, half), (half, size))
        ]
    )


def _together(threads: Sequence[threading.Thread]) -> float:
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def _hash_range(path: Path, at: int, end: int) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    with path.open("rb", buffering=0) as file:
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            hole = min(end, os.lseek(file.fileno(), at, os.SEEK_HOLE))
            while at < hole:
                piece = os.pread(file.fileno(), min(_PIECE, hole - at), at)
                digest.update(piece)
                at += len(piece)
