# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint whose dirty blocks are known, against importing the whole volume again."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator

from bench.harness import Figure, figure
from bench.host import this_host
from bench.store.inputs import Input, changed_blocks, make_inputs, run_folder, warm
from chunkstore import BlockMap, Store, TableRoot
from satchel.ids import BLOCK_SIZE

GOAL = 0.1
ROUNDS = 3


def checkpoint_figures(quick: bool) -> Iterator[Figure]:
    """1 % of the blocks are dirty, at random places. The import has the last version as its base,
    as `satchel-home import` does it."""
    inputs = make_inputs(quick)
    second, changed = inputs["second"], inputs["changed"]
    commits, imports = [], []
    blocks = changed_blocks(second)
    for _ in range(1 if quick else ROUNDS):
        with store_with(second) as (store, root):
            warm(changed.path)
            imports.append(timed(lambda: store.import_file(changed.path, base=root)))
        with store_with(second) as (store, root):
            commits.append(_commit(store, root, blocks))
    size = len(blocks) * BLOCK_SIZE
    yield figure(
        "store checkpoint, 1 % dirty",
        statistics.median(commits),
        "s",
        against=("importing the whole volume again", statistics.median(imports)),
        at_most=GOAL,
        bound=this_host(quick=quick).least(copied=size, hashed=size, written=size),
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

        def commit() -> None:
            store.commit(root, block_map, overlay)
            store.sync()

        return timed(commit)


@contextlib.contextmanager
def store_with(image: Input) -> Iterator[tuple[Store, TableRoot]]:
    """A store of its own that has this image, as it came."""
    with run_folder() as folder:
        Store.create(folder / "store").close()
        with Store.open(folder / "store", level=0) as store:
            warm(image.path)
            yield store, store.import_file(image.path)


def timed(act: Callable[[], object]) -> float:
    """Seconds; nothing else of ours is written meanwhile."""
    os.sync()
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
