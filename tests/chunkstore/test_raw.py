# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A store that does not compress: what it keeps is raw, what leaves it is not."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Level, MediaFull, Store, StoreFull
from media import Media
from satchel.ids import BLOCK_SIZE
from tests.chunkstore.content import noise, packs, raw_record, split_records, text
from tests.chunkstore.mounts import tmpfs
from tests.conftest import requires


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Store]:
    Store.create(tmp_path / "raw").close()
    with Store.open(tmp_path / "raw", level=0) as store:
        yield store


def stored(store: Store) -> bytes:
    store.sync()
    return b"".join(pack.read_bytes()[16:] for pack in packs(store.packs_path))


def test_an_import_says_at_which_levels_it_stored_what_was_new(
    raw: Store, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "image").write_bytes(text(1, 3) + noise(1, 2) + bytes(BLOCK_SIZE) + text(1, 1))
    assert raw.import_with_levels(tmp_path / "image")[1] == (Level(0, 5, 5 * (64 + BLOCK_SIZE)),)
    assert raw.import_with_levels(tmp_path / "image")[1] == ()
    [level] = store.import_with_levels(tmp_path / "image")[1]
    assert (level.level, level.chunks) == (1, 5)
    assert level.bytes == len(store.records(store.put(text(1, 3) + noise(1, 2))))


def test_what_is_put_is_stored_raw(raw: Store) -> None:
    ref = raw.put(text(1))
    assert stored(raw) == raw_record(ref, text(1))


def test_records_that_leave_are_compressed_where_that_is_shorter(raw: Store, store: Store) -> None:
    refs = raw.put(text(1, 3) + noise(1, 2))
    sent = split_records(raw.records(refs))
    assert [len(record) == 64 + BLOCK_SIZE for record in sent] == [False] * 3 + [True] * 2
    assert b"".join(sent) == store.records(store.put(text(1, 3) + noise(1, 2)))


def test_records_that_arrive_are_stored_raw(raw: Store, store: Store) -> None:
    records = store.records(store.put(text(1, 3)))
    assert raw.admit(records) == store.put(text(1, 3))
    assert len(stored(raw)) == 3 * (64 + BLOCK_SIZE)
    assert raw.records(raw.put(text(1, 3))) == records


def test_a_medium_gets_them_compressed(raw: Store, media: Media, store: Store) -> None:
    refs = raw.put(text(1, 100))
    media.add(raw, refs)
    assert media.records(refs) == store.records(store.put(text(1, 100)))
    size = packs(media.root / "satchel" / "packs")[0].stat().st_size
    assert size < 100 * BLOCK_SIZE / 10


@requires("root", "mount")
def test_what_fits_on_a_medium_only_when_it_is_compressed_is_copied(
    raw: Store, tmp_path: Path
) -> None:
    refs = raw.put(text(1, 2000))
    with tmpfs(tmp_path / "stick", "4m"), Media.init(tmp_path / "stick") as media:
        media.add(raw, refs)
        assert media.has(refs) == [True] * 2000
        with pytest.raises(MediaFull, match="bytes are needed"):
            media.add(raw, raw.put(noise(1, 2000)))


@requires("root", "mount")
def test_where_space_is_short_an_import_compresses(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(text(1, 2000))
    with tmpfs(tmp_path / "disk", "12m"):
        Store.create(tmp_path / "disk" / "store").close()
        with Store.open(tmp_path / "disk" / "store", level=0) as store:
            root = store.import_file(tmp_path / "image")
            assert len(stored(store)) < 2000 * BLOCK_SIZE / 4
            assert store.read(root) == text(1, 2000)


def test_threads_that_put_the_same_blocks_store_them_once(raw: Store) -> None:
    content = noise(1, 2000)
    refs: list[bytes] = []
    threads = [threading.Thread(target=lambda: refs.append(raw.put(content))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        raw.sync()
    for thread in threads:
        thread.join()
    assert len(refs) == 4
    assert set(refs) == {refs[0]}
    assert len(stored(raw)) == 2000 * (64 + BLOCK_SIZE)
    assert raw.verify().records == 2000


@requires("root", "mount")
def test_places_that_could_not_be_written_are_written_when_there_is_room(tmp_path: Path) -> None:
    """Several threads run into the end of the disk; nobody gets the place of another."""
    with tmpfs(tmp_path / "disk", "8m"):
        Store.create(tmp_path / "disk" / "store").close()
        with Store.open(tmp_path / "disk" / "store", level=0) as store:
            (tmp_path / "disk" / "ballast").write_bytes(bytes(4 << 20))
            (tmp_path / "image").write_bytes(noise(1, 1200))
            with pytest.raises(StoreFull):
                store.import_file(tmp_path / "image")
            with pytest.raises(StoreFull):
                store.sync()
            (tmp_path / "disk" / "ballast").unlink()
            root = store.import_file(tmp_path / "image")
            assert store.read(root) == noise(1, 1200)
            assert store.verify().ok
        with Store.open(tmp_path / "disk" / "store") as store:
            assert store.read(root) == noise(1, 1200)
            assert store.verify().ok
