# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Two blocks with one SHA-1, both real, everywhere a chunk goes."""

import hashlib
from pathlib import Path

import pytest

from chunkstore import BlockMap, Store, split_refs
from media import Media
from tests.chunkstore.content import COLLISIONS, fetch_all, noise, reference

ONE, TWO = COLLISIONS


def test_the_fixtures_collide() -> None:
    assert ONE != TWO
    assert hashlib.sha1(ONE).digest() == hashlib.sha1(TWO).digest()


def test_both_are_stored_and_told_apart(store: Store) -> None:
    first, second = split_refs(store.put(ONE + TWO))
    assert (first, second) == (reference(ONE), reference(TWO))
    assert store.get(first) == ONE
    assert store.get(second) == TWO
    assert store.stats().variants == 1
    store.put(TWO + ONE)
    assert store.stats().chunks == 2


def test_it_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In one batch, before the first is in the index, and after it is."""
    name = hashlib.sha1(ONE).hexdigest()
    with Store.create(tmp_path / "together") as store:
        store.import_bytes(noise(1) + ONE + noise(2) + TWO + ONE)
        store.import_bytes(TWO + noise(3) + ONE)
        assert store.collisions == 1
    with Store.create(tmp_path / "apart") as store:
        store.put(noise(1, 300) + ONE)
        store.sync()
        store.put(noise(2, 300))
        assert store.collisions == 0
        (tmp_path / "file").write_bytes(noise(2, 100) + TWO + noise(1, 300))
        store.import_file(tmp_path / "file")
        assert store.collisions == 1
    with Store.open(tmp_path / "apart") as store, Store.create(tmp_path / "third") as third:
        store.put(ONE + TWO)
        assert store.collisions == 0
        third.admit(store.records(reference(TWO)))
        third.admit(store.records(reference(ONE) + reference(TWO)))
        assert third.collisions == 1
    told = [record.message for record in caplog.records]
    assert [name in message for message in told] == [True, True, True]


def test_a_base_with_the_other_one_at_its_place(store: Store, tmp_path: Path) -> None:
    """Among blocks that the base has as well, so that they are compared with it."""
    path = tmp_path / "file"
    path.write_bytes(noise(1, 100) + ONE + noise(2, 100))
    base = store.import_file(path)
    path.write_bytes(noise(1, 100) + TWO + noise(2, 100))
    root = store.import_file(path, base=base)
    assert root != base
    assert store.read(root) == path.read_bytes()
    assert store.read(base, 100 * len(ONE), len(ONE)) == ONE


def test_the_second_is_new_to_a_store_that_synced_the_first(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        store.put(ONE)
    with Store.open(tmp_path / "store") as store:
        assert store.has(reference(TWO)) == [False]
        store.put(TWO)
        assert store.get(split_refs(reference(TWO))[0]) == TWO


def test_the_second_is_new_to_a_store_that_has_the_first_settled(store: Store) -> None:
    """The index has less than the whole SHA-1 of what is in frames."""
    first = store.put(ONE)
    store.settle()
    second = store.put(TWO)
    assert store.collisions == 1
    assert store.stats().variants == 1
    store.settle()
    assert store.stats().settled == 2
    assert store.stats().variants == 1
    assert [store.get(ref) for ref in split_refs(first + second)] == [ONE, TWO]
    assert store.verify().ok


def test_they_come_back_each_in_its_place(
    store: Store, other: Store, media: Media, tmp_path: Path
) -> None:
    content = noise(1, 70) + TWO + noise(2, 70) + ONE + TWO
    root = store.import_bytes(content)
    media.add(store, store.reachable([root]))
    while missing := other.missing(root):
        other.admit(media.records(missing))
    assert other.read(root) == content
    store.rebuild_index()
    assert store.read(root) == content
    with BlockMap.create(tmp_path / "map", root.blocks) as map:
        assert store.resolve(root, map, 0, root.blocks) == b""
        assert map.entry(70) != map.entry(141)
        assert map.entry(70) == map.entry(142)


def test_over_the_wire(store: Store, other: Store) -> None:
    root = store.import_bytes(ONE + TWO)
    fetch_all(store, other, root)
    assert other.read(root) == ONE + TWO
