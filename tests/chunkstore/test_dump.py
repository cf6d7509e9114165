# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files of the store in words."""

import hashlib
from pathlib import Path

import pytest

from chunkstore import BlockMap, Store, StoreDamaged, StoreUsage, dump
from chunkstore.store import split_refs
from media import Media
from satchel.ids import chunk_id
from tests.chunkstore.content import commit_volumes, flip, noise, packs, reference, text


def test_a_pack_is_shown_record_by_record_and_damage_as_garbage(store: Store) -> None:
    store.put(noise(1, 3))
    store.sync()
    pack = packs(store.packs_path)[0]
    flip(pack, 16 + 4160 + 500)
    header, first, garbage, last = dump(pack)
    assert (header.kind, header.size) == ("header", 16)
    assert first.text == f"{reference(noise(1, 3)[:4096])[:20].hex()} raw 4096 whole"
    assert (garbage.kind, garbage.offset, garbage.size) == ("garbage", 16 + 4160, 4160)
    assert (last.kind, last.offset) == ("record", 16 + 2 * 4160)


def test_batches_indexes_maps_and_pages(store: Store, media: Media, tmp_path: Path) -> None:
    root = store.import_bytes(noise(1, 2) + bytes(4096) + text(1))
    (tmp_path / "batch").write_bytes(store.records(store.reachable([root])))
    assert [part.kind for part in dump(tmp_path / "batch")] == ["record"] * 4
    media.add(store, store.reachable([root]))
    index = dump(media.root / "satchel/packs/000001.idx")
    assert [part.kind for part in index] == ["header", *["entry"] * 4, "checksum"]
    (tmp_path / "page").write_bytes(store.get(root.ref))
    page = dump(tmp_path / "page")
    assert page[0].text == "table page of level 0"
    assert [part.text == "zero" for part in page[1:5]] == [False, False, True, False]
    with BlockMap.create(tmp_path / "map", 4) as map:
        store.resolve(root, map, 0, 4)
    words = [part.text.split()[4] for part in dump(tmp_path / "map")[1:]]
    assert words == ["packed", "packed", "zero", "packed"]


def test_a_commit_file(store: Store, media: Media) -> None:
    root = store.import_bytes(noise(1, 2))
    commit_volumes(store, media, {"disk": root})
    header, pack, manifest, signature, checksum = dump(media.root / "satchel/commits/000001.commit")
    assert header.text.startswith(f"generation 1 of {media.uuid}, created ")
    assert header.text.endswith(" ns, 1 packs, 2 files")
    size = (media.root / "satchel/packs/000001.pack").stat().st_size
    assert (pack.kind, pack.text) == ("pack", f"000001.pack, 3 chunks, {size} bytes")
    assert manifest.text.startswith("checkpoints/disk-0000000000000001.json, ")
    digest = hashlib.sha256(b"signature").hexdigest()
    assert signature.text == f"checkpoints/disk-0000000000000001.sig, 9 bytes, SHA-256 {digest}"
    assert [header.offset, pack.offset, manifest.offset] == [0, 64, 80]
    assert (checksum.kind, checksum.size) == ("checksum", 8)
    flip(media.root / "satchel/commits/000001.commit", 70)
    with pytest.raises(StoreDamaged, match="checksum"):
        dump(media.root / "satchel/commits/000001.commit")


def test_the_index_of_a_store(store: Store, tmp_path: Path) -> None:
    """Beside the store that has it open, without a change to it."""
    root = store.import_bytes(noise(1, 3))
    folder = store.packs_path.with_name("index")
    before = {path.name: path.stat().st_size for path in folder.iterdir()}
    end, *entries = dump(folder)
    assert (end.kind, end.text.split()[:4]) == ("end", ["packs", "end", "in", "pack"])
    ids = sorted(chunk_id(ref).hex() for ref in split_refs(store.reachable([root])))
    assert [entry.text.split()[0] for entry in entries] == ids
    offsets = [part.offset for part in dump(packs(store.packs_path)[0]) if part.kind == "record"]
    assert sorted(entry.offset for entry in entries) == offsets
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == before
    store.settle()
    assert [part.text.split()[0] for part in dump(folder)[1:]] == [name[:8] for name in ids]
    with pytest.raises(StoreDamaged, match="not an index"):
        dump(tmp_path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"no file of ours")
    with pytest.raises(StoreUsage, match="no file of the chunk store"):
        dump(tmp_path / "other")
