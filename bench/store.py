# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The store beside other tools: importing, exporting, checkpoints, space, memory, reads over NBD.

Every tool gets the same images one after the other into one folder of its own, step by step in
turn, so that a slow moment of the machine meets all of them. Speeds are of the bytes that are not
zero; of several rounds the median counts. Tools that take long run in the first round only.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.store_inputs import FOLDER, STEPS, Input, changed_blocks, make_inputs
from bench.store_keepers import KEEPERS, BorgBlocks, BorgFixed, Keeper, Run, Satchel
from bench.store_reads import read_figures
from bench.store_scale import CHUNK_BYTES, MEMORY_MB, scale_figures
from chunkstore import BlockMap, Store, TableRoot
from satchel.errors import SatchelError
from satchel.ids import BLOCK_SIZE

ROUNDS = 3
EXPORTED = "second"
PUT_GOALS = {
    "first": {"fastest": 2.0, BorgBlocks.name: 3.0},
    "second": {"fastest": 2.0, BorgBlocks.name: 3.0},
    "changed": {"fastest": 5.0},
    "ram": {BorgBlocks.name: 2.0},
    "ram-used": {BorgBlocks.name: 2.0},
}
"""How many times as fast as a peer; "fastest": as the fastest of those that deduplicate."""

SIZE_GOALS = {
    "first": {"casync": 1.0},
    "second": {"casync": 1.0},
    "changed": {"casync": 0.9, "restic": 0.7},
}
EXPORT_GOALS = {"restic": 2.2, "casync": 2.2}
HASH_GOAL = 0.6
CHECKPOINT_GOAL = 0.1
READ_SECONDS = 5
SCALES = (1_024_000, 4_096_000, 16_384_000)
"""Numbers of chunks at which memory and rates are measured."""

_PIECE = 1 << 20


class Race:
    """What every keeper took for every step."""

    def __init__(self, inputs: dict[str, Input], folder: Path) -> None:
        self._inputs = inputs
        self._folder = folder
        self.keepers = [kind for kind in KEEPERS if kind.here()]
        self.runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
        self.sizes: dict[tuple[str, str], int] = {}
        self.hashing: list[float] = []

    def round(self, number: int) -> Keeper:
        """Every keeper, from nothing. Gives back Satchel's, with everything in it."""
        entered = [
            kind(self._folder / f"{number}-{position}")
            for position, kind in enumerate(self.keepers)
            if number == 0 or not kind.slow
        ]
        for keeper in entered:
            keeper.init()
        for step in STEPS:
            for keeper in entered:
                self.runs[keeper.name, step].append(keeper.put(self._inputs[step].path))
                self.sizes[keeper.name, step] = keeper.bytes()
            if step == "changed":
                self.hashing.append(_sha1_pass(self._inputs[step].path))
        for keeper in entered:
            self._get(keeper)
        for keeper in entered[1:]:
            shutil.rmtree(keeper.folder)
        return entered[0]

    def _get(self, keeper: Keeper) -> None:
        target = keeper.folder / "exported"
        self.runs[keeper.name, "export"].append(keeper.get(EXPORTED, target))
        if not filecmp.cmp(target, self._inputs[EXPORTED].path, shallow=False):
            raise SatchelError(f"{keeper.name} gave back other bytes than it was given")
        target.unlink()

    def seconds(self, keeper: str, step: str) -> float:
        return statistics.median(run.seconds for run in self.runs[keeper, step])

    def rate(self, keeper: str, step: str) -> float:
        """MB/s of bytes that are not zero."""
        image = self._inputs[EXPORTED if step == "export" else step]
        return image.data / 1e6 / self.seconds(keeper, step)

    def fastest(self, step: str) -> str:
        peers = [kind.name for kind in self.keepers[1:] if kind.deduplicates]
        return min(peers, key=lambda name: self.seconds(name, step))


def figures() -> Iterator[Figure]:
    yield from _figures(quick=False, rounds=ROUNDS)


def quick_figures() -> Iterator[Figure]:
    """The same with small images, once: for a change that is being made, not for a claim."""
    yield from _figures(quick=True, rounds=1)


