# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What replicas of one host share, and what a source that hangs or goes away costs them."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import BlockState, Store, split_refs
from surrogate.fetching import Exchange, Fetcher, Supplier
from tests.chunkstore.content import noise
from tests.surrogate.sources import StoreSource, flipped
from tests.waiting import eventually
from volumes import ReadAbandoned, Volume, create_volume
from wire import Priority

BLOCKS = 300


class Host:
    """A cache with an exchange, and a home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Store.create(folder / "home")
        self.cache = Store.create(folder / "cache")
        self.exchange = Exchange(self.cache)
        path = folder / "image"
        path.write_bytes(noise(1, BLOCKS))
        self.root = self.home.import_file(path)
        self.volumes: list[Volume] = []
        self.fetchers: list[Fetcher] = []

    def source(self, name: str = "home") -> StoreSource:
        return StoreSource(name, self.home)

    def fetcher(self, *sources: StoreSource) -> Fetcher:
        self.fetchers.append(Fetcher(self.cache, sources, 8, self.exchange))
        return self.fetchers[-1]

    def volume(self, name: str) -> Volume:
        self.volumes.append(create_volume(self.folder, name, self.root))
        return self.volumes[-1]

    def close(self) -> None:
        for fetcher in self.fetchers:
            fetcher.close()
        self.exchange.close()
        for volume in self.volumes:
            volume.remove()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.close()


def test_a_miss_under_unknown_pages_costs_one_request(host: Host) -> None:
    home = host.source()
    fetcher, volume = host.fetcher(home), host.volume("disk0")
    fetcher.resolve(volume, 130, 2)
    assert (home.asked, home.places) == ([], [2])
    assert volume.map.entry(131).state is BlockState.PACKED
    fetcher.resolve(volume, 140, 1)
    assert (home.asked, home.places) == ([1], [2]), "its page is here now"
    fetcher.resolve(volume, 250, 1)
    assert (home.asked, home.places) == ([1], [2, 1])


def test_two_misses_under_one_unknown_page_are_both_answered(host: Host) -> None:
    home = host.source()
    home.silent = threading.Event()
    fetcher, volume = host.fetcher(home), host.volume("disk0")
    threads = [
        threading.Thread(target=fetcher.resolve, args=(volume, block, 1)) for block in range(0, 8)
    ]
    for thread in threads:
        thread.start()
    assert eventually(lambda: sum(home.places) == 8, 20.0)
    home.silent.set()
    for thread in threads:
        thread.join()
    assert volume.map.count(BlockState.PACKED) == 8
    assert sum(home.places) == 8


def test_two_volumes_of_one_content_cost_one_request(host: Host) -> None:
    home = host.source()
    home.silent = threading.Event()
    fetcher = host.fetcher(home)
    volumes = [host.volume("disk0"), host.volume("disk1")]
    threads = [threading.Thread(target=fetcher.resolve, args=(v, 5, 1)) for v in volumes]
    for thread in threads:
        thread.start()
    assert eventually(lambda: home.places)
    time.sleep(0.1)
    home.silent.set()
    for thread in threads:
        thread.join()
    assert home.places == [1]
    assert all(v.map.entry(5).state is BlockState.PACKED for v in volumes)


def test_two_replicas_share_a_request_and_each_goes_on_without_the_other(host: Host) -> None:
    first, second = host.source("first"), host.source("second")
    first.silent = threading.Event()
    one, other = host.fetcher(first), host.fetcher(second)
    ref = split_refs(host.home.reachable([host.root]))[3]
    ended: list[str] = []

    def bring(fetcher: Fetcher, name: str) -> None:
        try:
            fetcher.bring(ref)
            ended.append(name)
        except ReadAbandoned:
            ended.append(f"{name} abandoned")

    threads = [threading.Thread(target=bring, args=(one, "one"))]
    threads[0].start()
    assert eventually(lambda: first.asked)
    threads.append(threading.Thread(target=bring, args=(other, "other")))
    threads[1].start()
    time.sleep(0.1)
    assert second.asked == [], "it is under way"
    one.close()
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == ["one abandoned", "other"]
    assert (sum(second.asked), host.cache.has(ref)) == (1, [True])
    first.silent.set()


def test_numbers_are_counted_for_the_replica_that_asked(host: Host) -> None:
    one, other = host.fetcher(host.source("first")), host.fetcher(host.source("second"))
    one.read(host.root, priority=Priority.PREFETCH)
    other.read(host.root)
    ((source, priority), count), *_ = one.tally.counts().items()
    assert (source, priority) == ("first", Priority.PREFETCH)
    assert count.bytes == one.bytes_by_source()["first"] > BLOCKS * 4096
    assert count.chunks >= BLOCKS
    assert other.bytes_by_source() == {"second": 0}
    assert one.bytes_by_source().keys() == {"first"}


def test_stalls_are_counted(host: Host) -> None:
    home = host.source()
    home.slow = 0.05
    fetcher, volume = host.fetcher(home), host.volume("disk0")
    with fetcher.stalling():
        fetcher.resolve(volume, 5, 1)
    stalls = fetcher.tally.stalls()
    assert stalls.count == 1
    assert stalls.seconds == stalls.longest >= 0.05
    assert sum(stalls.histogram) == 1
    assert sum(stalls.histogram[4:]) == 1


def test_the_rate_is_known_once_enough_has_come(host: Host) -> None:
    home = host.source()
    fetcher = host.fetcher(home)
    refs = host.home.reachable([host.root])
    assert fetcher.rate == 0.0, "what is assumed tells nobody when a replica will be quiet"
    for start in range(0, len(refs), 60 * 52):
        fetcher.bring(refs[start : start + 60 * 52])
    assert fetcher.rate > 0.0


def test_a_source_that_hangs_is_not_waited_for_when_another_one_has_it(host: Host) -> None:
    media, home = host.source("media"), host.source("home")
    fetcher, volume = host.fetcher(media, home), host.volume("disk0")
    for block in range(0, 64, 8):
        fetcher.resolve(volume, block, 1)
    before = len(home.places)
    media.silent = threading.Event()
    fetcher.resolve(volume, 100, 1)
    assert volume.map.entry(100).state is BlockState.PACKED
    assert len(home.places) > before
    count = {source: c.overdue for (source, _), c in fetcher.tally.counts().items()}
    assert set(count) == {"media", "home"}
    media.silent.set()
    assert eventually(lambda: fetcher.tally.counts()["media", Priority.DEMAND].overdue >= 1)


def test_a_shared_source_serves_every_replica_until_it_parts(host: Host) -> None:
    stick = Supplier(host.source("stick"), shared=True)
    host.exchange.join(stick)
    home = host.source()
    fetcher = host.fetcher(home)
    refs = split_refs(host.home.reachable([host.root]))
    fetcher.bring(refs[0])
    assert home.asked == []
    host.exchange.part(stick)
    fetcher.bring(refs[1])
    assert home.asked == [1]
    assert fetcher.bytes_by_source().keys() == {"home", "stick"}


def test_a_closed_fetcher_fetches_nothing(host: Host) -> None:
    home = host.source()
    fetcher = host.fetcher(home)
    fetcher.close()
    with pytest.raises(ReadAbandoned):
        fetcher.bring(host.root.ref)
    assert home.asked == []


def test_a_miss_overtakes_a_stream(host: Host) -> None:
    home = host.source()
    home.slow = 0.02
    fetcher, volume = host.fetcher(home), host.volume("disk0")
    stream = threading.Thread(
        target=lambda: fetcher.read(host.root, priority=Priority.PREFETCH), daemon=True
    )
    stream.start()
    assert eventually(lambda: len(home.urgency) > 2)
    fetcher.resolve(volume, BLOCKS - 1, 1)
    assert stream.is_alive(), "most of it is still to come"
    assert Priority.DEMAND in home.urgency
    stream.join()


def test_a_source_that_sends_much_more_than_is_below_a_page_is_left_alone(host: Host) -> None:
    """Nobody can fill a surrogate's disk with what nobody asked for, request after request."""
    flood, home = host.source("flood"), host.source()
    junk = host.home.records(host.home.put(noise(9, 200)))
    flood.spoil = lambda records: records + junk
    fetcher, volume = host.fetcher(flood, home), host.volume("disk0")
    for block in range(0, BLOCKS, 50):
        fetcher.resolve(volume, block, 1)
    assert fetcher.faults().keys() == {"flood"}
    assert volume.map.count(BlockState.PACKED) >= 6


def test_a_source_that_failed_is_asked_again_when_its_client_is_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surrogate.fetching.schedule.RETRY_SECONDS", 1000.0)
    home = host.source()
    home.dead = True
    fetcher = host.fetcher(home)
    ref = split_refs(host.home.reachable([host.root]))[3]
    bringing = threading.Thread(target=fetcher.bring, args=(ref,), daemon=True)
    bringing.start()
    assert eventually(lambda: home.asked and fetcher.faults())
    home.dead = False
    home.back = True
    bringing.join(60)
    assert home.asked == [1, 1]


def test_a_liar_that_comes_back_is_a_liar(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surrogate.fetching.exchange.INVALID_LIMIT", 0)
    liar, home = host.source("liar"), host.source()
    liar.spoil = flipped
    fetcher = host.fetcher(liar, home)
    refs = split_refs(host.home.reachable([host.root]))
    fetcher.bring(refs[3])
    liar.back = True
    fetcher.bring(refs[4])
    assert len(liar.asked) == 1
