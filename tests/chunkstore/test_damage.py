# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that change on disk: noticed, never served, and healed when the chunk comes again."""

import shutil
from pathlib import Path

import pytest

from chunkstore import ChunkInvalid, ChunkMissing, Store, StoreDamaged, TableRoot, split_refs
from satchel.ids import ChunkRef
from tests.chunkstore.content import (
    flip,
    noise,
    packs,
    raw_record,
    reference,
    split_records,
    text,
    zstd_record,
)

HEADER = 16  # bytes of a pack before its first record


def test_a_flipped_bit_is_noticed_and_the_chunk_is_missing_until_it_comes_again(
    store: Store, other: Store
) -> None:
    refs = store.put(text(1, 3))
    copies = store.records(refs)
    other.admit(copies)
    store.sync()
    middle = split_refs(refs)[1]
    records = split_records(copies)
    flip(packs(store.packs_path)[0], HEADER + len(records[0]) + 80)

    with pytest.raises(ChunkInvalid) as caught:
        store.get(middle)
    assert caught.value.ref == middle
    assert store.has(refs) == [True, False, True]
    with pytest.raises(ChunkMissing):
        store.get(middle)
    assert store.stats().damaged == 1

    assert store.admit(other.records(middle)) == middle
    assert store.get(middle) == text(1, 3)[4096:8192]


def test_a_bad_record_is_not_given_to_others(store: Store) -> None:
    refs = store.put(noise(1, 3))
    store.sync()
    flip(packs(store.packs_path)[0], HEADER + 4160 + 1000)
    sent = split_records(store.records(refs))
    assert [record[8:60] for record in sent] == [refs[:52], refs[104:]]
    assert store.has(refs) == [True, False, True]


