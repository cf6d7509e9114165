# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which source is asked, and what becomes of one that is slow, dead, damaged or a liar."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chunkstore import BlockState, Store, StoreFull, name_blocks, split_refs
from media import Media
from satchel.errors import UnavailableError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE
from surrogate.fetching import (
    ChunksUnavailable,
    Fetcher,
    SourceState,
    exchange,
    fetcher,
    schedule,
    source_state,
)
from tests.chunkstore.content import flip, noise, packs, text
from tests.surrogate.sources import StoreSource, flipped
from tests.waiting import eventually
from volumes import ReadAbandoned, Volume, create_volume

BLOCKS = 200


class Bench:
    """A cache that is empty, and a home that has everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = Store.create(folder / "cache")
        self.store = Store.create(folder / "home")
        self.refs = self.store.put(noise(1, BLOCKS))
        self.home = StoreSource("home", self.store)

    def source(self, name: str, blocks: bytes) -> StoreSource:
        store = Store.create(self.folder / name)
        store.put(blocks)
        return StoreSource(name, store)

    def fetcher(self, *sources: StoreSource, readahead: int = 8) -> Fetcher:
        return Fetcher(self.cache, list(sources), readahead)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 1.5)
    monkeypatch.setattr(fetcher, "BESIDE_SECONDS", 1.0)
    monkeypatch.setattr(schedule, "RETRY_SECONDS", 0.3)
    monkeypatch.setattr(schedule, "RETRY_MOST_SECONDS", 0.3)
    yield


def held(bench: Bench) -> int:
    return sum(bench.cache.has(bench.refs))


def learnt(fetcher: Fetcher) -> SourceState:
    """How the first source stands."""
    return fetcher._suppliers[0].standing


def test_the_nearest_source_is_asked_first_and_the_next_for_the_rest(bench: Bench) -> None:
    media = bench.source("media", noise(1, BLOCKS)[: 50 * 4096])
    fetcher = bench.fetcher(media, bench.home)
    fetcher.bring(bench.refs)
    assert held(bench) == BLOCKS
    assert (sum(media.asked), sum(bench.home.asked)) == (BLOCKS, BLOCKS - 50)
    assert set(fetcher.bytes_by_source()) == {"media", "home"}
    assert fetcher.bytes_by_source()["home"] > 3 * fetcher.bytes_by_source()["media"] * 0.9
    assert fetcher.faults() == {}


def test_a_source_that_has_everything_leaves_nothing_for_the_next(bench: Bench) -> None:
    media = bench.source("media", noise(1, BLOCKS))
    bench.fetcher(media, bench.home).bring(bench.refs)
    assert bench.home.asked == []


def test_a_long_list_is_asked_for_in_requests_of_a_bounded_size(bench: Bench) -> None:
    refs = bench.store.put(text(2, 1500))
    bench.fetcher(bench.home).bring(refs)
    assert sum(bench.home.asked) == 1500
    assert max(bench.home.asked) <= source_state.BATCH


def test_a_damaged_chunk_comes_from_the_next_source_and_is_reported(bench: Bench) -> None:
    media = bench.source("media", noise(1, BLOCKS))
    media.spoil = flipped
    fetcher = bench.fetcher(media, bench.home)
    fetcher.bring(bench.refs)
    assert held(bench) == BLOCKS
    assert sum(bench.home.asked) == len(media.asked) == fetcher.faults()["media"]


def test_bits_that_flipped_on_a_medium_are_made_good_by_home(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "stick").mkdir()
    with Media.init(tmp_path / "stick") as media:
        media.add(bench.store, bench.refs)
        for offset in (5000, 100_000, 300_000):
            flip(packs(tmp_path / "stick/satchel/packs")[0], offset)
        stick = StoreSource("media", bench.store)
        stick.fetch = lambda refs, *rest: media.records(refs)  # type: ignore
        fetcher = bench.fetcher(stick, bench.home)
        fetcher.bring(bench.refs)
    assert held(bench) == BLOCKS
    assert sum(bench.home.asked) == 3
    for ref in split_refs(bench.refs):
        assert bench.cache.get(ref) == bench.store.get(ref)


def test_a_source_that_lies_again_and_again_is_asked_no_more(bench: Bench) -> None:
    liar = bench.source("liar", noise(1, BLOCKS))
    liar.spoil = lambda records: flipped(records[:4160]) if records else b""
    fetcher = bench.fetcher(liar, bench.home)
    fetcher.bring(bench.refs)
    assert held(bench) == BLOCKS
    asked = len(liar.asked)
    assert asked <= 2 * exchange.INVALID_LIMIT
    fetcher.bring(bench.store.put(noise(3, 10)))
    assert len(liar.asked) == asked


@pytest.mark.parametrize("answer", [b"no records at all" * 9, b"\0" * 200, b"\xff" * 4096])
def test_an_answer_that_is_no_records_is_not_asked_for_again(bench: Bench, answer: bytes) -> None:
    noisy = bench.source("noisy", noise(1, BLOCKS))
    noisy.spoil = lambda records: answer
    fetcher = bench.fetcher(noisy, bench.home)
    fetcher.bring(bench.refs)
    assert held(bench) == BLOCKS
    assert sum(noisy.asked) == BLOCKS
    assert set(fetcher.faults()) == {"noisy"}


def test_damage_to_a_chunk_that_nobody_asked_for_is_not_asked_for_again(bench: Bench) -> None:
    other = flipped(bench.store.records(bench.store.put(noise(4))))
    noisy = bench.source("noisy", noise(1, BLOCKS))
    noisy.spoil = lambda records: other
    bench.fetcher(noisy, bench.home).bring(bench.refs)
    assert held(bench) == BLOCKS
    assert sum(noisy.asked) == BLOCKS


def test_chunks_that_nobody_asked_for_do_not_stand_for_those(bench: Bench) -> None:
    others = bench.store.records(bench.store.put(noise(5, 3)))
    odd = bench.source("odd", noise(1, BLOCKS))
    odd.spoil = lambda records: others
    fetcher = bench.fetcher(odd, bench.home)
    fetcher.bring(bench.refs)
    assert held(bench) == BLOCKS
    assert set(fetcher.faults()) == {"odd"}


def test_a_dead_source_is_left_alone_for_a_while_and_used_when_it_returns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "RETRY_SECONDS", 1000.0)
    monkeypatch.setattr(schedule, "RETRY_MOST_SECONDS", 1000.0)
    media = bench.source("media", noise(1, BLOCKS))
    media.dead = True
    bench.home.slow = 0.1
    fetcher = bench.fetcher(media, bench.home)
    refs = split_refs(bench.refs)
    fetcher.bring(b"".join(refs[:10]))
    fetcher.bring(b"".join(refs[10:20]))
    assert (media.asked, bench.home.asked) == ([10], [10, 10])
    media.dead = False
    assert learnt(fetcher).usable_from > time.monotonic()
    learnt(fetcher).usable_from = time.monotonic()
    fetcher.bring(b"".join(refs[20:30]))
    assert media.asked == [10, 10], "on trial, with what home was asked for too"
    fetcher.bring(b"".join(refs[30:]))
    assert (sum(media.asked), sum(bench.home.asked)) == (10 + 10 + BLOCKS - 30, 30)


@pytest.mark.usefixtures("impatient")
def test_what_all_sources_lack_for_a_moment_is_waited_for(bench: Bench) -> None:
    bench.home.dead = True
    threading.Timer(0.5, lambda: setattr(bench.home, "dead", False)).start()
    bench.fetcher(bench.home).bring(bench.refs)
    assert held(bench) == BLOCKS


@pytest.mark.usefixtures("impatient")
def test_when_all_sources_are_gone_the_fetch_fails_in_time_and_says_why(bench: Bench) -> None:
    media = bench.source("media", noise(9))
    bench.home.dead = True
    began = time.monotonic()
    with pytest.raises(ChunksUnavailable, match="200 chunks cannot be had: home: home is dead"):
        bench.fetcher(media, bench.home).bring(bench.refs)
    assert 1.4 < time.monotonic() - began < 60


@pytest.mark.usefixtures("impatient")
def test_without_any_source_the_complaint_is_that(bench: Bench) -> None:
    with pytest.raises(ChunksUnavailable, match="no source has them"):
        bench.fetcher().bring(bench.refs)


def test_close_ends_a_fetch_that_waits(bench: Bench) -> None:
    bench.home.dead = True
    fetcher = bench.fetcher(bench.home)
    threading.Timer(0.2, fetcher.close).start()
    began = time.monotonic()
    with pytest.raises(ReadAbandoned):
        fetcher.bring(bench.refs)
    assert time.monotonic() - began < 60


def test_a_full_cache_is_no_fault_of_a_source(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(records: object) -> bytes:
        raise StoreFull("no room in the store")

    monkeypatch.setattr(bench.cache, "admit", full)
    fetcher = bench.fetcher(bench.home)
    with pytest.raises(StoreFull):
        fetcher.bring(bench.refs)
    assert fetcher.faults() == {}
    assert learnt(fetcher).estimate.hits(time.monotonic()) == 1.0


def knowing_the_link(bench: Bench, tmp_path: Path) -> tuple[Fetcher, Volume]:
    """A fetcher with a window of 16 blocks, and a volume of 64 of which one was missed before the
    link was known: it came alone."""
    path = tmp_path / "disk"
    path.write_bytes(noise(6, 64))
    volume = create_volume(tmp_path, "disk0", bench.store.import_file(path))
    fetcher = bench.fetcher(bench.home, readahead=16)
    fetcher.resolve(volume, 20, 1)
    assert volume.map.count(BlockState.PACKED) == 1
    estimate = learnt(fetcher).estimate
    estimate.round_trip, estimate.rate, estimate.rate_known = 1.0, 1e6, True
    return fetcher, volume


def test_a_missing_block_brings_neighbours_once_the_link_is_known(
    bench: Bench, tmp_path: Path
) -> None:
    fetcher, volume = knowing_the_link(bench, tmp_path)
    fetcher.resolve(volume, 40, 2)
    assert eventually(lambda: volume.map.count(BlockState.PACKED) == 17)
    volume.remove()


def test_a_miss_does_not_wait_for_its_neighbours(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher, volume = knowing_the_link(bench, tmp_path)
    let, fetch = threading.Event(), bench.home.fetch

    def slow(refs: bytes, *rest: Any) -> bytes:
        if len(refs) > CHUNK_REF_SIZE:
            let.wait(30.0)
        return fetch(refs, *rest)

    monkeypatch.setattr(bench.home, "fetch", slow)
    fetcher.resolve(volume, 40, 1)
    assert volume.map.count(BlockState.PACKED) == 2
    let.set()
    assert eventually(lambda: volume.map.count(BlockState.PACKED) == 17)
    volume.remove()


@pytest.mark.usefixtures("impatient")
def test_a_neighbour_that_nobody_has_holds_up_no_miss(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stick with a bad sector, and home out of reach."""
    fetcher, volume = knowing_the_link(bench, tmp_path)
    lost, fetch = name_blocks(noise(6, 64)[41 * BLOCK_SIZE :][:BLOCK_SIZE]), bench.home.fetch

    def without(refs: bytes, *rest: Any) -> bytes:
        return fetch(b"".join(ref for ref in split_refs(refs) if ref != lost), *rest)

    monkeypatch.setattr(bench.home, "fetch", without)
    began = time.monotonic()
    fetcher.resolve(volume, 40, 1)
    assert time.monotonic() - began < 1.0
    assert eventually(lambda: volume.map.count(BlockState.PACKED) == 16)
    with pytest.raises(ChunksUnavailable):
        fetcher.resolve(volume, 41, 1)
    volume.remove()


def test_threads_that_fetch_the_same_get_the_same(bench: Bench) -> None:
    fetcher = bench.fetcher(bench.source("media", noise(1, 100)), bench.home)
    errors: list[Exception] = []

    def bring() -> None:
        try:
            fetcher.bring(bench.refs)
        except UnavailableError as error:
            errors.append(error)

    threads = [threading.Thread(target=bring) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert held(bench) == BLOCKS
