# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which blocks of two volumes differ, found out by their tables alone."""

import random
from pathlib import Path

import pytest

from chunkstore import ChunkMissing, Store, StoreUsage, TableRoot, difference
from satchel.ids import BLOCK_SIZE, ZERO_REF
from tests.chunkstore.content import noise

BLOCKS = 64 * 64 + 100


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def volume(store: Store, changes: dict[int, bytes]) -> TableRoot:
    content = bytearray(BLOCKS * BLOCK_SIZE)
    content[: 3 * BLOCK_SIZE] = noise(1, 3)
    for block, data in changes.items():
        content[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE] = data
    return store.import_bytes(bytes(content))


def test_nothing_differs(store: Store) -> None:
    same = volume(store, {})
    assert difference(store, same, same).blocks == ()


def test_blocks_here_and_there_and_blocks_that_are_zero_now(store: Store) -> None:
    choose = random.Random(3)
    numbers = sorted({0, 63, 64, BLOCKS - 1, *choose.sample(range(BLOCKS), 40)})
    changes = {number: noise(number + 10) for number in numbers}
    changes[0] = bytes(BLOCK_SIZE)
    old, new = volume(store, {}), volume(store, changes)
    assert difference(store, old, new).blocks == tuple(numbers)
    assert difference(store, new, old).blocks == tuple(numbers)


def test_a_volume_without_content_has_no_pages(store: Store) -> None:
    empty = TableRoot(ref=ZERO_REF, size=BLOCKS * BLOCK_SIZE)
    full = volume(store, {4000: noise(9)})
    assert difference(store, empty, full).blocks == (0, 1, 2, 4000)
    assert difference(store, empty, empty).blocks == ()


def test_what_cannot_be_compared_is_refused(store: Store, tmp_path: Path) -> None:
    old, new = volume(store, {}), volume(store, {7: noise(9)})
    with pytest.raises(StoreUsage):
        difference(store, old, TableRoot(ref=new.ref, size=new.size + BLOCK_SIZE))
    with pytest.raises(ChunkMissing):
        difference(Store.create(tmp_path / "other"), old, new)
