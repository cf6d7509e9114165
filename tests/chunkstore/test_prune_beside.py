# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Prune beside those who make roots: no root that is being made is ever lost."""

import random
import threading
from pathlib import Path

from chunkstore import BlockMap, BlockState, Catalog, Store, TableRoot
from satchel.ids import BLOCK_SIZE
from tests.chunkstore.content import noise, packs, text

ROUNDS = 40


def test_a_root_is_young_until_its_maker_has_ended(store: Store) -> None:
    with store.making():
        root = store.import_bytes(noise(1, 50))
        assert store.prune([]).removed == 0
    assert store.prune([]).kept == 0
    outside = store.import_bytes(noise(1, 50))
    assert outside == root
    with store.making():
        assert store.prune([]).kept == 0  # it was there before, and nobody says that it is to live
    root = store.import_bytes(noise(2, 50))
    with store.making(root):
        assert store.prune([]).removed == 0
    assert store.prune([]).kept == 0


def test_a_root_named_while_names_were_listed_is_young(store: Store) -> None:
    """The pruner began before the maker ended, and saw no name."""
    maker, pruner = store.making(), store.making()
    maker.__enter__()
    root = store.import_bytes(noise(1, 50))
    pruner.__enter__()
    listed = Catalog(store).roots()
    Catalog(store).add("a", root)
    maker.__exit__(None, None, None)
    assert listed == ()
    assert store.prune(listed).removed == 0
    pruner.__exit__(None, None, None)
    assert store.prune(Catalog(store).roots()).removed == 0
    assert store.prune([]).kept == 0


def test_makers_that_overlap_without_end_do_not_keep_everything(store: Store) -> None:
    first = store.making()
    first.__enter__()
    for number in range(1, 6):
        store.import_bytes(noise(number, 20))
        second = store.making()
        second.__enter__()
        first.__exit__(None, None, None)
        first = second
    kept = store.prune([]).kept
    assert 21 <= kept <= 2 * 21
    first.__exit__(None, None, None)
    assert store.prune([]).kept == 0


def test_what_is_attached_stays(store: Store, tmp_path: Path) -> None:
    """Its root with all of its blocks, those too that were never asked for."""
    content = noise(1, 300)
    root = store.import_bytes(content)
    map = BlockMap.create(tmp_path / "map", root.blocks)
    assert store.resolve(root, map, 0, 10) == b""
    assert store.prune([]).removed == 0
    assert store.resolve(root, map, 0, 300) == b""
    assert map.count(BlockState.ABSENT) == 0
    overlay = tmp_path / "overlay"
    with overlay.open("wb") as file:
        file.truncate(root.size)
        file.write(noise(2))
    map.mark_dirty(0)
    changed = store.commit(root, map, overlay)
    pruned = store.prune([])
    assert pruned.removed > 0
    assert store.read(changed) == noise(2) + content[BLOCK_SIZE:]
    map.close()
    assert store.prune([]).kept == 0


def test_a_dry_run_tells_and_changes_nothing(store: Store) -> None:
    kept = store.import_bytes(noise(1, 100))
    store.import_bytes(noise(2, 200) + text(3, 100))
    before = {pack.name: pack.read_bytes() for pack in packs(store.packs_path)}
    told = store.prune([kept], dry_run=True)
    assert {pack.name: pack.read_bytes() for pack in packs(store.packs_path)} == before
    done = store.prune([kept])
    assert (told.kept, told.removed, told.bytes_before) == (
        done.kept,
        done.removed,
        done.bytes_before,
    )
    assert abs(told.bytes_after - done.bytes_after) <= 16 * 4


class Life:
    """Volumes that come and go while a prune follows the other. What has a name can be read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalog = Catalog(store)
        self.lock = threading.Lock()
        self.named: dict[str, tuple[TableRoot, int]] = {}
        self.errors: list[BaseException] = []
        self.over = threading.Event()
        self.pruned = 0

    def make(self, who: int) -> None:
        """Much of it has been there before, and may be garbage at that moment."""
        dice = random.Random(who)
        for turn in range(ROUNDS):
            seed = dice.randrange(12)
            with self.store.making():
                root = self.store.import_bytes(content(seed))
                entry = self.catalog.add(f"v-{who}", root, {"seed": seed})
            with self.lock:
                self.named[entry.label] = root, seed
            if turn % 3:
                self.forget(dice)

    def forget(self, dice: random.Random) -> None:
        with self.lock:
            label = dice.choice(sorted(self.named))
            del self.named[label]
        self.catalog.remove(label)

    def prune(self) -> None:
        while not self.over.is_set():
            with self.store.making():
                self.pruned += self.store.prune(self.catalog.roots()).removed

    def guarded(self, act: object, *arguments: object) -> None:
        try:
            act(*arguments)  # type: ignore[operator]
        except BaseException as error:
            self.errors.append(error)


def content(seed: int) -> bytes:
    return noise(0, 30) + noise(1 + seed, 40) + text(seed, 20)


def test_checkpoints_and_prunes_at_the_same_time(store: Store) -> None:
    life = Life(store)
    makers = [
        threading.Thread(target=life.guarded, args=(life.make, number)) for number in range(4)
    ]
    pruner = threading.Thread(target=life.guarded, args=(life.prune,))
    for thread in (*makers, pruner):
        thread.start()
    for thread in makers:
        thread.join()
    life.over.set()
    pruner.join()
    assert life.errors == []
    assert life.pruned > 100
    assert len(life.named) > ROUNDS
    for root, seed in life.named.values():
        assert store.read(root) == content(seed)
    assert store.verify().ok
    store.prune(life.catalog.roots())
    for root, seed in life.named.values():
        assert store.read(root) == content(seed)
