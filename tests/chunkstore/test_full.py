# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk that is full or read-only: a clear error, nothing lost, and work goes on afterwards."""

from contextlib import suppress
from pathlib import Path

import pytest

from chunkstore import Catalog, Store, StoreDenied, StoreFull
from tests.chunkstore.content import noise
from tests.chunkstore.mounts import remount, tmpfs
from tests.conftest import requires

pytestmark = requires("root", "mount")


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


def test_a_disk_without_room_for_an_index_is_full_and_not_broken(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "8m"):
        folder = tmp_path / "disk" / "store"
        with Store.create(folder) as store:
            store.import_bytes(noise(1, 100))
        with suppress(OSError), (tmp_path / "disk" / "others").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        with pytest.raises(StoreFull, match="No space left"):
            Store.open(folder)


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
