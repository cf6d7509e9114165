# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk on which nothing more can be kept: machines get what they ask for all the same."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import BlockState, Store
from satchel.ids import BLOCK_SIZE
from surrogate.fetching import (
    ChunksUnavailable,
    Exchange,
    Fetcher,
    UncachedReader,
    fetcher,
    uncached_reader,
)
from tests.chunkstore.content import noise
from tests.chunkstore.mounts import tmpfs
from tests.needs import requires
from tests.surrogate.sources import StoreSource, flipped
from tests.surrogate.test_chunk_cache import fill
from volumes import ReadAbandoned, Volume, create_volume

pytestmark = requires("root", "mount")

BLOCKS = 200


class FullDisk:
    """A cache whose disk somebody else has filled to the last byte."""

    def __init__(self, folder: Path) -> None:
        self.content = noise(1, BLOCKS)
        self.disk = folder / "disk"
        self.memory = folder / "memory"
        self.memory.mkdir()
        self.home = Store.create(folder / "home")
        self.cache = Store.create(self.disk / "cache")
        root = self.home.import_bytes(self.content)
        self.volume: Volume = create_volume(folder, "disk0", root)
        self.source = StoreSource("home", self.home)
        self.exchange = Exchange(self.cache)
        self.fetcher = Fetcher(self.cache, [self.source], 1, self.exchange)
        self.passing = UncachedReader(self.fetcher, self.memory)
        fill(self.disk / "others")

    def read(self, first: int, count: int) -> bytes | None:
        return self.passing.resolve(self.fetcher.resolve, self.volume, first, count)

    def close(self) -> None:
        self.fetcher.close()
        self.passing.close()
        self.exchange.close()
        self.volume.remove()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[FullDisk]:
    with tmpfs(tmp_path / "disk", "8m"):
        made = FullDisk(tmp_path)
        yield made
        made.close()
        made.home.close()
        made.cache.close()


def test_a_miss_is_served_that_cannot_be_kept(
    full: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    served = 0
    for first in range(0, BLOCKS, 8):
        found = full.read(first, 8)
        if found is not None:
            served += 8
            assert found == full.content[first * BLOCK_SIZE :][: 8 * BLOCK_SIZE]
            assert full.volume.map.entry(first).state is BlockState.ABSENT
    assert served > BLOCKS / 2
    assert full.fetcher.tally.unkept() == full.exchange.tally.unkept() == served
    assert caplog.text.count("handed on without being kept") == 1
    full.passing.close()
    assert not list(full.memory.iterdir())


def test_memory_is_bounded(full: FullDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncached_reader, "LIMIT_BYTES", 100_000)
    for first in range(0, BLOCKS, 8):
        full.read(first, 8)
        assert len(list(full.memory.iterdir())) <= 1
        assert sum(pack.stat().st_size for pack in full.memory.rglob("*.pack")) < 400_000


def test_memory_is_bounded_while_somebody_always_reads(
    full: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncached_reader, "LIMIT_BYTES", 50_000)
    for _ in range(2):
        assert all(full.read(first, 8) for first in range(0, 64, 8))
        with full.passing._entered() as left:
            full.read(64, 32)
            full.read(96, 8)
            assert full.passing._room is not left
            assert len(list(full.memory.iterdir())) == 2
        assert len(list(full.memory.iterdir())) == 1


def test_a_replica_that_has_ended_takes_no_memory_any_more(full: FullDisk) -> None:
    assert full.read(0, 8)
    with full.passing._entered() as room:
        full.passing.close()
        assert room.store.pack_bytes
    with pytest.raises(ReadAbandoned):
        full.read(8, 8)
    assert not list(full.memory.iterdir())


def test_what_is_handed_on_was_verified(full: FullDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(full.read(first, 8) for first in range(0, 64, 8))
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 0.3)
    full.source.spoil = flipped
    with pytest.raises(ChunksUnavailable):
        full.read(100, 8)


def test_what_comes_is_kept_again_once_there_is_room(
    full: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncached_reader, "FULL_SECONDS", 0.0)
    assert all(full.read(first, 8) for first in range(0, 64, 8))
    (full.disk / "others").unlink()
    assert not any(full.read(first, 8) for first in range(0, BLOCKS, 8))
    assert not full.volume.map.counts(0, BLOCKS)[BlockState.ABSENT]
    full.cache.sync()
    assert full.cache.verify().ok
