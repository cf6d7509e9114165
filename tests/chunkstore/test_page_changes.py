# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of a table, told as what differs from another table's, and made again of those."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chunkstore import (
    PAGE_CHANGES_LIMIT,
    PageChange,
    PageChanges,
    PageChangesInvalid,
    Store,
    TableRoot,
    decode_page_changes,
    difference,
    encode_page_changes,
    name_blocks,
    one_after_other,
    pages_missing,
)
from satchel.errors import IntegrityError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ZERO_REF, ChunkRef
from tests.chunkstore.content import noise

BLOCKS = 64 * 64 + 100
EMPTY = TableRoot(ref=ZERO_REF, size=BLOCKS * BLOCK_SIZE)
ALL = range(BLOCKS)

BASE, OTHER = (ChunkRef(bytes([n]) * CHUNK_REF_SIZE) for n in (1, 2))
SMALL = {"disk0": TableRoot(ChunkRef(b"\3" * CHUNK_REF_SIZE), 64 * BLOCK_SIZE)}
CHANGES = {SMALL["disk0"].ref: PageChange(0, BASE, {1: OTHER, 63: ZERO_REF})}
GOLDEN = b"SATX\1\0\0\0" + BASE + bytes.fromhex("0200000000000080") + OTHER + bytes(CHUNK_REF_SIZE)
"""The example of docs/formats/delta.md."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store")


def volume(store: Store, numbers: Sequence[int], seed: int = 0) -> TableRoot:
    """A volume with content in these blocks only."""
    content = bytearray(BLOCKS * BLOCK_SIZE)
    for block in numbers:
        content[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE] = noise(seed + block)
    return store.import_bytes(bytes(content))


def made_all(store: Store, root: TableRoot, changes: PageChanges) -> bool:
    """Whether every page of the table can be made, in a store that has those of another one."""
    while missing := pages_missing(store, root, ALL):
        blocks = [changes[page].make(store) for page in missing if page in changes]
        if len(blocks) < len(missing) or None in blocks:
            return False
        assert store.put(b"".join(b for b in blocks if b)) == b"".join(missing)
    return True


def with_pages_of(folder: Path, store: Store, root: TableRoot) -> Store:
    """A new store that has this table, and no more."""
    other = Store.create(folder)
    while missing := pages_missing(other, root, ALL):
        other.admit(store.records(b"".join(missing)))
    return other


@pytest.mark.parametrize("old", [(), (0, 1, 2, 63, 64, 200, 4000), range(0, BLOCKS, 61)])
@pytest.mark.parametrize("new", [(), (0, 2, 63, 65, 4095, BLOCKS - 1), range(0, BLOCKS, 47)])
def test_all_pages_come_out_of_those_of_the_other_table(
    tmp_path: Path, store: Store, old: Sequence[int], new: Sequence[int]
) -> None:
    before, after = volume(store, old), volume(store, new, seed=1)
    tables = {"ram": after, "disk0": EMPTY, "disk1": before}
    data = encode_page_changes(difference(store, before, after).pages, tables)
    other = with_pages_of(tmp_path / "other", store, before)
    changes = decode_page_changes(data, tables)
    assert made_all(other, after, changes)
    assert len(changes) == len(difference(store, before, after).pages)


def test_few_changes_are_few_bytes(store: Store) -> None:
    numbers = list(ALL)
    before = volume(store, numbers)
    content = bytearray(store.read(before))
    for block in (5, 700, 3000):
        content[block * BLOCK_SIZE] ^= 1
    after = store.import_bytes(bytes(content))
    found = difference(store, before, after)
    assert found.blocks == (5, 700, 3000)
    data = encode_page_changes(found.pages, {"ram": after})
    # Each of three leaves, the page above them and the root: a base, a bitmap, references.
    assert len(data) == 8 + 5 * 60 + (3 + 3 + 1) * CHUNK_REF_SIZE


def test_changes_follow_changes(tmp_path: Path, store: Store) -> None:
    choose = random.Random(5)
    first = volume(store, choose.sample(ALL, 300))
    second = volume(store, choose.sample(ALL, 300), seed=1)
    lasts = (volume(store, choose.sample(ALL, 300), seed=2), first, second, EMPTY)
    for number, last in enumerate(lasts):
        both = one_after_other(
            difference(store, first, second).pages, difference(store, second, last).pages
        )
        told = decode_page_changes(encode_page_changes(both, {"ram": last}), {"ram": last})
        other = with_pages_of(tmp_path / f"other{number}", store, first)
        assert made_all(other, last, told)


def test_the_format_is_what_its_page_says() -> None:
    assert encode_page_changes(CHANGES, SMALL) == GOLDEN
    assert decode_page_changes(GOLDEN, SMALL) == CHANGES


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SATW" + GOLDEN[4:],
        GOLDEN[:4] + b"\2" + GOLDEN[5:],
        GOLDEN[:8],
        GOLDEN[:-1],
        GOLDEN + b"\0",
        GOLDEN[:60] + bytes(8),  # nothing is changed in another page
        GOLDEN + bytes(PAGE_CHANGES_LIMIT),
    ],
)
def test_what_is_not_whole_is_refused(data: bytes) -> None:
    with pytest.raises(PageChangesInvalid):
        decode_page_changes(data, SMALL)


def test_a_lie_about_a_page_gives_another_page_or_none(tmp_path: Path, store: Store) -> None:
    before, after = volume(store, [1, 2, 3]), volume(store, [2, 3, 4], seed=1)
    changes = difference(store, before, after).pages
    leaf, told = next((ref, change) for ref, change in changes.items() if change.level == 0)
    honest = told.make(store)
    assert honest and name_blocks(honest) == leaf
    for lie in (
        replace(told, entries={**told.entries, 9: OTHER}),
        replace(told, base=ZERO_REF, entries={0: OTHER}),
    ):
        made = lie.make(store)
        assert made and name_blocks(made) != leaf
    assert replace(told, base=OTHER).make(store) is None
    no_page = ChunkRef(store.put(noise(9)))
    for lie in (replace(told, base=no_page), replace(told, level=1)):
        with pytest.raises(IntegrityError):
            lie.make(store)
