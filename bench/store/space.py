# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The space that a settled store takes, and reading whole images out of a store, beside others."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import product

from bench.harness import Figure, figure
from bench.host import this_host
from bench.store.inputs import cool, make_inputs, run_folder, warm
from bench.store.keepers import BorgFixed, Casync, Keeper, Restic, Satchel, SatchelSettled
from bench.store.race import EXPORT, Race
from chunkstore import Catalog, Store
from satchel.ids import CHUNK_REF_SIZE

SIZE_GOALS = {
    "first": {Casync.name: 1.0},
    "second": {Casync.name: 1.0},
    "changed": {Casync.name: 0.9, Restic.name: 0.7},
}
EXPORT_GOALS = {Restic.name: 2.2, Casync.name: 2.2}
LIMIT_GOAL = 0.7
EXPORTED = "second"
PREPARED = {cool: "from the disk", warm: "from memory"}
"""What is done with what is kept before an export, and what that is called."""
ROUNDS = 3


def size_figures(quick: bool) -> Iterator[Figure]:
    """Bytes of all files of a store that is settled after each image."""
    inputs = make_inputs(quick)
    with run_folder() as folder:
        race = Race(inputs, folder, (SatchelSettled, Casync, Restic))
        entered = race.enter()
        for step, goals in SIZE_GOALS.items():
            race.put(entered, step)
            size = race.sizes[SatchelSettled.name, step] / 1e6
            for kind in race.peers:
                against = (kind.name, race.sizes[kind.name, step] / 1e6)
                goal = goals.get(kind.name)
                name = f"store size after {step}, settled"
                yield figure(name, size, "MB", against=against, at_most=goal)


def export_figures(quick: bool) -> Iterator[Figure]:
    """Of a store as an import leaves it, and of one that is settled; from the disk and from the
    page cache, for everybody."""
    inputs = make_inputs(quick)
    size = inputs[EXPORTED].data
    data = size / 1e6
    limits: dict[str, list[float]] = {Satchel.name: [], SatchelSettled.name: []}
    with run_folder() as folder:
        race = Race(inputs, folder, (Satchel, SatchelSettled, Restic, Casync, BorgFixed))
        entered = race.enter()
        race.put(entered, EXPORTED)
        for _ in range(1 if quick else ROUNDS):
            for prepare in PREPARED:
                race.get(entered, EXPORTED, prepare)
            for keeper in entered[:2]:
                limits[keeper.name].append(_check_seconds(keeper))
    stores = ((Satchel.name, "fresh"), (SatchelSettled.name, "settled"))
    for (name, title), (prepare, where) in product(stores, PREPARED.items()):
        export = f"{EXPORT}, {prepare.__name__}"
        read = race.sizes[name, EXPORTED] if prepare is cool else 0
        bound = this_host(quick=quick).fastest(size, read=read, hashed=size, written=size)
        rate = data / race.seconds(name, export)
        for kind in race.kinds[2:]:
            against = (kind.name, data / race.seconds(kind.name, export))
            goal = EXPORT_GOALS.get(kind.name)
            yield _export(title, where, rate, against, goal, bound)
        limit = data / statistics.median(limits[name])
        against = ("reading, decompressing and hashing alone, two threads", limit)
        yield _export(title, where, rate, against, LIMIT_GOAL, bound)


def _export(
    title: str,
    where: str,
    rate: float,
    against: tuple[str, float],
    goal: float | None,
    bound: tuple[str, float],
) -> Figure:
    name = f"store export, {title}, {where}"
    return figure(name, rate, "MB/s", against=against, at_least=goal, bound=bound)


def _check_seconds(keeper: Keeper) -> float:
    """What reading and checking every chunk of the exported volume takes when packs are cached."""
    for path in keeper.files():
        warm(path)
    with Store.open(keeper.kept) as store:
        root = Catalog(store).get(EXPORTED).root
        store.has(bytes(CHUNK_REF_SIZE))  # loads the index
        began = time.perf_counter()
        store.check(root)
        return time.perf_counter() - began
