# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A working set is a hint from anybody: a good one helps, a bad one does no harm."""

import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import BlockState, Store, TableRoot
from overlay import Volume, create_volume
from replica import Run, encode_working_set
from satchel.ids import ZERO_REF, ChunkRef
from surrogate.fetch import Fetcher
from surrogate.prefetch import Prefetcher
from tests.chunkstore.content import noise
from tests.surrogate.sources import StoreSource

BLOCKS = 256


class Bench:
    """A volume whose blocks are all at home, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.home = Store.create(folder / "home")
        self.cache = Store.create(folder / "cache")
        path = folder / "disk"
        path.write_bytes(noise(1, BLOCKS))
        self.volume: Volume = create_volume(folder, "disk0", self.home.import_file(path))
        self.source = StoreSource("home", self.home)
        self.fetcher = Fetcher(self.cache, [self.source], 8)

    def prefetch(self, blob: TableRoot) -> None:
        prefetcher = Prefetcher(self.cache, self.fetcher, blob)
        prefetcher.start({"disk0": self.volume})
        prefetcher.join()

    def present(self) -> int:
        return self.volume.map.count(BlockState.PACKED)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.fetcher.close()
    made.volume.remove()


def blob(bench: Bench, *runs: Run) -> TableRoot:
    return bench.home.import_bytes(encode_working_set(list(runs)))


def test_the_working_set_is_brought_and_nothing_else(bench: Bench) -> None:
    bench.prefetch(blob(bench, Run("disk0", 200, 10), Run("disk0", 0, 5), Run("disk0", 203, 2)))
    assert bench.present() == 15


def test_it_comes_in_small_groups(bench: Bench) -> None:
    bench.prefetch(blob(bench, *(Run("disk0", first, 8) for first in range(0, BLOCKS, 8))))
    assert bench.present() == BLOCKS
    assert max(bench.source.asked) <= 96 + 8


RAW = struct.Struct("<4sBBH")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SATW",
        b"nonsense" * 500,
        RAW.pack(b"SATW", 9, 1, 0),
        RAW.pack(b"SATW", 1, 255, 0) + b"\xff" * 300,
        RAW.pack(b"SATW", 1, 1, 0) + b"\5disk0" + struct.pack("<BIH", 7, 0, 1),
        RAW.pack(b"SATW", 1, 1, 0) + b"\5disk0" + struct.pack("<BIH", 0, BLOCKS, 1),
        RAW.pack(b"SATW", 1, 1, 0) + b"\5disk0" + struct.pack("<BIH", 0, 2**32 - 1, 65535),
        RAW.pack(b"SATW", 1, 1, 0) + b"\3ram" + struct.pack("<BIH", 0, 0, 1),
        RAW.pack(b"SATW", 1, 1, 0) + b"\5disk0" + struct.pack("<BIH", 0, 0, 1) * 40000,
    ],
    ids=range(10),
)
def test_a_hostile_working_set_is_left_alone(bench: Bench, data: bytes) -> None:
    bench.prefetch(bench.home.import_bytes(data))
    assert bench.present() == 0


def test_an_empty_run_is_nothing(bench: Bench) -> None:
    bench.prefetch(blob(bench, Run("disk0", 10, 0), Run("disk0", 0, 1)))
    assert bench.present() in (0, 1)


def test_the_same_runs_many_times_are_brought_once(bench: Bench) -> None:
    bench.prefetch(blob(bench, *[Run("disk0", 0, 200)] * 2000))
    assert bench.present() == 200
    assert sum(bench.source.asked) < 300


@pytest.mark.parametrize("ref", [ChunkRef(b"\1" * 52), ZERO_REF], ids=["unknown", "zeros"])
def test_a_blob_that_nobody_has_or_that_is_zeros_is_left_alone(bench: Bench, ref: ChunkRef) -> None:
    threading.Timer(0.3, bench.fetcher.close).start()
    bench.prefetch(TableRoot(ref=ref, size=4000))
    assert bench.present() == 0


def test_a_closed_fetcher_ends_it(bench: Bench) -> None:
    bench.source.silent = threading.Event()
    prefetcher = Prefetcher(bench.cache, bench.fetcher, blob(bench, Run("disk0", 0, BLOCKS)))
    prefetcher.start({"disk0": bench.volume})
    began = time.monotonic()
    bench.fetcher.close()
    prefetcher.join()
    assert time.monotonic() - began < 4.0
    bench.source.silent.set()
    prefetcher.join()
    assert bench.present() == 0


def test_a_map_that_is_closed_meanwhile_ends_it(bench: Bench) -> None:
    bench.source.silent = threading.Event()
    prefetcher = Prefetcher(bench.cache, bench.fetcher, blob(bench, Run("disk0", 0, BLOCKS)))
    prefetcher.start({"disk0": bench.volume})
    time.sleep(0.1)
    bench.volume.map.close()
    bench.source.silent.set()
    prefetcher.join()
    assert not any(thread.name == "prefetch" for thread in threading.enumerate())
