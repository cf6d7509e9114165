# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names of volumes."""

from pathlib import Path

import pytest

from chunkstore import Catalog, NameNotFound, NameTaken, Store, StoreDamaged
from satchel.names import BadName
from tests.chunkstore.content import noise


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


def test_a_name_is_given_once(store: Store) -> None:
    catalog = Catalog(store)
    root = store.import_bytes(noise(1, 3))
    first = catalog.add("a", root)
    with pytest.raises(NameTaken, match="forget a"):
        catalog.add("a", store.import_bytes(noise(2, 3)))
    assert catalog.get("a") == first
    with pytest.raises(NameNotFound):
        catalog.get("b")
    with pytest.raises(NameNotFound):
        catalog.remove("b")
    with pytest.raises(BadName):
        catalog.add("../a", root)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"name": "b", "created": "", "root": {}, "meta": {}}']
)
def test_a_damaged_entry_is_not_overlooked(store: Store, content: bytes) -> None:
    """A prune that did would remove the volume."""
    catalog = Catalog(store)
    catalog.add("a", store.import_bytes(noise(1, 3)))
    (store.path / "names" / "a.json").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"a\.json"):
        catalog.list()


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
