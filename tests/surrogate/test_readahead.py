# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a profile foresees is there before the machine asks for it; a bad one does no harm."""

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chunkstore import BlockState, TableRoot
from replica import RESUME, Access, Profile, encode_profile, first_of, observed
from satchel.ids import ZERO_REF, ChunkRef
from surrogate import Readahead
from surrogate.fetching.source_state import AHEAD_BYTES
from surrogate.prefetch.window import STEPS
from tests.surrogate.sources import FarVolume
from tests.waiting import eventually
from wire import Priority

BLOCKS = 1536
NOW = 1.8e9
POST = first_of("POST /notes")


def learnt(*blocks: int, phase: str = RESUME) -> Profile:
    accesses = [Access(NOW + n, phase, "disk0", block) for n, block in enumerate(blocks)]
    return observed(Profile(), accesses, NOW)


class Bench(FarVolume):
    """A volume whose blocks are all at home, a cache, and a machine that is at some phase."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, BLOCKS, 1)
        self.phases: list[str] = []
        self.ready = True
        self.made: list[Readahead] = []

    def start(self, profile: Profile | bytes) -> Readahead:
        data = profile if isinstance(profile, bytes) else encode_profile(profile)
        return self.begin(self.home.import_bytes(data))

    def begin(self, blob: TableRoot) -> Readahead:
        made = Readahead(self.fetcher, blob, lambda: self.phases, lambda: self.ready)
        self.made.append(made)
        made.start({"disk0": self.volume})
        return made

    def started(self, profile: Profile) -> Readahead:
        """One that has read its profile."""
        made = self.start(profile)
        assert eventually(lambda: "disk0" in made._told)
        return made

    def here(self) -> set[int]:
        states = (self.volume.map.entry(block).state for block in range(BLOCKS))
        return {n for n, state in enumerate(states) if state is not BlockState.ABSENT}

    def brings(self, *blocks: int) -> bool:
        return eventually(lambda: self.here() == set(blocks))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.fetcher.close()
    for readahead in made.made:
        readahead.close()
    made.volume.remove()


def test_what_follows_a_miss_is_brought(bench: Bench) -> None:
    readahead = bench.started(learnt(3, 500, 501, 90, 1200))
    bench.volume.map.touch(3)
    readahead.look()
    bench.fetcher.resolve(bench.volume, 3, 1)
    assert bench.brings(3, 500, 501, 90, 1200)
    assert bench.source.urgency.count(Priority.DEMAND) <= 1
    bench.volume.map.touch(500, 2)
    assert bench.volume.map.foresight() == (3, 4, 2)


def test_a_touch_of_what_was_brought_leads_on(bench: Bench) -> None:
    """Of a long chain only a window is fetched at first; hits, which ask nobody, lead to the
    rest."""
    chain = [*range(0, BLOCKS, 16)]
    bench.started(learnt(*chain))
    bench.volume.map.touch(0)
    assert eventually(lambda: len(bench.here()) > 8)
    assert len(bench.here()) < len(chain)
    for block in chain:
        assert eventually(lambda block=block: block in bench.here())  # type: ignore[misc]
        bench.volume.map.touch(block)
    assert bench.volume.map.foresight().used == len(chain) - 1


def test_many_runs_come_with_one_request(bench: Bench) -> None:
    bench.started(learnt(3, 500, 501, 90, 1200))
    for block in (10, 100, 510, 1210):  # the table pages above the runs
        bench.fetcher.resolve(bench.volume, block, 1)
    before = len(bench.source.asked), len(bench.source.places)
    bench.volume.map.touch(3)
    assert bench.brings(10, 100, 510, 1210, 3, 500, 501, 90, 1200)
    assert bench.source.asked[before[0] :] == [5]
    assert len(bench.source.places) == before[1]


def test_a_phase_that_begins_is_brought_in_its_order(bench: Bench) -> None:
    bench.started(learnt(7, 700, 300, phase=POST))
    time.sleep(0.2)
    assert bench.here() == set()
    bench.phases = [POST]
    assert bench.brings(7, 700, 300)


def test_it_waits_for_what_goes_before(bench: Bench) -> None:
    bench.ready = False
    readahead = bench.start(learnt(3, 500))
    bench.volume.map.touch(3)
    readahead.look()
    time.sleep(0.3)
    assert (bench.source.asked, bench.source.places) == ([], [])
    bench.ready = True
    assert eventually(lambda: "disk0" in readahead._told)
    bench.volume.map.touch(4)
    assert bench.brings(3, 500)


def test_it_is_of_the_lowest_priority_and_a_miss_does_not_wait_for_it(bench: Bench) -> None:
    bench.started(learnt(3, 500, 90))
    bench.source.gives_way = threading.Event()
    bench.volume.map.touch(3)
    assert eventually(lambda: Priority.BACKGROUND in bench.source.urgency)
    bench.fetcher.resolve(bench.volume, 1000, 1)
    assert bench.here() == {1000}
    bench.source.gives_way.set()
    assert bench.brings(3, 90, 500, 1000)


def test_what_cannot_be_had_for_long_does_not_end_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that is away: when it is back, the machine's next touches lead on."""
    for name, seconds in {
        "prefetch.readahead.PATIENCE_SECONDS": 1.0,
        "fetching.fetcher.PATIENCE_SECONDS": 1.0,
        "fetching.schedule.RETRY_SECONDS": 0.1,
        "fetching.schedule.RETRY_MOST_SECONDS": 0.1,
    }.items():
        monkeypatch.setattr(f"surrogate.{name}", seconds)
    caplog.set_level(logging.INFO)
    bench.started(learnt(3, 500, 90, 800, 1200))
    bench.source.dead = True
    bench.volume.map.touch(3)
    assert eventually(lambda: "cannot be had" in caplog.text)
    bench.source.dead = False
    bench.volume.map.touch(90)
    bench.volume.map.touch(800)
    assert eventually(lambda: 1200 in bench.here())


