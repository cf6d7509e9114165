# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A working set is a hint from anybody: a good one helps, a bad one does no harm."""

import functools
import random
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chunkstore import (
    BlockState,
    PageRange,
    Store,
    TableRoot,
    encode_page_changes,
    name_blocks,
    pages_missing,
    split_refs,
)
from replica import (
    IDLE,
    RESUME,
    STEADY,
    Access,
    Profile,
    Run,
    WorkingSetVersion,
    decode_working_set,
    directory_size,
    encode_working_set,
    names_extent,
    observed,
)
from satchel.ids import BLOCK_SIZE, ZERO_REF, ChunkRef
from surrogate.fetching import Fetcher
from surrogate.fetching.coverage import Span
from surrogate.fetching.source_state import ASIDE_BYTES
from surrogate.prefetch.prefetcher import PendingBlock, Prefetcher
from tests.chunkstore.content import noise
from tests.surrogate.sources import FarVolume, StoreSource
from tests.waiting import eventually
from volumes import create_volume

BLOCKS = 1536
CONTENT = noise(1, BLOCKS)
RECORD_HEADER = 64
RECORD = RECORD_HEADER + BLOCK_SIZE
"""What a block of noise takes on the way."""


def content(run: Run) -> bytes:
    return CONTENT[run.first * BLOCK_SIZE :][: run.count * BLOCK_SIZE]


@functools.cache
def encoded(runs: tuple[Run, ...]) -> bytes:
    """Working sets of such runs; compressing all blocks takes seconds."""
    return encode_working_set([runs], content)