def test_importing_again_heals(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(noise(1, 100))
    root = store.import_file(path)
    flip(packs(store.packs_path)[0], HEADER + 10 * 4160 + 1000)
    with pytest.raises(ChunkInvalid):
        store.read(root)
    assert len(store.missing(root)) == 52
    assert store.import_file(path, base=root) == root
    assert store.read(root) == noise(1, 100)
    assert store.missing(root) == b""


def test_a_damaged_table_page_counts_as_missing(store: Store) -> None:
    root = store.import_bytes(noise(1, 100))
    store.sync()
    pack = packs(store.packs_path)[0]
    flip(pack, pack.stat().st_size - 100)  # the last record is the root page
    store.close()
    with Store.open(store.path) as again:
        assert again.missing(root) == root.ref
        with pytest.raises(ChunkMissing):
            again.read(root)


def test_verify_names_pack_and_place(store: Store) -> None:
    refs = split_refs(store.put(noise(1, 5)))
    store.sync()
    assert store.verify().ok
    flip(packs(store.packs_path)[0], HEADER + 2 * 4160 + 64)
    report = store.verify()
    assert not report.ok
    assert report.records == 4
    assert [(bad.pack, bad.offset) for bad in report.bad] == [(1, HEADER + 2 * 4160)]
    assert report.lost == (refs[2],)
    assert report.to_json()["lost"] == [refs[2][:20].hex()]


def test_verify_finds_a_record_that_is_whole_but_wrong(store: Store) -> None:
    """Its checksum agrees: only the hashes show that it is another chunk."""
    ref = store.put(noise(1))
    store.sync()
    pack = packs(store.packs_path)[0]
    pack.write_bytes(pack.read_bytes()[:HEADER] + raw_record(ref, noise(2)))
    report = store.verify()
    assert report.lost == (ref,)
    assert "SHA-1" in report.bad[0].why
    with pytest.raises(ChunkInvalid):
        store.get(ChunkRef(ref))


def test_a_pack_that_is_gone(tmp_path: Path) -> None:
    Store.create(tmp_path / "store").close()
    with Store.open(tmp_path / "store", pack_limit=100_000) as store:
        root = store.import_bytes(noise(1, 100))
        packs(store.packs_path)[1].unlink()
    with Store.open(tmp_path / "store") as store:
        lost = set(store.verify().lost)
        assert 10 < len(lost) < 30
        with pytest.raises(ChunkInvalid, match="No such file"):
            store.read(root)
        assert store.import_bytes(noise(1, 100)) == root
        assert set(store.verify().lost) <= lost


@pytest.mark.parametrize("harm", ["removed", "current", "manifest", "table", "emptied"])
def test_the_index_is_made_again_from_the_packs(tmp_path: Path, harm: str) -> None:
    with Store.create(tmp_path / "store") as store:
        root = store.import_bytes(noise(1, 300) + text(1, 300))
        chunks = store.stats().chunks
    Store.open(tmp_path / "store").close()
    index = tmp_path / "store" / "index"
    if harm == "removed":
        shutil.rmtree(index)
    elif harm == "current":
        (index / "CURRENT").unlink()
    elif harm == "manifest":
        next(index.glob("MANIFEST-*")).unlink()
    elif harm == "table":
        next(index.glob("*.ldb")).unlink()
    else:
        for file in index.iterdir():
            file.write_bytes(b"")
    with Store.open(tmp_path / "store") as store:
        assert store.read(root) == noise(1, 300) + text(1, 300)
        assert store.stats().chunks == chunks
        assert store.verify().ok


def test_a_flipped_bit_in_the_index_is_never_a_wrong_chunk(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        refs = store.put(noise(1, 200))
    Store.open(tmp_path / "store").close()
    (table,) = (tmp_path / "store" / "index").glob("*.ldb")
    whole = table.read_bytes()
    for place in range(0, len(whole), 301):
        harmed = bytearray(whole)
        harmed[place] ^= 0x10
        table.write_bytes(harmed)
        try:
            with Store.open(tmp_path / "store") as store:
                for number, ref in enumerate(split_refs(refs)):
                    assert store.get(ref) == noise(1, 200)[number * 4096 :][:4096]
        except (StoreDamaged, ChunkMissing):
            continue


def test_rebuild_leaves_out_what_is_not_whole(store: Store) -> None:
    refs = store.put(noise(1, 5))
    store.sync()
    flip(packs(store.packs_path)[0], HEADER + 4160 + 2000)
    calls: list[int] = []
    store.rebuild_index(progress=lambda done, total: calls.append(done))
    assert store.has(refs) == [True, False, True, True, True]
    assert store.put(noise(1, 5)) == refs
    assert store.has(refs) == [True] * 5


def test_a_record_that_a_guest_planted_is_not_believed(tmp_path: Path) -> None:
    """Inside a block stored raw stands a whole record that gives another content a name. When the
    record around it is damaged, a scan comes upon it."""
    victim = reference(noise(1))
    with Store.create(tmp_path / "scratch") as scratch:
        frame = scratch.records(scratch.put(text(5)))[64:]
    planted = zstd_record(victim, frame)
    guest = planted + noise(2)[len(planted) :]
    honest = zstd_record(reference(text(5)), frame)
    with Store.create(tmp_path / "store") as store:
        store.put(guest)
        store.put(honest + noise(3)[len(honest) :])
    pack = packs(tmp_path / "store" / "packs")[0]
    flip(pack, HEADER)
    flip(pack, HEADER + 4160)
    shutil.rmtree(tmp_path / "store" / "index")
    with Store.open(tmp_path / "store") as store:
        assert store.has(victim) == [False]
        assert store.has(reference(text(5))) == [True]  # true by its hashes, wherever it stands
        assert store.get(ChunkRef(reference(text(5)))) == text(5)


def test_a_lost_root_is_an_error_and_not_zeros(store: Store, tmp_path: Path) -> None:
    root = TableRoot(ChunkRef(reference(noise(1))), 10_000)
    with pytest.raises(ChunkMissing):
        store.read(root)
    with pytest.raises(ChunkMissing):
        store.export_file(root, tmp_path / "output")
    assert not list(tmp_path.glob("output*"))