def test_what_the_machine_has_written_stays(bench: Bench) -> None:
    bench.started(learnt(3, 500, 501))
    bench.volume.map.mark_dirty(500)
    bench.volume.map.touch(3)
    assert bench.brings(3, 500, 501)
    assert bench.volume.map.entry(500).state is BlockState.DIRTY


@pytest.mark.parametrize(
    "data",
    [b"", b"SATP", b"nonsense" * 500, b"SATP\x09" + bytes(40), encode_profile(learnt(5))[:-1]],
    ids=range(5),
)
def test_a_profile_that_is_none_is_ignored_and_said(
    bench: Bench, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench.start(data)
    assert eventually(lambda: "nothing is foreseen" in caplog.text)
    bench.volume.map.touch(3)
    bench.fetcher.resolve(bench.volume, 3, 1)
    assert bench.here() == {3}


def test_a_profile_of_another_volume_is_ignored(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    accesses = [Access(NOW, RESUME, "disk0", BLOCKS)]
    bench.start(observed(Profile(), accesses, NOW))
    assert eventually(lambda: "nothing is foreseen" in caplog.text)


@pytest.mark.parametrize("ref", [ChunkRef(b"\1" * 52), ZERO_REF], ids=["unknown", "zeros"])
def test_a_profile_that_nobody_has_holds_up_nothing(bench: Bench, ref: ChunkRef) -> None:
    readahead = bench.begin(TableRoot(ref=ref, size=4000))
    bench.fetcher.resolve(bench.volume, 3, 1)
    assert bench.here() == {3}
    bench.fetcher.close()
    readahead.close()
    assert not any(thread.name == "readahead" for thread in threading.enumerate())


def test_a_map_that_is_closed_meanwhile_ends_it(bench: Bench) -> None:
    bench.started(learnt(3, 500))
    bench.volume.map.close()
    assert eventually(lambda: not any(t.name == "readahead" for t in threading.enumerate()))


def test_a_request_for_it_may_have_512_kb() -> None:
    assert STEPS[-1].blocks * 4096 == AHEAD_BYTES
