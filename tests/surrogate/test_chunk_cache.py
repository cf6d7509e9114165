# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunk cache: what of the chunks that a policy names a store gives up."""

import errno
import random
import typing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from caching import POLICIES, MakePolicy, ThreeQueues
from chunkstore import BlockState, Store, StoreFull, name_blocks
from satchel.ids import BLOCK_SIZE
from surrogate.cache import chunk_cache as cache_module
from surrogate.cache.chunk_cache import ChunkCache
from surrogate.fetching import Exchange
from surrogate.settings import SurrogateSettings
from tests.chunkstore.content import noise
from tests.chunkstore.mounts import tmpfs
from tests.needs import requires
from volumes import Volume, create_volume

CHOSEN = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)


def test_every_policy_can_be_chosen() -> None:
    hints = typing.get_type_hints(SurrogateSettings)
    assert set(typing.get_args(hints["cache_policy"])) == set(POLICIES)
    assert POLICIES[SurrogateSettings().cache_policy] is ThreeQueues


class Machines:
    """A store whose packs are small, and volumes in use."""

    def __init__(self, folder: Path) -> None:
        Store.create(folder / "store").close()
        self.store = Store.open(folder / "store", level=0, pack_limit=256 << 10)
        self.folder = folder
        self.volumes: list[Volume] = []
        self.limit = 1 << 30

    def cache(self, make: MakePolicy = ThreeQueues) -> ChunkCache:
        return ChunkCache(self.store, lambda: self.limit, lambda: list(self.volumes), make)

    def run(self, name: str, content: bytes) -> Volume:
        """A machine that touches all of its volume."""
        volume = create_volume(self.folder, name, self.store.import_bytes(content))
        assert not self.store.resolve(volume.root, volume.map, 0, volume.blocks)
        volume.map.touch(0, volume.blocks)
        self.volumes.append(volume)
        return volume

    def end(self, volume: Volume) -> None:
        self.volumes.remove(volume)
        volume.remove()

    def holds(self, content: bytes) -> int:
        """How many of its chunks are here."""
        blocks = [content[n : n + BLOCK_SIZE] for n in range(0, len(content), BLOCK_SIZE)]
        names = set(self.store.names())
        return sum(self.name(block) in names for block in blocks)

    def name(self, block: bytes) -> bytes:
        return name_blocks(block)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    yield made
    for volume in made.volumes:
        volume.remove()
    made.store.close()


@CHOSEN
def test_a_cache_keeps_to_its_limit_and_never_takes_what_is_pinned(
    machines: Machines, make: MakePolicy
) -> None:
    old, running = noise(1, 400), noise(2, 300)
    cache = machines.cache(make)
    gone = machines.run("gone", old)
    cache.look()
    machines.end(gone)
    volume = machines.run("here", running)
    cache.look()
    assert machines.holds(old) == 400
    machines.limit = 2 << 20
    cache.look()
    counts = cache.counts()
    assert counts.size <= machines.limit
    assert not counts.crowded
    assert counts.evicted > 150
    assert machines.holds(running) == 300
    assert machines.holds(old) < 250
    assert all(volume.map.entry(n).state is BlockState.PACKED for n in range(300))
    assert machines.store.verify().ok
    assert machines.store.names_in(volume.map, range(300)) == tuple(
        machines.name(running[n * BLOCK_SIZE :][:BLOCK_SIZE]) for n in range(300)
    )


def test_misses_are_served_while_chunks_are_given_up(machines: Machines, tmp_path: Path) -> None:
    """Between the pieces of one eviction, of which this one has many."""
    running, coming = noise(2, 100), noise(3, 400)
    machines.store.import_bytes(noise(1, 12_000))
    old = machines.store.names()
    volume = machines.run("here", running)
    with Store.create(tmp_path / "home") as home:
        misses = [home.records(home.put(coming[n * BLOCK_SIZE :][:BLOCK_SIZE])) for n in range(400)]
    with ThreadPoolExecutor(1) as pool:
        evicted = pool.submit(machines.store.evict, b"".join(old))
        served = 0
        while not evicted.done() and served < len(misses):
            machines.store.admit(misses[served])
            served += 1
        assert evicted.result().chunks == len(old)
    assert served >= 5
    assert machines.holds(running) == 100
    assert machines.holds(coming) == served
    assert all(volume.map.entry(n).state is BlockState.PACKED for n in range(100))
    assert machines.store.verify().ok


