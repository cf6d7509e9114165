# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk that is full or read-only: a clear error, nothing lost, and work goes on afterwards."""

import os
import shutil
from pathlib import Path

import pytest

from chunkstore import (
    Catalog,
    ChunkInvalid,
    ChunkMissing,
    Store,
    StoreDamaged,
    StoreDenied,
    StoreFull,
    StoreLocked,
    StoreUsage,
    TableRoot,
)
from satchel.ids import ChunkRef
from tests.chunkstore.content import noise
from tests.chunkstore.mounts import fill, remount, tmpfs
from tests.conftest import requires

pytestmark = requires("root", "mount")

PACK = 1 << 19


def relieve(folder: Path, keep: list[TableRoot]) -> int:
    with Store.open_to_relieve(folder) as store:
        return store.remove_dead(keep)


def test_a_store_on_a_full_disk_keeps_what_it_has(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "16m"):
        folder = tmp_path / "disk" / "store"
        (tmp_path / "big").write_bytes(noise(2, 6000))
        with Store.create(folder) as store:
            root = store.import_bytes(noise(1, 100))
            with pytest.raises(StoreFull, match="No space left"):
                store.import_file(tmp_path / "big")
            assert store.read(root) == noise(1, 100)
            remount(tmp_path / "disk", "size=64m")
            big = store.import_file(tmp_path / "big")
            assert store.read(big) == noise(2, 6000)
        with Store.open(folder) as store:
            assert store.read(root) == noise(1, 100)
            assert store.read(big) == noise(2, 6000)
            assert store.verify().ok


def test_a_store_that_was_closed_on_a_full_disk_opens(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "16m"):
        folder = tmp_path / "disk" / "store"
        store = Store.create(folder)
        root = store.import_bytes(noise(1, 100))
        with pytest.raises(StoreFull):
            store.put(noise(2, 6000))
        with pytest.raises(StoreFull):
            store.close()
        remount(tmp_path / "disk", "size=64m")
        with Store.open(folder) as again:
            assert again.read(root) == noise(1, 100)
            assert again.verify().ok


def test_a_store_is_opened_again_after_an_import_that_filled_the_disk(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "16m"):
        folder = tmp_path / "disk" / "store"
        (tmp_path / "big").write_bytes(noise(2, 6000))
        with Store.create(folder) as store:
            root = store.import_bytes(noise(1, 100))
            store.sync()
            with pytest.raises(StoreFull):
                store.import_file(tmp_path / "big")
            store.give_back()
        with Store.open(folder) as again:
            assert again.read(root) == noise(1, 100)
            assert again.verify().ok
            assert again.pack_bytes < 1 << 20
            assert again.prune([]).removed > 0
            Catalog(again).add("b", again.import_bytes(noise(3, 100)))


def test_a_disk_that_others_have_filled_is_read(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "8m"):
        folder = tmp_path / "disk" / "store"
        with Store.create(folder) as store:
            root = store.import_bytes(noise(1, 100))
        fill(tmp_path / "disk")
        before = contents(folder)
        with pytest.raises(StoreFull, match="No space left"):
            Store.open(folder)
        with Store.open_to_read(folder) as store, Store.open_to_read(folder) as other:
            assert store.read(root) == other.read(root) == noise(1, 100)
            assert store.verify().ok
            assert store.stats().chunks > 100
            assert store.prune([], dry_run=True).removed > 100
            store.export_file(root, tmp_path / "exported")
            with pytest.raises(StoreDenied, match="opened to read"):
                store.put(noise(2, 1))
            with pytest.raises(StoreDenied, match="opened to read"):
                store.prune([])
            with pytest.raises(StoreLocked):
                Store.open(folder)
        assert contents(folder) == before
        assert (tmp_path / "exported").read_bytes() == noise(1, 100)


def test_a_disk_that_others_have_filled_gets_room_by_removing(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "8m"):
        folder = tmp_path / "disk" / "store"
        Store.create(folder).close()
        with Store.open(folder, pack_limit=PACK) as store:
            root = store.import_bytes(noise(1, 100))
            store.import_bytes(noise(2, 1000))
        fill(tmp_path / "disk")
        with pytest.raises(StoreFull):
            Store.open(folder)
        assert relieve(folder, [root]) >= 1000 * 4096
        with Store.open_to_read(folder) as store:
            assert store.read(root) == noise(1, 100)
        with Store.open(folder, pack_limit=PACK) as store:
            store.prune([root])
            assert store.verify().ok
            assert store.read(root) == noise(1, 100)
            assert store.read(store.import_bytes(noise(2, 100))) == noise(2, 100)


