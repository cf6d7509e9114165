# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Records and tables from a peer that lies."""

import random
import struct
from pathlib import Path

import pytest

from chunkstore import BlockMap, ChunkInvalid, Store, TableRoot, split_refs
from satchel.ids import BLOCK_SIZE, ZERO_REF, ChunkRef
from tests.chunkstore.content import noise, raw_record, reference, split_records, text


def test_records_of_a_store_are_admitted_by_another(store: Store, other: Store) -> None:
    refs = store.put(noise(1, 3) + text(2, 300) + bytes(BLOCK_SIZE))
    batch = store.records(refs)
    assert other.admit(batch) == refs[:-52]
    assert other.has(refs) == [True] * 304
    assert other.records(refs) == batch
    assert other.admit(batch) == refs[:-52]
    assert other.stats().chunks == 303


def test_records_leaves_out_what_is_missing(store: Store) -> None:
    here = store.put(noise(1, 2))
    absent = reference(noise(2))
    assert store.records(here[:52] + absent + here[52:]) == store.records(here)
    assert store.records(absent) == b""


@pytest.mark.parametrize("content", [noise(1), text(1)], ids=["raw", "zstd"])
def test_a_flipped_bit_anywhere_in_a_record_is_refused(
    store: Store, other: Store, content: bytes
) -> None:
    ref = store.put(content)
    record = store.records(ref)
    step = max(1, len(record) // 200)
    places = [*range(64), *range(64, len(record), step)]
    for place in places:
        bad = bytearray(record)
        bad[place] ^= 1 << (place % 8)
        with pytest.raises(ChunkInvalid):
            other.admit(bad)
    assert other.has(ref) == [False]
    assert other.stats().chunks == 0


def test_a_record_that_is_cut_off_is_refused(store: Store, other: Store) -> None:
    record = store.records(store.put(text(1)))
    for length in range(1, len(record)):
        with pytest.raises(ChunkInvalid):
            other.admit(record[:length])


def test_records_before_the_bad_one_stay(store: Store, other: Store) -> None:
    refs = store.put(noise(1, 600))
    parts = split_records(store.records(refs))
    bad = bytearray(parts[500])
    bad[100] ^= 1
    parts[500] = bytes(bad)
    with pytest.raises(ChunkInvalid) as caught:
        other.admit(b"".join(parts))
    assert caught.value.ref == split_refs(refs)[500]
    assert other.has(refs) == [True] * 500 + [False] * 100


def test_a_whole_record_with_another_chunks_name_is_refused(other: Store) -> None:
    honest, lie = noise(1), noise(2)
    assert other.admit(raw_record(reference(honest), honest)) == reference(honest)
    with pytest.raises(ChunkInvalid, match="SHA-1"):
        other.admit(raw_record(reference(lie), honest))
    half = reference(honest)[:20] + reference(lie)[20:]
    with pytest.raises(ChunkInvalid, match="SHA-256") as caught:
        other.admit(raw_record(half, honest))
    assert caught.value.ref == half
    with pytest.raises(ChunkInvalid, match="zero block"):
        other.admit(raw_record(reference(bytes(BLOCK_SIZE)), bytes(BLOCK_SIZE)))
    assert other.stats().chunks == 1


def test_noise_is_no_record(store: Store) -> None:
    chance = random.Random(7)
    for length in [1, 63, 64, 65, 4160, 100_000]:
        for _ in range(20):
            with pytest.raises(ChunkInvalid):
                store.admit(chance.randbytes(length))
    assert store.stats().chunks == 0


def page(level: int, refs: dict[int, bytes]) -> bytes:
    block = bytearray(BLOCK_SIZE)
    block[:6] = struct.pack("<IBB", 0x54544153, 1, level)
    for index, ref in refs.items():
        block[16 + 52 * index : 68 + 52 * index] = ref
    return bytes(block)


def test_a_table_that_is_no_table(store: Store, tmp_path: Path) -> None:
    (ref,) = split_refs(store.put(noise(1)))
    root = TableRoot(ref, 64 * BLOCK_SIZE)
    with (
        BlockMap.create(tmp_path / "map", 64) as map,
        pytest.raises(ChunkInvalid, match="not a table page"),
    ):
        store.resolve(root, map, 0, 64)
    with pytest.raises(ChunkInvalid):
        store.read(root)
    with pytest.raises(ChunkInvalid):
        store.reachable([root])
    with pytest.raises(ChunkInvalid):
        store.export_file(root, tmp_path / "output")
    with pytest.raises(ChunkInvalid):
        store.check(root)


def test_a_table_page_of_a_wrong_level(store: Store) -> None:
    (leaf,) = split_refs(store.put(page(0, {0: bytes(store.put(noise(1)))})))
    (top,) = split_refs(store.put(page(1, {0: leaf})))
    assert store.read(TableRoot(leaf, BLOCK_SIZE)) == noise(1)
    assert store.read(TableRoot(top, 65 * BLOCK_SIZE), 0, BLOCK_SIZE) == noise(1)
    with pytest.raises(ChunkInvalid, match="another level"):
        store.read(TableRoot(top, BLOCK_SIZE))
    with pytest.raises(ChunkInvalid, match="another level"):
        store.read(TableRoot(leaf, 65 * BLOCK_SIZE))


def test_a_table_that_names_one_page_everywhere_is_walked_once(store: Store) -> None:
    ref = bytes(store.put(noise(1)))
    for level in range(6):
        ref = bytes(store.put(page(level, dict.fromkeys(range(64), ref))))
    root = TableRoot(ChunkRef(ref), 64**6 * BLOCK_SIZE)
    assert len(store.reachable([root])) == 7 * 52
    assert store.missing(root) == b""
    assert store.read(root, root.size - BLOCK_SIZE, BLOCK_SIZE) == noise(1)


def test_a_huge_volume_of_zeros_is_walked_at_once(store: Store) -> None:
    root = TableRoot(ZERO_REF, 1 << 52)
    assert store.reachable([root]) == b""
    assert store.read(root, (1 << 52) - 10, 10) == bytes(10)
