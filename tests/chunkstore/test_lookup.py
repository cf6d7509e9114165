# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names of many blocks at once, and finding them again among many."""

import struct
from pathlib import Path

import pytest

from chunkstore import Store, name_blocks, split_refs
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ZERO_REF
from tests.chunkstore.content import COLLISIONS, flip, noise, packs, reference

MANY = 150_000
"""More than are kept beside the sorted part of the table of places, so that it is merged."""


def numbered(first: int, count: int) -> bytes:
    """Distinct blocks that are made and compressed fast."""
    padding = bytes(BLOCK_SIZE - 8)
    return b"".join(struct.pack("<Q", number) + padding for number in range(first, first + count))


@pytest.mark.parametrize("count", [1, 6, 7, 15, 16, 17, 33, 64])
def test_names_do_not_depend_on_how_many_blocks_are_named_together(count: int) -> None:
    blocks = [noise(number) for number in range(count)]
    assert name_blocks(b"".join(blocks)) == b"".join(map(reference, blocks))


def test_zero_blocks_between_others_keep_their_places() -> None:
    zero = bytes(BLOCK_SIZE)
    blocks = [zero if number % 3 == 0 else noise(number) for number in range(50)]
    expected = [ZERO_REF if block == zero else reference(block) for block in blocks]
    assert list(split_refs(name_blocks(b"".join(blocks)))) == expected


def test_many_chunks_are_found_while_they_are_put_and_after_a_restart(tmp_path: Path) -> None:
    refs = b""
    with Store.create(tmp_path / "store") as store:
        for first in range(1, MANY, 25_000):
            refs += store.put(numbered(first, 25_000))
            store.sync()
        assert all(store.has(refs))
        assert store.put(numbered(1, 1000)) == refs[: 1000 * CHUNK_REF_SIZE]
        assert store.stats().chunks == MANY
    with Store.open(tmp_path / "store") as store:
        assert all(store.has(refs))
        assert not any(store.has(name_blocks(numbered(MANY + 1, 5000))))
        store.put(numbered(1, 5000))
        assert store.stats().chunks == MANY


def test_chunks_of_one_prefix_are_told_apart(tmp_path: Path) -> None:
    """Both collisions have one SHA-1: the same prefix, told apart by the record's header."""
    with Store.create(tmp_path / "store") as store:
        refs = split_refs(store.put(b"".join(COLLISIONS)))
        store.sync()
        assert [store.get(ref) for ref in refs] == list(COLLISIONS)
        assert store.put(COLLISIONS[1]) == refs[1]
        assert store.stats().chunks == 2


def test_a_record_whose_header_went_bad_is_missing_and_can_be_put_again(tmp_path: Path) -> None:
    block = noise(1)
    with Store.create(tmp_path / "store") as store:
        ref = store.put(block)
        store.sync()
        flip(packs(tmp_path / "store/packs")[0], 16 + 8)
    with Store.open(tmp_path / "store") as store:
        store.records(ref)  # finds out
        assert store.has(ref) == [False]
        assert store.put(block) == ref
        assert store.get(split_refs(ref)[0]) == block