def test_a_cache_that_running_machines_fill_is_crowded_until_they_end(machines: Machines) -> None:
    content = noise(1, 300)
    cache = machines.cache()
    volume = machines.run("here", content)
    machines.limit = 1 << 20
    cache.look()
    cache.look()
    assert cache.counts().crowded
    assert machines.holds(content) == 300
    machines.end(volume)
    cache.look()
    assert not cache.counts().crowded
    assert cache.counts().size <= machines.limit
    assert 0 < machines.holds(content) < 260


def test_replicas_of_one_service_share_the_cache(machines: Machines) -> None:
    content = noise(1, 200)
    cache = machines.cache()
    machines.run("one", content)
    cache.look()
    assert cache.counts().misses == 200
    machines.run("two", content)
    cache.look()
    assert sum(cache.counts().hits.values()) == 200
    assert cache.counts().misses == 200
    assert cache.counts().size < 250 * BLOCK_SIZE


def test_a_restart_of_the_daemon_does_not_lose_the_limit(machines: Machines) -> None:
    content = noise(3, 400)
    machines.end(machines.run("gone", content))
    machines.limit = 1 << 20
    cache = machines.cache()
    cache.look()
    assert cache.counts().size <= machines.limit
    assert 0 < machines.holds(content) < 260


@requires("root", "mount")
def test_a_full_disk_does_not_break_a_running_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else has filled it to the last byte; the machine goes on with the reserve."""
    monkeypatch.setattr(cache_module, "RESERVE_BYTES", 4 << 20)
    with tmpfs(tmp_path / "disk", "32m"), Store.create(tmp_path / "home") as home:
        machines = Machines(tmp_path / "disk")
        reserve = tmp_path / "disk" / "reserve"
        cache = ChunkCache(
            machines.store, lambda: 1 << 30, lambda: machines.volumes, ThreeQueues, reserve
        )
        exchange = Exchange(machines.store, cache.make_room)
        old, running = noise(1, 300), noise(2, 300)
        gone = machines.run("gone", old)
        cache.look()
        assert reserve.stat().st_blocks * 512 == 4 << 20
        machines.end(gone)
        volume = machines.run("here", running)
        cache.look()
        fill(tmp_path / "disk" / "others")
        content = noise(3, 400)
        admitted = b"".join(
            exchange._admit(home.records(home.put(content[n : n + 100 * BLOCK_SIZE])))
            for n in range(0, len(content), 100 * BLOCK_SIZE)
        )
        assert not reserve.exists()
        assert all(machines.store.has(admitted))
        assert machines.holds(running) == 300
        machines.store.sync()
        assert machines.store.verify().ok
        exchange.close()
        volume.remove()
        machines.store.close()


def fill(path: Path) -> None:
    """Write until nothing more can be."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC


class FullOnce:
    """A store whose disk is full until somebody makes room."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.full = True

    def admit(self, records: bytes) -> bytes:
        if self.full:
            raise StoreFull("no space")
        return self.store.admit(records)

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


@pytest.mark.parametrize("room", [True, False])
def test_a_full_disk_is_made_room_on_before_a_miss_fails(
    machines: Machines, tmp_path: Path, room: bool
) -> None:
    full = FullOnce(machines.store)
    asked = []

    def make_room() -> bool:
        asked.append(True)
        full.full = not room
        return room

    exchange = Exchange(full, make_room)  # type: ignore[arg-type]
    with Store.create(tmp_path / "other") as other:
        ref = other.put(random.Random(5).randbytes(BLOCK_SIZE))
        records = other.records(ref)
    if room:
        assert exchange._admit(records) == ref
    else:
        with pytest.raises(StoreFull):
            exchange._admit(records)
    assert asked == [True]
    exchange.close()