def _figures(*, quick: bool, rounds: int) -> Iterator[Figure]:
    inputs = make_inputs(quick)
    for name, image in inputs.items():
        yield figure(f"store input {name}: not zero", image.data / 1e6, "MB")
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as name:
        race = Race(inputs, Path(name).resolve())
        for number in range(rounds):
            kept = race.round(number).kept
        for step in STEPS:
            yield from _put_figures(race, step)
        yield from _export_figures(race)
        yield from _size_figures(race)
        yield from _checkpoint_figures(inputs, rounds)
        yield from _memory_figures(race, kept)
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        seconds = READ_SECONDS // (5 if quick else 1)
        yield from read_figures(inputs["second"], Path(name), rounds, seconds)
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as name:
        sizes = tuple(size // (20 if quick else 1) for size in SCALES)
        yield from scale_figures(Path(name) / "store", sizes)


def _put_figures(race: Race, step: str) -> Iterator[Figure]:
    rate, goals = race.rate(Satchel.name, step), PUT_GOALS[step]
    name = f"store import {step}"
    fastest = race.fastest(step)
    against = (f"{fastest}, the fastest that deduplicates", race.rate(fastest, step))
    yield figure(name, rate, "MB/s", against=against, at_least=goals.get("fastest"))
    for kind in race.keepers[1:]:
        against = (kind.name, race.rate(kind.name, step))
        yield figure(name, rate, "MB/s", against=against, at_least=goals.get(kind.name))
    if step == "changed":
        data = race.rate(Satchel.name, step) * race.seconds(Satchel.name, step)
        limit = ("one SHA-1 pass of OpenSSL on two cores", data / statistics.median(race.hashing))
        yield figure(name, rate, "MB/s", against=limit, at_least=HASH_GOAL)


def _export_figures(race: Race) -> Iterator[Figure]:
    rate = race.rate(Satchel.name, "export")
    for kind in race.keepers[1:]:
        against = (kind.name, race.rate(kind.name, "export"))
        goal = EXPORT_GOALS.get(kind.name)
        yield figure("store export", rate, "MB/s", against=against, at_least=goal)


def _size_figures(race: Race) -> Iterator[Figure]:
    for step in ("first", "second", "changed"):
        size = race.sizes[Satchel.name, step] / 1e6
        for kind in race.keepers[1:]:
            against = (kind.name, race.sizes[kind.name, step] / 1e6)
            goal = SIZE_GOALS[step].get(kind.name)
            yield figure(f"store size after {step}", size, "MB", against=against, at_most=goal)


def _memory_figures(race: Race, kept: Path) -> Iterator[Figure]:
    with Store.open(kept) as store:
        chunks = store.stats().chunks
    goal = MEMORY_MB + chunks * CHUNK_BYTES / 1e6
    for step in (*STEPS, "export"):
        peak = max(run.peak_mb for run in race.runs[Satchel.name, step])
        other = max(run.peak_mb for run in race.runs[BorgFixed.name, step])
        yield figure(f"store memory, {step}", peak, "MB", at_most=goal)
        yield figure(f"store memory, {step}", peak, "MB", against=(BorgFixed.name, other))


def _checkpoint_figures(inputs: dict[str, Input], rounds: int) -> Iterator[Figure]:
    """A checkpoint whose dirty blocks are known, against importing the whole volume again."""
    commits, imports = [], []
    blocks = changed_blocks(inputs["second"])
    for _ in range(rounds):
        with _store_with(inputs["second"]) as (store, _):
            imports.append(_timed(lambda: store.import_file(inputs["changed"].path)))
        with _store_with(inputs["second"]) as (store, root):
            commits.append(_commit(store, root, blocks))
    yield figure(
        "store checkpoint, 1 % dirty",
        statistics.median(commits),
        "s",
        against=("importing the whole volume again", statistics.median(imports)),
        at_most=CHECKPOINT_GOAL,
    )


def _commit(store: Store, root: TableRoot, blocks: dict[int, bytes]) -> float:
    overlay = store.path / "overlay"
    with overlay.open("xb") as file:
        file.truncate(root.size)
        for block, content in blocks.items():
            os.pwrite(file.fileno(), content, block * BLOCK_SIZE)
    with BlockMap.create(store.path / "map", root.blocks) as block_map:
        for block in blocks:
            block_map.mark_dirty(block)
        return _timed(lambda: store.commit(root, block_map, overlay))


@contextlib.contextmanager
def _store_with(image: Input) -> Iterator[tuple[Store, TableRoot]]:
    with (
        tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as name,
        Store.create(Path(name) / "store") as store,
    ):
        yield store, store.import_file(image.path)


def _timed(act: Callable[[], object]) -> float:
    os.sync()
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _sha1_pass(path: Path) -> float:
    """Seconds that two threads need to hash what is not a hole, in large pieces."""
    size = path.stat().st_size
    half = size // 2 // _PIECE * _PIECE
    threads = [
        threading.Thread(target=_hash_range, args=(path, *part))
        for part in ((0, half), (half, size))
    ]
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
