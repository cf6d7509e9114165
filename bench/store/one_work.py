# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One work of a store that is measured: python -m bench.store.one_work WORK ARGUMENT...

    import STORE FILE LEVEL        into a store that it makes
    checkpoint STORE FILE LEVEL    the file as the dirty blocks of a volume that was empty
    export STORE FILE              the store's one volume
    carry STORE MEDIUM             the same onto a medium that it makes

It imports little but the engine, because its start counts. It reads the root that `write_root`
wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.store.extents import data_extents
from chunkstore import BlockMap, Store, TableRoot
from media import Media
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef

ROOT = "root"
"""A file beside the store: the root of its volume."""


def create(store: Path) -> None:
    """An empty one."""
    Store.create(store).close()


def import_file(store: Path, file: Path, level: int) -> None:
    create(store)
    with Store.open(store, level=level) as opened:
        write_root(store, opened.import_file(file))


def checkpoint(store: Path, file: Path, level: int) -> None:
    size = file.stat().st_size
    create(store)
    with (
        Store.open(store, level=level) as opened,
        BlockMap.create(store.with_name("map"), size // BLOCK_SIZE) as block_map,
    ):
        for block in _data_blocks(file):
            block_map.mark_dirty(block)
        opened.commit(TableRoot(ChunkRef(bytes(CHUNK_REF_SIZE)), size), block_map, file)
        opened.sync()


def export(store: Path, file: Path) -> None:
    with Store.open(store) as opened:
        opened.export_file(read_root(store), file)


def carry(store: Path, medium: Path) -> None:
    root = read_root(store)
    medium.mkdir()
    with Store.open(store) as opened, Media.init(medium) as media:
        media.add(opened, opened.reachable([root]))
        media.commit([], [root])


def write_root(store: Path, root: TableRoot) -> None:
    store.with_name(ROOT).write_text(json.dumps(root.to_json()), encoding="ascii")


def read_root(store: Path) -> TableRoot:
    return TableRoot.from_json(json.loads(store.with_name(ROOT).read_bytes()))


def _data_blocks(path: Path) -> list[int]:
    """The blocks of a raw image that are not in holes."""
    with path.open("rb") as file:
        return [
            block
            for begin, end in data_extents(file.fileno())
            for block in range(begin // BLOCK_SIZE, -(-end // BLOCK_SIZE))
        ]


def main(work: str, first: str, second: str, *level: str) -> None:
    store, other = Path(first), Path(second)
    if level:
        {"import": import_file, "checkpoint": checkpoint}[work](store, other, int(*level))
    else:
        {"export": export, "carry": carry}[work](store, other)


if __name__ == "__main__":
    main(*sys.argv[1:])
