# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Prune removes what nothing names, and nothing else."""

from pathlib import Path

import pytest

from chunkstore import BlockMap, BlockState, ChunkMissing, Store, TableRoot
from satchel.ids import ChunkRef
from tests.chunkstore.content import flip, noise, packs, reference, text


def test_what_is_kept_stays_and_the_rest_goes(store: Store) -> None:
    kept = store.import_bytes(noise(1, 200) + noise(2, 200))
    gone = store.import_bytes(noise(2, 200) + noise(3, 400))
    before = store.stats()
    report = store.prune([kept])
    after = store.stats()
    assert store.read(kept) == noise(1, 200) + noise(2, 200)
    assert store.missing(gone) == gone.ref
    assert after.chunks == report.kept == len(store.reachable([kept])) // 52
    assert report.removed == before.chunks - after.chunks
    assert report.bytes_before == before.pack_bytes
    assert report.bytes_after == after.pack_bytes < before.pack_bytes / 1.8
    assert store.verify().ok


def test_the_store_goes_on_after_a_prune(store: Store) -> None:
    kept = store.import_bytes(noise(1, 50))
    gone = store.import_bytes(noise(2, 100))
    store.prune([kept])
    assert store.import_bytes(noise(2, 100)) == gone
    assert store.read(gone) == noise(2, 100)
    store.close()
    with Store.open(store.path) as again:
        assert again.read(kept) == noise(1, 50)
        assert again.read(gone) == noise(2, 100)
        assert again.verify().ok


def test_prune_to_nothing(store: Store) -> None:
    store.import_bytes(noise(1, 50))
    assert store.prune([]).kept == 0
    assert packs(store.packs_path) == []
    store.close()
    with Store.open(store.path) as again:
        assert again.stats().chunks == 0
        root = again.import_bytes(noise(1, 50))
        again.sync()
        assert [pack.name for pack in packs(again.packs_path)] == ["000002.pack"]
        assert again.read(root) == noise(1, 50)


def test_packs_with_little_garbage_stay_as_they_are(tmp_path: Path) -> None:
    Store.create(tmp_path / "store").close()
    with Store.open(tmp_path / "store", pack_limit=1 << 20) as store:
        store.put(noise(9, 20))
        kept = store.import_bytes(noise(1, 1000))
        before = {pack.name: pack.read_bytes() for pack in packs(store.packs_path)}
        store.prune([kept])
        assert {pack.name: pack.read_bytes() for pack in packs(store.packs_path)} == before
        assert store.has(reference(noise(9))) == [False]
        assert store.read(kept) == noise(1, 1000)


def test_nothing_is_removed_when_a_kept_page_is_missing(store: Store) -> None:
    here = store.import_bytes(noise(1, 50))
    absent = TableRoot(ChunkRef(reference(noise(7))), 100_000)
    before = store.stats()
    with pytest.raises(ChunkMissing):
        store.prune([absent])
    assert store.stats() == before
    assert store.prune([absent, here], partial=True).removed == 0


def test_a_cache_keeps_what_it_has_of_a_volume(store: Store, other: Store) -> None:
    root = store.import_bytes(text(1, 3000))
    for _ in range(2):
        other.admit(store.records(other.missing(root)))
    chunks = other.stats().chunks
    other.put(noise(1, 10))
    with pytest.raises(ChunkMissing):
        store_with_holes = TableRoot(ChunkRef(reference(noise(8))), 4096)
        other.prune([root, store_with_holes])
    assert other.prune([root], partial=True).kept == chunks


def test_packs_of_attached_volumes_stay(store: Store, tmp_path: Path) -> None:
    root = store.import_bytes(noise(1, 10))
    with BlockMap.create(tmp_path / "map", root.blocks) as map:
        store.resolve(root, map, 0, root.blocks)
        store.import_bytes(noise(2, 1000))
        place = map.entry(3)
        store.prune([root], maps=[map])
        assert map.count(BlockState.PACKED) == 10
        pack = store.packs_path / f"{place.pack:06}.pack"
        start = place.offset + 64
        assert pack.read_bytes()[start : start + 4096] == noise(1, 10)[3 * 4096 : 4 * 4096]
    store.prune([root])
    assert not pack.exists()
    assert store.read(root) == noise(1, 10)


def test_a_record_that_is_damaged_is_not_copied(store: Store) -> None:
    kept = store.import_bytes(noise(1, 10))
    store.put(noise(2, 100))
    store.sync()
    flip(packs(store.packs_path)[0], 16 + 3 * 4160 + 100)
    store.prune([kept])
    assert store.missing(kept) == reference(noise(1, 10)[3 * 4096 : 4 * 4096])
    assert store.verify().ok


def test_a_pack_that_a_crash_left_behind_goes_with_the_next_prune(store: Store) -> None:
    """Between pointing the index to the copies and removing the old pack."""
    kept = store.import_bytes(noise(1, 50))
    store.put(noise(2, 100))
    store.sync()
    old = packs(store.packs_path)[0]
    data = old.read_bytes()
    store.prune([kept])
    assert not old.exists()
    old.write_bytes(data)
    store.close()
    with Store.open(store.path) as again:
        assert again.has(reference(noise(2))) == [False]
        again.prune([kept])
        assert not old.exists()
        assert again.read(kept) == noise(1, 50)
