# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What goes in comes out."""

import os
import threading
from pathlib import Path

import pytest

from chunkstore import (
    ChunkMissing,
    FileExists,
    FileMissing,
    Store,
    StoreExists,
    StoreNotFound,
    StoreState,
    StoreUsage,
    StoreVersion,
    TableRoot,
    name_blocks,
    split_refs,
)
from satchel.ids import BLOCK_SIZE, ZERO_REF, ChunkRef
from tests.chunkstore.content import noise, reference, sparse_file, text

MIB = 1 << 20


def imported(store: Store, tmp_path: Path, content: bytes) -> TableRoot:
    path = tmp_path / "input"
    path.write_bytes(content)
    return store.import_file(path)


@pytest.mark.parametrize(
    "size",
    [0, 1, 4095, 4096, 4097, 64 * 4096, 64 * 4096 + 1, 5 * MIB + 123],
)
def test_a_file_of_any_size_comes_back(store: Store, tmp_path: Path, size: int) -> None:
    content = noise(size, size // BLOCK_SIZE + 1)[:size]
    root = imported(store, tmp_path, content)
    store.export_file(root, tmp_path / "output")
    assert root.size == size
    assert (tmp_path / "output").read_bytes() == content
    assert store.read(root) == content


def test_a_sparse_file_with_a_table_of_four_levels_comes_back_sparse(
    store: Store, tmp_path: Path
) -> None:
    size = 2 << 30
    parts = {0: noise(1, 3), 300 * MIB + 4096: text(2, 70), size - 5: b"tail!"}
    source = sparse_file(tmp_path / "input", size, parts)
    root = store.import_file(source)
    target = tmp_path / "output"
    store.export_file(root, target)
    assert target.stat().st_size == size
    assert target.stat().st_blocks * 512 < 4 * MIB
    with target.open("rb") as file:
        for offset, data in parts.items():
            file.seek(offset)
            assert file.read(len(data)) == data
    assert store.read(root, 300 * MIB, 4096) == bytes(4096)
    assert store.read(root, size - 8, 8) == b"\0\0\0tail!"


def test_a_volume_of_zeros_costs_nothing(store: Store, tmp_path: Path) -> None:
    root = store.import_file(sparse_file(tmp_path / "hole", 1 << 40, {}))
    assert root == TableRoot(ZERO_REF, 1 << 40)
    assert imported(store, tmp_path, bytes(3 * MIB)).ref == ZERO_REF
    assert store.stats().chunks == 0


def test_references_are_sha1_and_sha256(store: Store) -> None:
    blocks = [noise(1), bytes(BLOCK_SIZE), text(2)]
    refs = split_refs(store.put(b"".join(blocks)))
    assert refs == (reference(blocks[0]), ZERO_REF, reference(blocks[2]))
    assert b"".join(refs) == name_blocks(b"".join(blocks))
    assert [store.get(ref) for ref in refs] == blocks


def test_equal_blocks_are_stored_once(store: Store, tmp_path: Path) -> None:
    first = imported(store, tmp_path, noise(1, 200) + noise(2, 200))
    before = store.stats()
    assert imported(store, tmp_path, noise(1, 200) + noise(2, 200)) == first
    assert store.stats() == before
    imported(store, tmp_path, noise(2, 200) + noise(3, 10))
    blocks_added = store.stats().chunks - before.chunks
    assert 10 < blocks_added <= 10 + 5  # and table pages


def test_a_base_changes_nothing_but_the_speed(store: Store, tmp_path: Path) -> None:
    base = imported(store, tmp_path, noise(1, 500))
    changed = noise(1, 100) + noise(2, 1) + noise(1, 500)[101 * BLOCK_SIZE :] + b"more"
    path = tmp_path / "changed"
    path.write_bytes(changed)
    root = store.import_file(path, base=base)
    assert root == imported(store, tmp_path, changed)
    assert store.read(root) == changed


def test_the_root_does_not_depend_on_the_store_or_its_threads(
    store: Store, other: Store, tmp_path: Path
) -> None:
    content = noise(1, 3000)
    assert imported(store, tmp_path, content) == imported(other, tmp_path, content)
    assert store.import_bytes(content) == imported(other, tmp_path, content)


def test_a_closed_store_has_everything_when_opened_again(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        root = store.import_bytes(text(1, 500))
        refs = store.put(noise(2, 3))
    with Store.open(tmp_path / "store") as store:
        assert store.read(root) == text(1, 500)
        assert store.has(refs) == [True, True, True]


def test_many_packs_and_many_index_writes(tmp_path: Path) -> None:
    Store.create(tmp_path / "store").close()
    with Store.open(tmp_path / "store", pack_limit=MIB, max_pending=100) as store:
        root = store.import_bytes(noise(1, 2000))
        assert store.stats().packs >= 8
        assert all(pack.stat().st_size <= MIB for pack in store.packs_path.iterdir())
        assert store.read(root) == noise(1, 2000)
        assert store.verify().ok


def test_read_of_a_part(store: Store) -> None:
    content = noise(1, 200)
    root = store.import_bytes(content)
    for offset, length in [(0, 1), (4095, 2), (5000, 100_000), (len(content) - 1, 1), (7, 0)]:
        assert store.read(root, offset, length) == content[offset : offset + length]
    with pytest.raises(ValueError, match="bytes"):
        store.read(root, len(content), 1)


def test_progress_counts_data_to_the_end(store: Store, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    source = sparse_file(tmp_path / "input", 100 * MIB, {50 * MIB: noise(1, 1000)})
    root = store.import_file(source, progress=lambda done, total: calls.append((done, total)))
    done, total = calls[-1]
    assert done == total
    assert 1000 * BLOCK_SIZE <= total < 6 * MIB
    calls.clear()
    store.export_file(
        root, tmp_path / "output", progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1] == (root.size, root.size)


def test_raising_from_progress_stops_and_leaves_no_file(store: Store, tmp_path: Path) -> None:
    root = store.import_bytes(text(1, 5000))

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.export_file(root, tmp_path / "output", progress=interrupt)
    assert not list(tmp_path.glob("output*"))
    with pytest.raises(KeyboardInterrupt):
        store.verify(progress=interrupt)
    assert store.read(root) == text(1, 5000)


def test_threads_put_and_get_at_once(store: Store) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                content = noise(number * 10 + turn, 50) + noise(99, 50)
                refs = split_refs(store.put(content))
                if turn % 2:
                    store.sync()
                assert b"".join(store.get(ref) for ref in refs) == content
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert store.stats().chunks == 6 * 5 * 50 + 50
    assert store.verify().ok


def test_missing_things_are_named(store: Store, other: Store, tmp_path: Path) -> None:
    root = store.import_bytes(noise(1, 100))
    with pytest.raises(ChunkMissing) as caught:
        other.get(root.ref)
    assert caught.value.ref == root.ref
    assert root.ref[:20].hex() in str(caught.value)
    with pytest.raises(ChunkMissing):
        other.export_file(root, tmp_path / "output")
    with pytest.raises(ChunkMissing):
        other.check(root)
    store.check(root)
    with pytest.raises(FileMissing):
        store.import_file(tmp_path / "nothing")
    with pytest.raises(FileMissing):
        store.export_file(root, tmp_path / "nothing" / "output")
    with pytest.raises(FileExists):
        store.export_file(root, tmp_path)
    assert not (tmp_path / "output").exists()


def test_a_folder_that_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound, match=r"store\.json"):
        Store.open(tmp_path)
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(StoreExists, match="letter"):
        Store.create(tmp_path)
    with pytest.raises(FileMissing):
        Store.create(tmp_path / "no" / "parent")
    Store.create(tmp_path / "store").close()
    with pytest.raises(StoreExists):
        Store.create(tmp_path / "store")
    described = tmp_path / "store" / "store.json"
    described.write_text(described.read_text().replace('"version": 3', '"version": 4'))
    with pytest.raises(StoreVersion, match="4"):
        Store.open(tmp_path / "store")


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreState, match="closed"):
        store.put(noise(1))


def test_arguments_of_a_wrong_shape(store: Store) -> None:
    with pytest.raises(ValueError, match="4096"):
        store.put(b"short")
    with pytest.raises(ValueError, match="52"):
        store.has(b"x" * 53)
    with pytest.raises(ValueError, match="52"):
        store.get(ChunkRef(b"x"))
    with pytest.raises(TypeError):
        store.put("text")  # type: ignore[arg-type]
    with pytest.raises(StoreUsage):
        TableRoot(ZERO_REF, -1)
    with pytest.raises(StoreUsage):
        TableRoot(ZERO_REF, 1 << 53)
    assert store.put(b"") == b""
    assert store.has(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"size": 1, "sha1": "00" * 20},
        {"size": "1", "sha1": "00" * 20, "sha256": "00" * 32},
        {"size": True, "sha1": "00" * 20, "sha256": "00" * 32},
        {"size": -1, "sha1": "00" * 20, "sha256": "00" * 32},
        {"size": 1 << 60, "sha1": "00" * 20, "sha256": "00" * 32},
        {"size": 1, "sha1": "0g" * 20, "sha256": "00" * 32},
        {"size": 1, "sha1": " 0" * 20, "sha256": "00" * 32},
        {"size": 1, "sha1": "00" * 32, "sha256": "00" * 20},
        {"size": 1, "sha1": "00" * 20, "sha256": "00" * 32, "more": 1},
    ],
)
def test_a_table_root_from_an_enemy(data: object) -> None:
    with pytest.raises(StoreUsage):
        TableRoot.from_json(data)


def test_a_table_root_as_json(store: Store) -> None:
    root = store.import_bytes(noise(1, 100)[:-5])
    assert TableRoot.from_json(root.to_json()) == root
    assert root.blocks == 100


def test_an_import_follows_a_link_as_a_disks_name_is_one(store: Store, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"content" * 1000)
    (tmp_path / "by-id").symlink_to(tmp_path / "disk")
    assert store.import_file(tmp_path / "by-id") == store.import_file(tmp_path / "disk")


def test_an_import_from_a_pipe_is_refused(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    holder = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(Exception, match="size"):
            store.import_file(tmp_path / "pipe")
    finally:
        os.close(holder)
