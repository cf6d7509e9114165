# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A medium that gets a newer checkpoint has the old one or the new one, whole, whenever its writer
dies; and only what differs is asked of home."""

import dataclasses
import multiprocessing
import random
import shutil
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot, split_refs
from images import ContractSpec, Manifest
from media import Media, Refresher, SignedManifest, checkpoints_on, write_checkpoints
from replica import RESUME, Access, Profile, Run, encode_delta, encode_profile, observed
from satchel.errors import StateError
from satchel.ids import BLOCK_SIZE, OperationNumber
from satchel.timestamps import timestamp_now
from tests.scripted import SPEC

BLOCKS = SPEC.memory_bytes // BLOCK_SIZE
KILLS = 12

FORKS = multiprocessing.get_context("fork")
"""A process begins at once, with what is loaded here."""


class Given:
    """A home's store with two states of one machine, and a medium with the first of them.
    foreseen: blocks of its memory that go with either, in a working set."""

    def __init__(self, folder: Path, foreseen: Sequence[int] = ()) -> None:
        self.folder = folder
        self.luck = random.Random(8)
        self.store = Store.create(folder / "store")
        accesses = [Access(float(n), RESUME, "ram", block) for n, block in enumerate(foreseen)]
        self.profile = observed(Profile(), accesses, 1e9)
        self.memory = bytearray(self.luck.randbytes(SPEC.memory_bytes))
        self.disk = self.store.import_bytes(self.luck.randbytes(1 << 20))
        self.changed = sorted(self.luck.sample(range(BLOCKS), 150))
        self.first = self._checkpoint(1, b"first")
        for number in self.changed:
            start = number * BLOCK_SIZE
            self.memory[start : start + BLOCK_SIZE] = self.luck.randbytes(BLOCK_SIZE)
        self.second = self._checkpoint(2, b"second")
        self.stick = folder / "stick"
        self.stick.mkdir()
        with Media.init(self.stick) as media:
            write_checkpoints(self.store, media, [self.first])
        self.asked = 0

    def delta(self) -> bytes:
        """From the first state to the second."""

        runs = [Run("ram", number, 1) for number in self.changed]
        return encode_delta(b"second", runs, self.read)

    def read(self, run: Run) -> bytes:
        """Of the memory as it is now."""
        start = run.first * BLOCK_SIZE
        return bytes(self.memory[start : start + run.count * BLOCK_SIZE])

    def fetch(self, refs: bytes) -> bytes:
        """As home would answer."""
        self.asked += len(split_refs(refs))
        return self.store.records(refs)

    def _checkpoint(self, operation: int, device: bytes) -> SignedManifest:
        state = self.store.import_bytes(device)
        memory = self.store.import_bytes(bytes(self.memory))
        made = [encode_profile(self.profile), self.profile.working_set(self.read)]
        learnt = [self.store.import_bytes(blob) for blob in made if self.profile.runs]
        manifest = Manifest(
            service="notes",
            parent=None,
            created=timestamp_now(),
            operation=OperationNumber(operation),
            machine=SPEC.to_json(),
            contract=ContractSpec(port=80),
            device_state=state,
            volumes={"ram": memory, "disk0": self.disk},
            profile=learnt[0] if learnt else None,
            working_set=learnt[1] if learnt else None,
        )
        return SignedManifest(manifest, b"signature")


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(tmp_path)


def whole(stick: Path) -> list[int]:
    """The operations of the checkpoints of the newest generation; all of each is there, to the
    last byte."""
    with Media.open(stick) as media:
        found = []
        for checkpoint in checkpoints_on(media):
            assert checkpoint.whole
            manifest = Manifest.from_bytes(media.signed(checkpoint)[0])
            assert media.missing(*manifest.roots()) == b""
            found.append(int(manifest.operation))
        report = media.verify()
        assert not report.bad
        assert not report.damaged
        return found


def test_only_what_differs_is_asked_of_home(given: Given) -> None:
    with Media.open(given.stick) as media:
        refresher = Refresher(media, "notes", given.folder / "came", given.fetch)
        written = refresher.bring(given.second)
        assert 150 <= given.asked <= 150 + 64 + 10
        assert written.media_bytes < 150 * 2 * BLOCK_SIZE
        given.asked = 0
        assert refresher.bring(given.second).media_bytes == 0
    assert given.asked == 0
    assert whole(given.stick) == [2]


FORESEEN = range(0, BLOCKS, 3)


def test_a_working_set_is_made_here_and_not_asked_of_home(tmp_path: Path) -> None:
    given = Given(tmp_path, FORESEEN)
    outdated = set(FORESEEN) & set(given.changed)
    assert outdated
    with Media.open(given.stick) as media:
        Refresher(media, "notes", tmp_path / "came", given.fetch).bring(given.second)
    assert 150 <= given.asked <= 150 + 64 + 10
    assert whole(given.stick) == [2]


def test_a_working_set_that_comes_out_otherwise_here_is_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, FORESEEN)
    monkeypatch.setattr(Profile, "working_set", lambda profile, read: b"another liblzma's")
    with Media.open(given.stick) as media:
        Refresher(media, "notes", tmp_path / "came", given.fetch).bring(given.second)
    assert given.asked > 150 + 64 + 10
    assert whole(given.stick) == [2]


def test_what_went_through_the_client_is_not_asked_of_home(given: Given) -> None:
    with Media.open(given.stick) as media:
        Refresher(media, "notes", given.folder / "came", given.fetch).bring(
            given.second, [given.delta()]
        )
    assert given.asked == 0
    assert whole(given.stick) == [2]


def test_a_delta_of_something_else_does_no_harm(given: Given) -> None:
    other = encode_delta(b"other", [Run("ram", 3, 1)], lambda _: bytes(BLOCK_SIZE))
    with Media.open(given.stick) as media:
        Refresher(media, "notes", given.folder / "came", given.fetch).bring(
            given.second, [b"no delta", other]
        )
    assert given.asked > 150
    assert whole(given.stick) == [2]


def test_a_link_that_breaks_costs_nothing_of_what_has_come(given: Given) -> None:
    def breaks(refs: bytes) -> bytes:
        if given.asked > 100:
            raise StateError("the link is broken")
        return given.fetch(refs)

    with Media.open(given.stick) as media:
        with pytest.raises(StateError):
            Refresher(media, "notes", given.folder / "came", breaks).bring(given.second)
        assert whole(given.stick) == [1]
        before, given.asked = given.asked, 0
        Refresher(media, "notes", given.folder / "came", given.fetch).bring(given.second)
    assert before + given.asked <= 150 + 64 + 10 + 64
    assert given.asked < 150
    assert whole(given.stick) == [2]


def test_a_replica_that_runs_from_an_older_state_finds_it_on_the_medium(given: Given) -> None:
    third = SignedManifest(
        dataclasses.replace(given.second.manifest, operation=OperationNumber(3)), b"signature"
    )
    with Media.open(given.stick) as media:
        refresher = Refresher(media, "notes", given.folder / "came", given.fetch)
        for state in (given.second, third):
            refresher.bring(state, in_use=[given.first.manifest])
        assert media.missing(*given.first.manifest.roots()) == b""
        assert media.missing(*given.second.manifest.roots()) == b""


def test_a_medium_without_a_checkpoint_gets_none(given: Given) -> None:
    empty = given.folder / "empty"
    empty.mkdir()
    with Media.init(empty) as media, pytest.raises(StateError, match="has no checkpoint"):
        Refresher(media, "notes", given.folder / "came", given.fetch).bring(given.second)


def write(given: Given, stick: Path, told: Connection) -> None:
    """Bring the second state onto a stick, and say when it begins and when it is done."""
    came = stick.with_suffix(".came")
    with Store.open_to_read(given.folder / "store") as home, Media.open(stick) as media:
        refresher = Refresher(media, "notes", came, home.records)
        told.send("begun")
        refresher.bring(given.second)
        told.send("done")
        told.poll(None)


def writes(given: Given, stick: Path, seconds: float | None) -> float:
    """A process of its own does that, and is killed after so long, or when it is done; how long it
    took until then."""
    here, there = multiprocessing.Pipe()
    process = FORKS.Process(target=write, args=(given, stick, there), daemon=True)
    process.start()
    try:
        assert here.recv() == "begun"
        began = time.monotonic()
        if seconds is None:
            assert here.recv() == "done"
        else:
            time.sleep(seconds)
        return time.monotonic() - began
    finally:
        process.kill()
        process.join()


def test_a_writer_that_is_killed_leaves_the_old_state_or_the_new_one(given: Given) -> None:
    given.store.close()
    sticks = [given.folder / f"stick{number}" for number in range(KILLS + 1)]
    for stick in sticks:
        shutil.copytree(given.stick, stick)
    longest = writes(given, sticks[0], None)
    assert whole(sticks[0]) == [2]
    found = []
    for stick in sticks[1:]:
        writes(given, stick, given.luck.random() * longest)
        found += whole(stick)
        writes(given, stick, None)
        assert whole(stick) == [2]
    print(f"of {KILLS} writers that were killed, {found.count(1)} left the old state")
    assert set(found) <= {1, 2}
    assert 1 in found


def test_a_table_that_is_not_homes_is_not_taken(given: Given) -> None:
    """Whatever a delta says, the medium has what home has signed."""
    ram = given.second.manifest.volumes["ram"]
    assert isinstance(ram, TableRoot)
    with Media.open(given.stick) as media:
        delta = encode_delta(b"second", [Run("ram", 0, 1)], lambda _: b"x" * BLOCK_SIZE)
        Refresher(media, "notes", given.folder / "came", given.fetch).bring(given.second, [delta])
        assert media.missing(ram) == b""
