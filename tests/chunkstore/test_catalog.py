# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names of volumes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chunkstore import Catalog, NameNotFound, Store, StoreDamaged, StoreNotFound, TableRoot
from satchel.ids import ChunkRef
from satchel.names import BadName
from tests.chunkstore.content import flip, noise

GOLDEN = b"""\
{
 "name": "debian",
 "serial": 1,
 "created": "2026-01-31T12:00:00.000000+00:00",
 "root": {
  "size": 3221225472,
  "sha1": "000102030405060708090a0b0c0d0e0f10111213",
  "sha256": "1415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f30313233"
 },
 "meta": {}
}
"""
GOLDEN_VERSION = "e07204ca"


def test_a_name_lasts(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        root = store.import_bytes(noise(1, 3))
        entry = Catalog(store).add("debian", root, {"origin": "debian.qcow2"})
    with Store.open(tmp_path / "store") as store:
        assert Catalog(store).get("debian") == entry
        assert entry.root == root
        assert entry.meta == {"origin": "debian.qcow2"}
        assert entry.created.endswith("+00:00")


def test_names_are_listed_in_order_and_removed(store: Store) -> None:
    catalog = Catalog(store)
    assert catalog.list() == []
    root = store.import_bytes(noise(1, 3))
    for name in ("b", "a", "c"):
        catalog.add(name, root)
    catalog.remove("b")
    assert [entry.name for entry in catalog.list()] == ["a", "c"]


def test_names_are_read_of_a_store_that_somebody_has_open(store: Store, tmp_path: Path) -> None:
    entry = Catalog(store).add("a", store.import_bytes(noise(1, 3)))
    assert Catalog(store.path).list() == [entry]
    with pytest.raises(StoreNotFound, match="satchel-home init"):
        Catalog(tmp_path / "nowhere")


def test_versions_of_a_name(store: Store) -> None:
    catalog = Catalog(store)
    roots = [store.import_bytes(noise(seed, 3)) for seed in (1, 2, 3)]
    days = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in (1, 3, 2)]
    entries = [catalog.add("a", root, created=day) for root, day in zip(roots, days, strict=True)]
    assert [entry.root for entry in catalog.versions()] == roots
    assert catalog.get("a") == entries[2]
    assert catalog.list() == [entries[2]]
    assert catalog.get(entries[0].label) == entries[0]
    assert catalog.remove(entries[1].label) == [entries[1].label]
    assert catalog.get("a") == entries[2]
    assert set(catalog.roots()) == {roots[0], roots[2]}
    for absent in ("b", "a@00000000", "a@"):
        with pytest.raises(NameNotFound):
            catalog.get(absent)
        with pytest.raises(NameNotFound):
            catalog.remove(absent)
    catalog.remove("a")
    assert catalog.versions() == []
    with pytest.raises(BadName):
        catalog.add("../a", roots[0])


def test_a_version_is_the_newest_though_the_clock_was_put_back(store: Store) -> None:
    catalog = Catalog(store)
    old, new, newest = (store.import_bytes(noise(seed, 3)) for seed in (1, 2, 3))
    ahead = datetime.now(UTC) + timedelta(days=9)
    catalog.add("a", old, created=ahead)
    other = catalog.add("b", old)
    assert other.created < ahead.isoformat(timespec="microseconds")
    for root in (new, newest):
        entry = catalog.add("a", root)
        assert entry.created < ahead.isoformat(timespec="microseconds")
        assert catalog.get("a") == entry
    assert [entry.root for entry in catalog.matching("a")] == [old, new, newest]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"name": "b", "created": "", "root": {}, "meta": {}}']
)
def test_a_damaged_entry_is_not_overlooked(store: Store, content: bytes) -> None:
    """A prune that did would remove the volume."""
    catalog = Catalog(store)
    label = catalog.add("a", store.import_bytes(noise(1, 3))).label
    (store.path / "names" / f"{label}.json").write_bytes(content)
    other = catalog.add("b", store.import_bytes(noise(2, 3)))
    for ask in (catalog.roots, catalog.versions, lambda: catalog.get("a")):
        with pytest.raises(StoreDamaged, match=f"{label}.*satchel-home forget {label}`$"):
            ask()
    assert catalog.list() == catalog.readable() == [other] == [catalog.get("b")]
    assert catalog.remove("a") == [label]
    assert catalog.versions() == [other]


def test_no_byte_of_an_entry_makes_another_volume(store: Store) -> None:
    """The size of the root, in which no hash is, least of all."""
    entry = Catalog(store).add("a", store.import_bytes(noise(1, 3)), {"origin": "a.qcow2"})
    path = store.path / "names" / f"{entry.label}.json"
    for offset in range(path.stat().st_size):
        for mask in (1, 2, 0x20):
            flip(path, offset, mask)
            with pytest.raises(StoreDamaged, match=entry.label):
                Catalog(store).get("a")
            flip(path, offset, mask)
    assert Catalog(store).get("a") == entry


def test_golden_bytes(store: Store) -> None:
    """The example of docs/formats/store.md, but for the root."""
    root = TableRoot(ChunkRef(bytes(range(52))), 3 << 30)
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    entry = Catalog(store).add("debian", root, created=moment)
    assert entry.label == f"debian@{GOLDEN_VERSION}"
    (path,) = (store.path / "names").iterdir()
    assert path.name == f"debian@{GOLDEN_VERSION}.json"
    assert path.read_bytes() == GOLDEN


def test_an_entry_of_an_older_version_is_not_overlooked(store: Store) -> None:
    (store.path / "names").mkdir()
    (store.path / "names" / "a.json").write_bytes(b"{}")
    with pytest.raises(StoreDamaged, match=r"a\.json"):
        Catalog(store).roots()


def test_what_a_prune_is_to_keep_is_durable_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name whose removal was not synced could come back, to chunks that are gone."""
    catalog = Catalog(store)
    assert catalog.roots() == ()
    root = store.import_bytes(noise(1, 3))
    catalog.add("a", root)
    synced: list[Path] = []
    monkeypatch.setattr("chunkstore.catalog.sync_folder", synced.append)
    assert catalog.roots() == (root,)
    assert synced == [store.path / "names"]
