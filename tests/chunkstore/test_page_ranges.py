# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks named by their place below a page: what a source gives for them, and to whom."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import (
    PageRange,
    Store,
    StoreUsage,
    TableRoot,
    decode_places,
    encode_places,
    pages_missing,
    places_missing,
    records_below,
    split_refs,
)
from satchel.ids import ZERO_REF, ChunkRef
from tests.chunkstore.content import noise

BLOCKS = 64 * 64 + 70
"""Three levels, the last leaves not full."""

PAGE = ChunkRef(bytes(range(52)))

GOLDEN = bytes(range(52)) + bytes.fromhex("02 00 0300 0501000000000000")


class Bench:
    """A volume at home with content in its first, a middle and its last blocks, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.home = Store.create(folder / "home")
        path = folder / "disk"
        with path.open("wb") as file:
            file.truncate(BLOCKS * 4096)
            for at, count in ((0, 100), (2000, 10), (BLOCKS - 8, 8)):
                file.seek(at * 4096)
                file.write(noise(at, count))
        self.root = self.home.import_file(path)
        self.cache = Store.create(folder / "cache")

    def bring(self, first: int, count: int, most: int = 256) -> int:
        """Fetch until nothing is missing; the number of requests for places."""
        requests = 0
        while places := places_missing(self.cache, self.root, first, count, most):
            requests += 1
            self.cache.admit(records_below(self.home.records, places))
        return requests

    def present(self, first: int, count: int) -> bool:
        return not self.cache.missing_in(self.root, first * 4096, count * 4096)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.home.close()
    made.cache.close()


@pytest.mark.parametrize(
    ("first", "count"), [(0, 1), (63, 2), (99, 3), (2005, 1), (1990, 40), (BLOCKS - 1, 1), (0, 256)]
)
def test_pages_and_chunks_come_with_one_answer(bench: Bench, first: int, count: int) -> None:
    assert bench.bring(first, count) == 1
    assert bench.present(first, count)
    for block in range(first, first + count):
        content = bench.cache.read(bench.root, block * 4096, 4096)
        assert content == bench.home.read(bench.root, block * 4096, 4096)


def test_what_is_known_is_not_asked_for_again(bench: Bench) -> None:
    assert places_missing(bench.cache, bench.root, 5, 1) == [PageRange(bench.root.ref, 2, 5, 1)]
    bench.bring(5, 1)
    assert places_missing(bench.cache, bench.root, 6, 10) == [], "its pages are here"
    (place,) = places_missing(bench.cache, bench.root, 2001, 2)
    assert (place.level, place.first, place.count) == (0, 2001 % 64, 2)
    (place,) = places_missing(bench.cache, bench.root, BLOCKS - 1, 5)
    assert (place.level, place.first, place.count) == (1, 69, 1)


def test_a_range_over_several_pages_is_several_places(bench: Bench) -> None:
    bench.bring(5, 1)
    places = places_missing(bench.cache, bench.root, 60, 2000, most=20)
    assert [(p.level, p.first, p.count) for p in places] == [(0, 0, 20), (0, 0, 20)]


def test_pages_above_scattered_blocks_come_level_by_level(bench: Bench) -> None:
    blocks = [0, 5, 99, 1000, 2001, BLOCKS - 1, BLOCKS + 5]
    rounds = []
    while missing := pages_missing(bench.cache, bench.root, blocks):
        assert all(missing), "each has a reference"
        bench.cache.admit(bench.home.records(b"".join(missing)))
        rounds.append(len(missing))
    assert rounds == [1, 2, 4], "the root, two below it, the leaves; block 1000 is zero"
    for block in blocks[:-1]:
        assert places_missing(bench.cache, bench.root, block, 1) == []
    assert pages_missing(bench.cache, TableRoot(ZERO_REF, 1 << 30), [5]) == []


def test_above_no_block_there_is_no_page(bench: Bench) -> None:
    assert pages_missing(bench.cache, bench.root, []) == []
    assert pages_missing(bench.cache, bench.root, [BLOCKS + 5]) == []


def test_a_volume_of_zeros_has_no_places(bench: Bench) -> None:
    assert places_missing(bench.cache, TableRoot(ZERO_REF, 1 << 30), 0, 1000) == []
    assert places_missing(bench.cache, bench.root, BLOCKS, 5) == []


def test_a_source_gives_each_record_once_and_pages_first(bench: Bench) -> None:
    places = [PageRange(bench.root.ref, 2, n, 2) for n in (0, 1, 2)]
    refs = split_refs(bench.cache.admit(records_below(bench.home.records, places)))
    assert len(refs) == len(set(refs)) == 3 + 4
    assert refs[0] == bench.root.ref


def test_a_source_that_lacks_a_page_gives_what_is_above_it(bench: Bench, tmp_path: Path) -> None:
    with Store.create(tmp_path / "part") as part:
        part.admit(bench.home.records(bench.root.ref))
        records = records_below(part.records, [PageRange(bench.root.ref, 2, 0, 64)])
        assert split_refs(bench.cache.admit(records)) == (bench.root.ref,)


@pytest.mark.parametrize("level", [0, 1, 3, 7])
def test_a_page_of_another_level_opens_nothing_below_it(bench: Bench, level: int) -> None:
    records = records_below(bench.home.records, [PageRange(bench.root.ref, level, 0, 8)])
    assert split_refs(bench.cache.admit(records)) == (bench.root.ref,)


def test_damaged_records_of_pages_open_nothing(bench: Bench) -> None:
    def spoilt(refs: bytes) -> bytes:
        records = bench.home.records(refs)
        return records[:-1] + bytes([records[-1] ^ 1])

    assert records_below(spoilt, [PageRange(bench.root.ref, 2, 0, 8)])
    assert len(records_below(spoilt, [PageRange(bench.root.ref, 2, 0, 8)])) <= 4160


def test_the_bytes_of_a_place_are_pinned() -> None:
    place = PageRange(PAGE, 2, 261, 3)
    assert encode_places([place]) == GOLDEN
    assert decode_places(GOLDEN * 2) == [place, place]
    assert decode_places(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        GOLDEN[:-1],
        GOLDEN[:53] + b"\1" + GOLDEN[54:],
        GOLDEN[:54] + b"\0\0" + GOLDEN[56:],
        GOLDEN[:54] + b"\1\1" + GOLDEN[56:],
        GOLDEN[:52] + b"\x08" + GOLDEN[53:],
        GOLDEN[:52] + b"\0" + GOLDEN[53:],
        GOLDEN[:56] + b"\xff" * 8,
    ],
    ids=["short", "reserved", "none", "many", "deep", "beyond", "far"],
)
def test_places_that_are_not_are_refused(data: bytes) -> None:
    with pytest.raises(StoreUsage):
        decode_places(data)
