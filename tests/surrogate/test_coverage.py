# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What people are told of volumes is what is in their maps."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import Store
from satchel.errors import UnavailableError
from satchel.ids import BLOCK_SIZE
from surrogate.fetching import CACHE, Coverage, Fetcher
from tests.chunkstore.content import noise
from tests.surrogate.sources import StoreSource
from volumes import Volume, create_volume

BLOCKS = 1000
STEP = 16
"""Blocks of one of at most 64 parts."""


@pytest.fixture
def home(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "home")


@pytest.fixture
def volume(tmp_path: Path, home: Store) -> Iterator[Volume]:
    path = tmp_path / "image"
    path.write_bytes(noise(1, BLOCKS))
    made = create_volume(tmp_path, "disk0", home.import_file(path))
    yield made
    made.remove()


def test_every_block_is_in_one_part(volume: Volume) -> None:
    numbers = Coverage().numbers(volume)
    assert numbers.blocks == BLOCKS
    assert [part.absent for part in numbers.parts] == [STEP] * 62 + [BLOCKS - 62 * STEP]
    assert {part.source for part in numbers.parts} == {None}


def test_what_is_on_its_way_is_not_absent(volume: Volume) -> None:
    coverage = Coverage()
    with coverage.coming([(volume, STEP - 2, 4), (volume, 5 * STEP, 1)]) as came:
        parts = coverage.numbers(volume).parts
        assert [part.fetching for part in parts[:6]] == [2, 2, 0, 0, 0, 1]
        assert [part.absent for part in parts[:3]] == [STEP - 2, STEP - 2, STEP]
        came.update(media=3, home=1)
    parts = coverage.numbers(volume).parts
    assert not any(part.fetching for part in parts)
    assert [part.source for part in parts[:3]] == ["media", "media", None]


def test_what_nobody_was_asked_for_came_from_the_cache(volume: Volume) -> None:
    coverage = Coverage()
    with coverage.coming([(volume, 0, 1)]):
        pass
    assert coverage.numbers(volume).parts[0].source == CACHE


def test_what_did_not_come_came_from_nowhere(volume: Volume) -> None:
    coverage = Coverage()
    with pytest.raises(UnavailableError), coverage.coming([(volume, 0, 1)]):
        raise UnavailableError("no source has it")
    part = coverage.numbers(volume).parts[0]
    assert (part.source, part.fetching) == (None, 0)


def test_a_part_is_of_the_source_that_brought_most(
    volume: Volume, home: Store, tmp_path: Path
) -> None:
    with Store.create(tmp_path / "cache") as cache:
        fetcher = Fetcher(cache, [StoreSource("media", home)], 1)
        fetcher.resolve(volume, 0, 10)
        volume.map.mark_dirty(3)
        fetcher.close()
        first, second, *_ = fetcher.coverage.numbers(volume).parts
        assert (first.present, first.dirty, first.absent) == (9, 1, STEP - 10)
        assert (first.source, second.source) == ("media", None)
        assert volume.size == BLOCKS * BLOCK_SIZE