def test_what_went_by_removing_is_stored_when_it_comes_again(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        store.import_bytes(noise(1, 100))
    assert relieve(tmp_path / "store", []) > 100 * 4096
    with Store.open(tmp_path / "store") as store:
        assert store.read(store.import_bytes(noise(1, 100))) == noise(1, 100)
        assert store.verify().ok


@pytest.mark.parametrize("settled", [False, True])
def test_a_pack_gets_holes_on_a_disk_that_others_have_filled(tmp_path: Path, settled: bool) -> None:
    with tmpfs(tmp_path / "disk", "32m"):
        folder = tmp_path / "disk" / "store"
        with Store.create(folder) as store:
            parts = [noise(seed, 100) for seed in range(20)]
            roots = [store.import_bytes(part) for part in parts]
            if settled:
                store.settle()
        fill(tmp_path / "disk")
        before = used(tmp_path / "disk")
        freed = relieve(folder, roots[::2])
        assert freed > 9 * 100 * 4096
        assert before - used(tmp_path / "disk") > freed * 0.9
        with Store.open_to_read(folder) as store:
            for root, part in zip(roots[::2], parts[::2], strict=True):
                assert store.read(root) == part
            with pytest.raises((ChunkMissing, ChunkInvalid)):
                store.read(roots[1])
            assert store.verify().bad == ()
        with Store.open(folder) as store:
            again = store.import_bytes(parts[1])
            assert store.read(again) == parts[1]
            store.prune([*roots[::2], again])
            assert store.verify().ok
            store.rebuild_index()
            assert store.read(again) == parts[1]
            for root, part in zip(roots[::2], parts[::2], strict=True):
                assert store.read(root) == part


def test_nothing_is_removed_while_somebody_has_the_store(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store"), pytest.raises(StoreLocked):
        relieve(tmp_path / "store", [])
    with Store.open_to_read(tmp_path / "store") as store:
        with pytest.raises(StoreLocked):
            relieve(tmp_path / "store", [])
        with pytest.raises(StoreUsage):
            store.remove_dead([])


def test_a_prune_needs_the_room_of_one_pack_at_a_time(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "16m"):
        folder = tmp_path / "disk" / "store"
        Store.create(folder).close()
        with Store.open(folder, pack_limit=PACK) as store:
            parts = [noise(seed, 40) for seed in range(60)]  # two in each pack
            roots = [store.import_bytes(part) for part in parts]
            remount(tmp_path / "disk", f"size={used(tmp_path / 'disk') + 3 * PACK + (1 << 20)}")
            report = store.prune(roots[::2])
            assert report.bytes_after < report.bytes_before * 0.6
            for root, part in zip(roots[::2], parts[::2], strict=True):
                assert store.read(root) == part
            assert store.verify().ok


def test_an_export_to_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store, tmpfs(tmp_path / "disk", "4m"):
        root = store.import_bytes(noise(1, 3000))
        with pytest.raises(StoreFull):
            store.export_file(root, tmp_path / "disk" / "output")
        assert list((tmp_path / "disk").iterdir()) == []
        assert store.read(root) == noise(1, 3000)


def test_a_store_that_is_read_only(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk"):
        folder = tmp_path / "disk" / "store"
        with Store.create(folder) as store:
            Catalog(store).add("a", store.import_bytes(noise(1, 10)))
        remount(tmp_path / "disk", "ro")
        with pytest.raises(StoreDenied, match="Read-only"):
            Store.open(folder)
        with pytest.raises(StoreDenied, match="Read-only"):
            Store.create(tmp_path / "disk" / "new")
        with Store.open_to_read(folder) as store:
            assert store.read(Catalog(store).get("a").root) == noise(1, 10)
            assert store.verify().ok


def test_who_reads_does_not_see_what_was_never_acknowledged(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        root = store.import_bytes(noise(1, 10))
        newest = max(store.packs_path.iterdir())
    with newest.open("ab") as file:
        file.write(b"torn" * 1000)
    (newest.parent / "000099.pack").write_bytes(b"")
    before = contents(tmp_path / "store")
    with Store.open_to_read(tmp_path / "store") as store:
        assert store.read(root) == noise(1, 10)
        assert store.verify().ok
    assert contents(tmp_path / "store") == before


def test_who_reads_is_told_of_damage(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        ref = ChunkRef(store.put(noise(1, 1)))
        store.sync()
        (pack,) = store.packs_path.iterdir()
    data = bytearray(pack.read_bytes())
    data[-100] ^= 1
    pack.write_bytes(data)
    with Store.open_to_read(tmp_path / "store") as store:
        for _ in range(2):
            with pytest.raises(ChunkInvalid):
                store.get(ref)
        assert store.records(ref) == b""
        assert not store.verify().ok


def test_who_reads_makes_no_index_anew(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        root = store.import_bytes(noise(1, 10))
    shutil.rmtree(tmp_path / "store" / "index")
    with pytest.raises(StoreDamaged, match="rebuilt"):
        Store.open_to_read(tmp_path / "store")
    with Store.open(tmp_path / "store") as store:
        assert store.read(root) == noise(1, 10)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def used(folder: Path) -> int:
    info = os.statvfs(folder)
    return (info.f_blocks - info.f_bfree) * info.f_frsize
