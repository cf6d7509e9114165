# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of a machine that was handed over are made of those that its home has, too."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chunkstore import BlockState, PageChanges, Store, difference, pages_missing
from satchel.ids import BLOCK_SIZE, ZERO_REF, ChunkRef
from surrogate.fetching import Fetcher
from tests.chunkstore.content import noise
from tests.surrogate.sources import StoreSource
from volumes import Volume, create_volume

BLOCKS = 64 * 65
CHANGED = (3, 70, 4100)


class Handed:
    """A volume of which three blocks changed at the giver, who has only what it changed; home has
    the checkpoint's."""

    def __init__(self, folder: Path) -> None:
        content = bytearray(noise(1, BLOCKS))
        home = Store.create(folder / "home")
        old = home.import_bytes(bytes(content))
        made = Store.create(folder / "made")
        assert made.import_bytes(bytes(content)) == old
        for block in CHANGED:
            content[block * BLOCK_SIZE] ^= 1
        self.root = made.import_bytes(bytes(content))
        found = difference(made, old, self.root)
        self.changes: PageChanges = found.pages
        giver = Store.create(folder / "giver")
        giver.admit(made.records(b"".join(self.changes)))
        for block in CHANGED:
            giver.put(content[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE])
        self.cache = Store.create(folder / "cache")
        self.giver, self.home = StoreSource("giver", giver), StoreSource("home", home)
        self.volume: Volume = create_volume(folder, "ram", self.root)
        self.fetcher = Fetcher(self.cache, [self.giver, self.home], 8)

    def here(self, block: int) -> bool:
        return self.volume.map.entry(block).state is BlockState.PACKED

    def resolve(self, block: int) -> None:
        self.fetcher.resolve(self.volume, block, 1)
        assert self.here(block)


@pytest.fixture
def handed(tmp_path: Path) -> Iterator[Handed]:
    made = Handed(tmp_path)
    yield made
    made.fetcher.close()


def test_a_block_below_a_changed_page_needs_nobody_but_home(handed: Handed) -> None:
    handed.fetcher.make_pages(handed.changes)
    handed.giver.dead = True
    for block in (4, 71, 4101, 2000):
        handed.resolve(block)
    assert handed.cache.read(handed.root, 4 * BLOCK_SIZE, 10) == noise(1, 5)[4 * BLOCK_SIZE :][:10]


def test_blocks_ahead_and_pages_need_nobody_but_home(handed: Handed) -> None:
    handed.fetcher.make_pages(handed.changes)
    handed.giver.dead = True
    handed.fetcher.ahead([(handed.volume, 5, 30), (handed.volume, 4110, 3)])
    assert all(handed.here(block) for block in (*range(5, 35), *range(4110, 4113)))
    handed.fetcher.pages(handed.root, range(BLOCKS))
    assert pages_missing(handed.cache, handed.root, range(BLOCKS)) == []


def test_the_block_that_changed_is_what_it_became(handed: Handed) -> None:
    handed.fetcher.make_pages(handed.changes)
    handed.resolve(70)
    was = noise(1, 71)[-BLOCK_SIZE:]
    now = handed.cache.read(handed.root, 70 * BLOCK_SIZE, BLOCK_SIZE)
    assert (now[0], now[1:]) == (was[0] ^ 1, was[1:])


@pytest.mark.parametrize("lie", ["entry", "base", "no page", "level", "zero"])
def test_a_page_that_does_not_come_out_is_had_from_who_told_it(handed: Handed, lie: str) -> None:
    no_page = ChunkRef(handed.home.store.put(noise(77)))
    lies = {
        ref: {
            "entry": replace(change, entries={**change.entries, 9: no_page}),
            "base": replace(change, base=ref),
            "no page": replace(change, base=no_page),
            "level": replace(change, level=change.level ^ 1),
            "zero": replace(change, base=ZERO_REF),
        }[lie]
        for ref, change in handed.changes.items()
    }
    handed.fetcher.make_pages(lies)
    for block in (4, 4101):
        handed.resolve(block)
    assert sum(handed.giver.places) + sum(handed.giver.asked) > 0