class Bench(FarVolume):
    """A volume whose blocks are all at home, and a cache."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, BLOCKS, 8)

    def blob(self, *runs: Run) -> TableRoot:
        return self.home.import_bytes(encoded(runs))

    def prefetcher(self, blob: TableRoot) -> Prefetcher:
        return Prefetcher(self.cache, self.fetcher, blob)

    def prefetch(self, blob: TableRoot) -> None:
        prefetcher = self.prefetcher(blob)
        prefetcher.start({"disk0": self.volume})
        prefetcher.join()

    def cached(self, numbers: Iterable[int]) -> None:
        """Have these blocks in the cache, below no table."""
        self.cache.put(b"".join(content(Run("disk0", number, 1)) for number in numbers))

    def names_at(self, blob: TableRoot) -> tuple[int, int]:
        """Where in a blob its names are."""
        data = self.home.read(blob)
        roots = {"disk0": self.volume.root}
        return names_extent(decode_working_set(data[: directory_size(data)], blob.size, roots))

    def names_here(self, blob: TableRoot) -> list[bool]:
        """Which blocks of a blob's names have come."""
        offset, length = self.names_at(blob)
        names = self.home.read(blob, offset, -(-length // BLOCK_SIZE) * BLOCK_SIZE)
        return self.cache.has(name_blocks(names))

    @property
    def fetched(self) -> int:
        """Bytes that have come."""
        return sum(self.fetcher.bytes_by_source().values())

    def present(self) -> int:
        return self.volume.map.count(BlockState.PACKED)

    def knows_the_table(self) -> bool:
        return self.cache.has(self.volume.root.ref)[0]

    def content_here(self, number: int) -> bytes:
        """A block as the plugin reads it: from the place that the map says."""
        entry = self.volume.map.entry(number)
        assert entry.state is BlockState.PACKED
        pack = self.cache.packs_path / f"{entry.pack:06}.pack"
        record = pack.read_bytes()[entry.offset :][: RECORD_HEADER + entry.length]
        return self.cache.get(ChunkRef(self.cache.admit(record)))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.fetcher.close()
    made.volume.remove()


def test_what_was_touched_elsewhere_comes_when_the_giver_is_not_needed_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = bench.blob(Run("disk0", 200, 10), Run("disk0", 700, 1))
    prefetcher = Prefetcher(
        bench.cache, bench.fetcher, None, changed, touched={"disk0": (100, 5, 1000, 7)}
    )
    ahead, independent = bench.fetcher.ahead, {}

    def look(spans: Sequence[Span]) -> None:
        independent.update({first: prefetcher.independent for _, first, _ in spans})
        ahead(spans)

    monkeypatch.setattr(bench.fetcher, "ahead", look)
    bench.source.slow = 0.1
    prefetcher.start({"disk0": bench.volume})
    assert eventually(lambda: bench.present() == 23)
    assert (independent[100], independent[1000]) == (True, True)
    assert not independent[200]


def test_what_changed_elsewhere_and_has_come_is_not_asked_for_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica of home's fresh checkpoint that was handed over: its pages are at home, a round
    trip away each."""
    changed = bench.blob(Run("disk0", 200, 10), Run("disk0", 700, 1))
    pages = bench.home.import_bytes(encode_page_changes({}, {"disk0": bench.volume.root}))
    prefetcher = Prefetcher(bench.cache, bench.fetcher, None, changed, pages)
    below = bench.source.below
    asked: list[ChunkRef] = []

    def note(places: Sequence[PageRange], *rest: Any) -> bytes:
        asked.extend(place.page for place in places)
        return below(places, *rest)

    monkeypatch.setattr(bench.source, "below", note)
    prefetcher.start({"disk0": bench.volume})
    assert eventually(lambda: prefetcher.independent)
    prefetcher.join()
    assert bench.present() == 11
    assert bench.volume.root.ref not in asked
    assert pages_missing(bench.cache, bench.volume.root, [200, 700]) == []


def test_the_working_set_is_brought_and_nothing_else(bench: Bench) -> None:
    bench.prefetch(bench.blob(Run("disk0", 200, 10), Run("disk0", 0, 5), Run("disk0", 203, 2)))
    assert bench.present() == 15
    for number in (*range(200, 210), *range(5)):
        assert bench.content_here(number) == content(Run("disk0", number, 1))


def test_what_the_cache_has_of_a_frame_is_not_fetched_again(bench: Bench, tmp_path: Path) -> None:
    """Of 64 blocks all but one are in the cache: that one comes alone. Then nothing comes."""
    blob = bench.blob(Run("disk0", 256, 64))
    bench.fetcher.ahead([(bench.volume, 256, 63)])
    for name, most in (("second", 10), ("third", 0)):
        (tmp_path / name).mkdir()
        again = create_volume(tmp_path / name, "disk0", bench.volume.root)
        before = sum(bench.source.asked) + sum(bench.source.places)
        prefetcher = bench.prefetcher(blob)
        prefetcher.start({"disk0": again})
        prefetcher.join()
        assert again.map.count(BlockState.PACKED) == 64
        assert sum(bench.source.asked) + sum(bench.source.places) - before <= most
        again.remove()


def test_only_the_other_half_is_fetched_where_half_came_with_another_table(bench: Bench) -> None:
    """A later boot of an image: of each frame the cache has every other block, and no page."""
    blob = bench.blob(Run("disk0", 0, 512))
    bench.cached(range(0, 512, 2))
    bench.prefetch(blob)
    assert bench.present() == 512
    for number in range(512):
        assert bench.content_here(number) == content(Run("disk0", number, 1))
    directory, names, pages = 1, -(-512 * 52 // BLOCK_SIZE), 12
    assert 256 * RECORD <= bench.fetched <= (256 + directory + names + pages) * RECORD
    assert not bench.knows_the_table()


def test_one_block_that_changed_brings_one_block(bench: Bench) -> None:
    blob = bench.blob(Run("disk0", 0, 512))
    bench.cached(number for number in range(512) if number != 300)
    bench.prefetch(blob)
    assert bench.present() == 512
    directory, names, pages = 1, -(-512 * 52 // BLOCK_SIZE), 12
    assert bench.fetched <= (1 + directory + names + pages) * RECORD


def test_a_cache_that_has_little_of_a_frame_gets_it_whole(bench: Bench) -> None:
    blob = bench.blob(Run("disk0", 0, 256))
    bench.cached(range(60))
    bench.prefetch(blob)
    assert bench.present() == 256
    alone = b"".join(name_blocks(content(Run("disk0", n, 1))) for n in range(60, 256))
    assert sum(bench.source.asked) + sum(bench.source.places) >= 256
    assert bench.source.fetched.isdisjoint(split_refs(alone))


def test_an_empty_cache_does_not_pay_for_names(bench: Bench) -> None:
    blob = bench.blob(Run("disk0", 0, 512))
    bench.prefetch(blob)
    assert bench.present() == 512
    assert not any(bench.names_here(blob))


@pytest.mark.parametrize(("known", "read"), [(0, 4), (300, 8)])
def test_names_are_read_as_far_as_the_cache_knows_them(bench: Bench, known: int, read: int) -> None:
    """A cache that had other images knows what a common base has, which is touched first: a piece
    that it hardly knows is the last one. The first piece has 315 names in 4 blocks."""
    blob = bench.blob(Run("disk0", 0, BLOCKS))
    bench.cached(range(known))
    bench.cache.put(noise(2, 64))
    bench.prefetch(blob)
    assert bench.present() == BLOCKS
    assert bench.names_here(blob).count(True) == read
    for number in range(BLOCKS):
        assert bench.content_here(number) == content(Run("disk0", number, 1))


@pytest.mark.parametrize("known", [BLOCKS - 1, 1300])
def test_a_miss_reads_the_names_of_its_own_frame_alone(bench: Bench, known: int) -> None:
    """The stream has not read any, as operations go before it. It reads them later, also where the
    cache knows nothing of the frame of the miss."""
    bench.source.gives_way = threading.Event()
    blob = bench.blob(Run("disk0", 0, BLOCKS))
    bench.cached(range(known))
    prefetcher = bench.prefetcher(blob)
    prefetcher.start({"disk0": bench.volume})
    prefetcher.resolve(bench.volume, BLOCKS - 1, 1)
    assert bench.volume.map.entry(BLOCKS - 1).state is BlockState.PACKED
    here = bench.names_here(blob)
    assert 0 < here.count(True) <= 5
    assert here[-1]
    bench.source.gives_way.set()
    prefetcher.join()
    assert bench.present() == BLOCKS
    assert all(bench.names_here(blob))


def test_an_old_working_set_without_names_comes_whole(bench: Bench) -> None:
    runs = [Run("disk0", 0, 100)]
    blob = bench.home.import_bytes(
        encode_working_set([runs], content, version=WorkingSetVersion.NAMELESS)
    )
    bench.cached(range(0, 100, 2))
    bench.prefetch(blob)
    assert [bench.content_here(n) for n in range(100)] == [
        content(Run("disk0", n, 1)) for n in range(100)
    ]
    assert not bench.knows_the_table()


def test_frames_come_whole_where_a_stick_has_nothing_but_them(bench: Bench, tmp_path: Path) -> None:
    """A stick with a part of the state, and home far away: of six frames, one for each thread may
    have begun before that is known."""
    blob = bench.blob(Run("disk0", 0, BLOCKS))
    bench.cached(range(0, BLOCKS, 2))
    stick, far = Store.create(tmp_path / "stick"), StoreSource("home", bench.home)
    stick.admit(bench.home.records(bench.home.reachable([blob])))
    bench.fetcher = Fetcher(bench.cache, [StoreSource("media", stick), far], 8)
    bench.prefetch(blob)
    assert bench.present() == BLOCKS
    lacking = name_blocks(b"".join(content(Run("disk0", n, 1)) for n in range(1, BLOCKS, 2)))
    assert 0 < len(far.fetched.intersection(split_refs(lacking))) <= 3 * 128
    bench.fetcher.close()


def test_names_that_nobody_has_cost_a_little_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames have the blocks all the same."""
    monkeypatch.setattr("surrogate.prefetch.prefetcher.ALONE_SECONDS", 0.5)
    blob = bench.blob(Run("disk0", 0, 512))
    bench.cached(range(0, 512, 2))
    data = bytearray(bench.home.read(blob))
    offset, _ = bench.names_at(blob)
    for number in range(1, 512, 2):
        at = offset + 52 * number
        data[at : at + 52] = random.Random(number).randbytes(52)
    prefetcher = bench.prefetcher(bench.home.import_bytes(data))
    prefetcher.start({"disk0": bench.volume})
    assert eventually(lambda: prefetcher.done)
    assert bench.present() == 512
    for number in range(512):
        assert bench.content_here(number) == content(Run("disk0", number, 1))


def test_what_changed_elsewhere_is_not_taken_from_the_cache_by_its_old_name(bench: Bench) -> None:
    blob = bench.blob(Run("disk0", 0, 64))
    new = noise(9, 1)
    changed = bench.home.import_bytes(encode_working_set([[Run("disk0", 7, 1)]], lambda run: new))
    bench.cached(range(64))
    prefetcher = Prefetcher(bench.cache, bench.fetcher, blob, changed)
    prefetcher.start({"disk0": bench.volume})
    assert eventually(lambda: bench.present() == 64)
    assert bench.content_here(7) == new
    assert bench.content_here(8) == content(Run("disk0", 8, 1))


def test_of_a_disk_that_lives_use_differently_only_first_operations_are_streamed(
    bench: Bench,
) -> None:
    """Two lives: 5 blocks that both resume with, 16 later on, of which 8 are the same."""
    profile = Profile()
    for first in (200, 208):
        phases = {RESUME: (0, 5), STEADY: (first, 16), IDLE: (first + 300, 8)}
        life = [Access(0.0, name, "disk0", *run) for name, run in phases.items()]
        profile = observed(profile, life, 0.0)
    blob = bench.home.import_bytes(encode_working_set(profile.foreseen(), content))
    bench.prefetch(blob)
    assert bench.present() == 5
    assert all(bench.volume.map.entry(n).state is BlockState.PACKED for n in range(5))


def test_what_the_machine_never_touches_came_in_vain(bench: Bench) -> None:
    bench.volume.map.touch(0)
    bench.prefetch(bench.blob(Run("disk0", 0, 10)))
    bench.volume.map.touch(4, 3)
    assert bench.volume.map.foresight() == (4, 9, 3)


def test_no_table_page_of_the_volume_is_needed(bench: Bench) -> None:
    bench.prefetch(bench.blob(Run("disk0", 0, BLOCKS)))
    assert bench.present() == BLOCKS
    assert not bench.knows_the_table()


def test_it_comes_in_small_requests(bench: Bench) -> None:
    bench.prefetch(bench.blob(Run("disk0", 0, BLOCKS)))
    assert bench.present() == BLOCKS
    assert max(bench.source.asked) * BLOCK_SIZE <= ASIDE_BYTES


def test_a_block_that_was_written_meanwhile_stays(bench: Bench) -> None:
    bench.volume.map.mark_dirty(7)
    bench.prefetch(bench.blob(Run("disk0", 0, 20)))
    assert bench.volume.map.entry(7).state is BlockState.DIRTY
    assert bench.present() == 19


def test_a_miss_of_a_block_that_is_coming_waits_for_it(bench: Bench) -> None:
    bench.source.silent = threading.Event()
    prefetcher = bench.prefetcher(bench.blob(Run("disk0", 0, 100)))
    prefetcher.start({"disk0": bench.volume})
    miss = threading.Thread(target=prefetcher.resolve, args=(bench.volume, 50, 2))
    miss.start()
    miss.join(0.2)
    assert miss.is_alive()
    bench.source.silent.set()
    miss.join(60.0)
    assert bench.volume.map.entry(50).state is BlockState.PACKED
    assert not bench.knows_the_table()


def test_a_miss_of_another_block_is_fetched(bench: Bench) -> None:
    prefetcher = bench.prefetcher(bench.blob(Run("disk0", 0, 100)))
    prefetcher.start({"disk0": bench.volume})
    prefetcher.resolve(bench.volume, 150, 1)
    assert bench.content_here(150) == content(Run("disk0", 150, 1))
    prefetcher.join()


def test_the_frame_of_a_miss_comes_next(bench: Bench) -> None:
    """Frames are fetched one request at a time: that of the miss overtakes all but those that are
    under way."""
    gate = threading.Semaphore(0)
    spans: list[int] = []

    def spoil(records: bytes) -> bytes:
        gate.acquire()
        spans.append(bench.present())
        return records

    blob = bench.blob(Run("disk0", 0, BLOCKS))
    bench.source.spoil = spoil
    prefetcher = bench.prefetcher(blob)
    prefetcher.start({"disk0": bench.volume})
    last = BLOCKS - 1
    miss = threading.Thread(target=prefetcher.resolve, args=(bench.volume, last, 1))
    miss.start()
    while miss.is_alive():
        gate.release()
        miss.join(0.01)
    assert bench.volume.map.entry(last).state is BlockState.PACKED
    assert bench.volume.map.entry(last - 300).state is BlockState.ABSENT
    for _ in range(500):
        gate.release()
    prefetcher.join()
    assert bench.present() == BLOCKS


def test_the_frame_of_a_miss_is_as_urgent_as_the_miss(bench: Bench) -> None:
    """A request for what is fetched ahead gives way to operations, and the machine that stands
    still for this frame may be what an operation waits for."""
    bench.source.gives_way = threading.Event()
    prefetcher = bench.prefetcher(bench.blob(Run("disk0", 0, BLOCKS)))
    prefetcher.start({"disk0": bench.volume})
    last = BLOCKS - 1
    miss = threading.Thread(target=prefetcher.resolve, args=(bench.volume, last, 1))
    miss.start()
    miss.join(20.0)
    assert bench.volume.map.entry(last).state is BlockState.PACKED
    assert bench.volume.map.entry(0).state is BlockState.ABSENT
    bench.source.gives_way.set()
    prefetcher.join()


def test_it_says_what_a_block_of_the_stream_waits_for(bench: Bench) -> None:
    bench.source.gives_way = threading.Event()
    prefetcher = bench.prefetcher(bench.blob(Run("disk0", 0, BLOCKS)))
    prefetcher.start({"disk0": bench.volume})
    prefetcher.resolve(bench.volume, BLOCKS - 1, 1)
    assert prefetcher.coming(("disk0", BLOCKS - 1)) is None
    assert eventually(lambda: prefetcher.coming(("disk0", 0)) is PendingBlock.UNDER_WAY)
    assert prefetcher.coming(("disk0", BLOCKS // 2 + 256)) is PendingBlock.LATER
    bench.source.gives_way.set()
    prefetcher.join()
    assert prefetcher.coming(("disk0", 0)) is None


def test_a_miss_does_not_wait_for_a_stream_that_ended_early(bench: Bench) -> None:
    blob = bench.blob(Run("disk0", 0, 100))
    frames = bench.home.read(blob)
    broken = bench.home.import_bytes(frames[:BLOCK_SIZE] + bytes(len(frames) - BLOCK_SIZE))
    prefetcher = bench.prefetcher(broken)
    prefetcher.start({"disk0": bench.volume})
    prefetcher.resolve(bench.volume, 50, 1)
    assert bench.content_here(50) == content(Run("disk0", 50, 1))
    prefetcher.join()


@pytest.mark.parametrize("from_block", [0, 1], ids=["the directory", "a frame"])
def test_a_miss_does_not_wait_for_a_working_set_that_nobody_has(
    bench: Bench, from_block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stick with a bad sector there, and home out of reach: the block is in its volume, too."""
    monkeypatch.setattr("surrogate.prefetch.prefetcher.MISS_SECONDS", 0.5)
    blob = bench.blob(Run("disk0", 0, 100))
    lost = {
        name_blocks(bench.home.read(blob, start, BLOCK_SIZE).ljust(BLOCK_SIZE, b"\0"))
        for start in range(from_block * BLOCK_SIZE, blob.size, BLOCK_SIZE)
    }

    refs = split_refs(bench.home.reachable([blob, bench.volume.root]))
    bench.source.store = Store.create(tmp_path / "stick")
    bench.source.store.admit(bench.home.records(b"".join(ref for ref in refs if ref not in lost)))
    prefetcher = bench.prefetcher(blob)
    prefetcher.start({"disk0": bench.volume})
    miss = threading.Thread(target=prefetcher.resolve, args=(bench.volume, 50, 1), daemon=True)
    miss.start()
    miss.join(20.0)
    assert bench.content_here(50) == content(Run("disk0", 50, 1))


HEADER = struct.Struct("<4sBBHII")
DISK = b"\5disk0"


def one_run(size: int, *run: int, version: int = 2) -> bytes:
    """A directory with one frame of one run."""
    body = DISK + struct.pack("<IH", size, 1) + struct.pack("<BIH", *run)
    return HEADER.pack(b"SATW", version, 1, 0, HEADER.size + len(body), 1) + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SATW",
        b"nonsense" * 500,
        HEADER.pack(b"SATW", 9, 1, 0, 16, 0),
        HEADER.pack(b"SATW", 2, 255, 0, 316, 0) + b"\xff" * 300,
        HEADER.pack(b"SATW", 2, 0, 0, 1 << 20, 0),
        HEADER.pack(b"SATW", 2, 0, 0, 16, 1 << 31),
        one_run(50, 7, 0, 1).ljust(8192, b"\0"),
        one_run(50, 0, BLOCKS, 1).ljust(8192, b"\0"),
        one_run(50, 0, 2**32 - 1, 65535).ljust(8192, b"\0"),
        one_run(50, 0, 0, 0).ljust(8192, b"\0"),
        one_run(50, 0, 0, 1),
        one_run(50, 0, 0, 1).ljust(8192, b"\0"),
        one_run(50, 0, 0, 1).ljust(8192, b"\xff"),
        one_run(2**32 - 1, 0, 0, 1).ljust(8192, b"\xff"),
        one_run(50, 0, 0, 1, version=3).ljust(8192, b"\xff"),
        one_run(50, 0, 0, 200, version=3).ljust(8192, b"\xff"),
        one_run(50, 0, 0, 1, version=3).ljust(12288, b"\xff"),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("held", [0, 100], ids=["empty", "used"])
def test_a_hostile_working_set_is_left_alone(
    bench: Bench, data: bytes, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surrogate.prefetch.prefetcher.ALONE_SECONDS", 0.5)
    bench.cached(range(held))
    bench.prefetch(bench.home.import_bytes(data))
    assert bench.present() == 0


@pytest.mark.parametrize("ref", [ChunkRef(b"\1" * 52), ZERO_REF], ids=["unknown", "zeros"])
def test_a_blob_that_nobody_has_or_that_is_zeros_is_left_alone(bench: Bench, ref: ChunkRef) -> None:
    threading.Timer(0.3, bench.fetcher.close).start()
    bench.prefetch(TableRoot(ref=ref, size=4000))
    assert bench.present() == 0


def test_a_closed_fetcher_ends_it(bench: Bench) -> None:
    bench.source.silent = threading.Event()
    prefetcher = bench.prefetcher(bench.blob(Run("disk0", 0, BLOCKS)))
    prefetcher.start({"disk0": bench.volume})
    bench.fetcher.close()
    prefetcher.join()
    bench.source.silent.set()
    prefetcher.join()
    assert bench.present() == 0


def test_a_map_that_is_closed_meanwhile_ends_it(bench: Bench) -> None:
    bench.source.silent = threading.Event()
    prefetcher = bench.prefetcher(bench.blob(Run("disk0", 0, BLOCKS)))
    prefetcher.start({"disk0": bench.volume})
    time.sleep(0.1)
    bench.volume.map.close()
    bench.source.silent.set()
    prefetcher.join()
    assert not any(thread.name == "prefetch" for thread in threading.enumerate())
