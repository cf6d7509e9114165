# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Three mounts whose programs write one file at the same time, and appends of a node that is lost
in the middle of one."""

from __future__ import annotations

import ctypes
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from shares.node import ROOT, Node
from shares.protocol import BLOCK, FileId, Flush, Message
from tests.leftovers import SHORT_PREFIX
from tests.needs import requires
from tests.shares.node.conftest import Join, NodesHome, watched
from tests.shares.node.mounted import SHARE
from tests.shares.node.test_mounts import Mounts
from tests.waiting import eventually

KEEP_SIZE, PUNCH_HOLE = 1, 2
REACH = 40_000
"""Programs write below this offset, and the blocks in it are few: they are always in the way of
each other."""

ENDS = 15.0
"""Seconds within which the programs end after their last call."""

SIZES = (1, 100, 4096, 8192, 9198, 20_000)
RECORDS = (20, 100, 3000, 9198, 12_000)

libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="module")
def three() -> Iterator[Mounts]:
    """Three mounts for all tests, of a share whose terms each of them sets."""
    with (
        tempfile.TemporaryDirectory(prefix=SHORT_PREFIX) as folder,
        tempfile.TemporaryDirectory(prefix=SHORT_PREFIX) as short,
    ):
        mounts = Mounts(Path(folder), Path(short))
        for _ in range(3):
            mounts.mount(wait=60.0)
        yield mounts
        for process in mounts.processes:
            process.kill()  # also where a program waits for ever
        mounts.close()


# Random calls.


@dataclass
class Call:
    """A call of a program about the bytes from `first` to before `end`. value: each of them after
    it; None: it leaves them as they were. began, ended: times on the one clock of all programs"""

    first: int
    end: int
    value: int | None
    began: float
    ended: float = 0.0


@dataclass
class Program:
    """One at one mount, which makes random calls about two shared files."""

    place: Path
    values: list[int]
    dice: random.Random
    calls: list[Call] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self._play()
        except BaseException as error:  # told by the test, on its own thread
            self.error = error

    def _play(self) -> None:
        file = os.open(self.place / "file", os.O_RDWR | os.O_CREAT, 0o644)
        log = os.open(self.place / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for value in self.values:
            self.dice.choice((self._write, self._write, self._cut, self._allocate))(file, value)
            if self.dice.random() < 0.3:
                self._append(log, value)
            if self.dice.random() < 0.05:
                os.fsync(file)
        for each in (file, log):
            os.fsync(each)
            os.close(each)

    def _act(self, first: int, end: int, value: int | None, act: Callable[[], object]) -> None:
        call = Call(first, end, value, time.monotonic())
        act()
        call.ended = time.monotonic()
        self.calls.append(call)

    def _write(self, file: int, value: int) -> None:
        size = self.dice.choice(SIZES)
        offset = self.dice.choice((0, 100, 300, BLOCK, self.dice.randrange(REACH - size)))
        data = bytes([value]) * size
        self._act(offset, offset + size, value, lambda: os.pwrite(file, data, offset))

    def _cut(self, file: int, _: int) -> None:
        size = self.dice.choice((0, 300, 9000, 30_000))
        self._act(size, REACH, 0, lambda: os.ftruncate(file, size))

    def _allocate(self, file: int, _: int) -> None:
        mode = self.dice.choice((0, KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE))
        size = self.dice.choice(SIZES)
        offset = self.dice.randrange(REACH - size)
        value = 0 if mode & PUNCH_HOLE else None

        def allocate() -> None:
            if libc.fallocate(file, mode, ctypes.c_int64(offset), ctypes.c_int64(size)):
                raise OSError(ctypes.get_errno(), "fallocate")

        self._act(offset, offset + size, value, allocate)

    def _append(self, log: int, value: int) -> None:
        record = b"<%d:" % value + b"x" * self.dice.choice(RECORDS) + b">\n"
        assert os.write(log, record) == len(record)
        self.records.append(record)


def allowed(calls: list[Call], offset: int) -> set[int]:
    """Return the values that the byte may have when all calls have ended. A call that ended before
    another one began has left nothing."""
    about = [c for c in calls if c.first <= offset < c.end and c.value is not None]
    last = max((call.began for call in about), default=0.0)
    return {call.value or 0 for call in about if call.ended >= last} or {0}


def play(mounts: Mounts, name: str, seed: int, writes: int = 40) -> None:
    (mounts.root / name).mkdir()
    places = [process.mountpoint / name for process in mounts.processes]
    assert eventually(lambda: all(place.is_dir() for place in places))
    dice = random.Random(seed)
    programs = [
        Program(place, list(range(1 + n, 1 + 3 * writes, 3)), random.Random(dice.random()))
        for n, place in enumerate(places)
    ]
    threads = [threading.Thread(target=program.run, daemon=True) for program in programs]
    for thread in threads:
        thread.start()
    until = time.monotonic() + ENDS + writes / 4
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a call does not end"
    for program in programs:
        if program.error is not None:
            raise program.error
    judge(mounts, name, programs)


SETTLED_SECONDS = 20.0
"""For home's files to become as long as those of the mounts."""


def judge(mounts: Mounts, name: str, programs: list[Program]) -> None:
    time.sleep(mounts.shares.get(SHARE).record.relaxation)
    folders = [mounts.root / name, *(process.mountpoint / name for process in mounts.processes)]
    content = (folders[1] / "file").read_bytes()
    log = (folders[1] / "log").read_bytes()
    for folder in folders:
        for file, wanted in (("file", content), ("log", log)):
            same = lambda at=folder / file, is_=wanted: at.read_bytes() == is_  # noqa: E731
            assert eventually(same, SETTLED_SECONDS), folder
    calls = [call for program in programs for call in program.calls]
    wrong = [n for n, byte in enumerate(content) if byte not in allowed(calls, n)]
    assert not wrong, (wrong[0], len(wrong), content[wrong[0]], allowed(calls, wrong[0]))
    records = [record for program in programs for record in program.records]
    assert sorted(log.splitlines(keepends=True)) == sorted(records)


TERMS = [
    ("delayed-update", "async", 0.0),
    ("delayed-update", "off", 0.3),
    ("write-invalidate", "sync", 0.0),
    ("write-update", "off", 0.0),
]

ALL_TERMS = [
    (policy, log, relaxation)
    for policy in ("delayed-update", "write-invalidate", "write-update")
    for log in ("sync", "async", "off")
    for relaxation in (0.0, 0.3)
]


def use_terms(mounts: Mounts, policy: str, log: str, relaxation: float) -> None:
    terms = {"policy": policy, "log": log, "relaxation": relaxation}
    mounts.shares.change(SHARE, lambda record: replace(record, **terms))  # type: ignore[arg-type]


@requires("fuse")
@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_random_writers_of_three_mounts_leave_what_posix_allows(
    three: Mounts, terms: tuple[str, str, float]
) -> None:
    use_terms(three, *terms)
    play(three, f"day-{'-'.join(map(str, terms))}", seed=1)


@requires("fuse")
@pytest.mark.nightly
@pytest.mark.parametrize("terms", ALL_TERMS, ids=str)
def test_random_writers_of_three_mounts_for_long(
    three: Mounts, terms: tuple[str, str, float]
) -> None:
    use_terms(three, *terms)
    for seed in range(20):
        play(three, f"{seed}-{'-'.join(map(str, terms))}", seed, writes=80)


# A node that is lost in the middle of an append.


def make(node: Node, content: bytes) -> tuple[FileId, int]:
    entry, handle = node.create(ROOT, b"log", 0o644, os.O_RDWR | os.O_APPEND, 0, 0)
    node.write(handle.number, 0, content)
    return entry.attributes.file, handle.number


def test_the_size_of_an_append_is_not_seen_before_its_bytes(join: Join, home: NodesHome) -> None:
    home.set(log="off")
    one, two, three = join(), join(), join()
    file, first = make(one, b"a\n")
    others = [node.open(file, os.O_RDWR | os.O_APPEND).number for node in (two, three)]
    one.write(first, 0, record := b"b" * 9198 + b"\n")
    assert two.attributes(file, others[0]).size == 2 + len(record)
    watched(one).cut()
    home.lose(watched(one))
    three.write(others[1], 0, b"c\n")
    assert two.read(others[0], 0, 1 << 20) == b"a\n" + record + b"c\n"


@pytest.mark.parametrize("sent", range(3))
def test_a_close_that_is_cut_off_leaves_no_hole(
    join: Join, home: NodesHome, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """Home gets so many messages with content of an append natively made, and no more."""
    one, two = join(wait=0.5), join()
    file, first = make(one, content := b"a" * (5 * BLOCK + 7))
    one.release(first, 0)
    first = one.open(file, os.O_RDWR | os.O_APPEND).number
    one.write(first, 0, record := b"b" * (3 * BLOCK))
    hub, left = watched(one), [sent]
    post = hub.post

    def cut_after(message: Message, *callbacks: Callable[..., None]) -> None:
        if isinstance(message, Flush) and not left[0]:
            return
        left[0] -= isinstance(message, Flush)
        post(message, *callbacks)

    monkeypatch.setattr(hub, "post", cut_after)

    def lose() -> None:
        hub.cut()
        home.lose(hub)

    losing = threading.Timer(0.3, lose)
    losing.start()
    with suppress(OSError):  # home is not reached
        one.release(first, 0)
    losing.join()
    other = two.open(file, os.O_RDWR | os.O_APPEND).number
    two.write(other, 0, b"c\n")
    there = two.read(other, 0, 1 << 20)
    assert there in {content + b"c\n", content + record + b"c\n"}


def test_bytes_that_came_behind_a_gap_do_not_count(join: Join, home: NodesHome) -> None:
    home.set(log="off")
    one, two = join(), join()
    file, first = make(one, b"a\n")
    other = two.open(file, os.O_RDWR | os.O_APPEND).number
    one.write(first, 0, b"b" * 9198 + b"\n")
    home.share.blocks.store(file, 1, b"b" * BLOCK, "one")  # pushed before the block of the end
    watched(one).cut()
    home.lose(watched(one))
    two.write(other, 0, b"c\n")
    assert two.read(other, 0, 1 << 20) == b"a\nc\n"


class Appender(threading.Thread):
    """A program that appends records to a file, which it now and then opens anew. errors: what
    ended it"""

    def __init__(self, path: Path, name: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._path, self._name, self._dice = path, f"{name}", random.Random(seed)
        self.over = threading.Event()
        self.records: list[bytes] = []
        self.error: OSError | None = None

    def run(self) -> None:
        log = -1
        try:
            while not self.over.is_set():
                if log < 0:
                    log = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                begin = f"<{self._name}.{len(self.records)}:".encode()
                record = begin + b"x" * self._dice.choice(RECORDS) + b">\n"
                assert os.write(log, record) == len(record)
                if self._dice.random() < 0.2:
                    os.fsync(log)
                self.records.append(record)
                if self._dice.random() < 0.3:
                    opened, log = log, -1
                    os.close(opened)
        except OSError as error:
            self.error = error


def kill_one(mounts: Mounts, name: str, seed: int) -> None:
    """Three mounts append to one log, and the last one is killed. The others lose nothing, and the
    log has no byte that no program wrote."""
    mounts.mount(wait=60.0)
    victim = mounts.processes.pop()
    places = [process.mountpoint for process in mounts.processes[:2]]
    appenders = [
        Appender(place / name, n, seed * 3 + n)
        for n, place in enumerate([*places, victim.mountpoint])
    ]
    for each in appenders:
        each.start()
    time.sleep(0.1 + random.Random(seed).random() / 2)
    victim.kill()
    victim.close()
    staying = appenders[:2]
    before = [len(each.records) for each in staying]

    def go_on() -> bool:
        both = zip(staying, before, strict=True)
        return all(len(each.records) > number + 2 for each, number in both)

    assert eventually(go_on, 20.0), "an append does not end"
    for each in appenders:
        each.over.set()
        each.join(ENDS)
        assert not each.is_alive()
    assert [each.error for each in staying] == [None, None]
    time.sleep(mounts.shares.get(SHARE).record.relaxation)
    content = (places[0] / name).read_bytes()
    assert (places[1] / name).read_bytes() == content
    assert b"\0" not in content, content.index(0)
    for each in staying:
        assert [content.count(record) for record in each.records] == [1] * len(each.records)


@requires("fuse")
@pytest.mark.parametrize("log", ["async", "off"])
def test_a_mount_that_is_killed_in_an_append_leaves_no_zeros(three: Mounts, log: str) -> None:
    use_terms(three, "delayed-update", log, 0.0)
    kill_one(three, f"killed-{log}", seed=1)


@requires("fuse")
@pytest.mark.nightly
@pytest.mark.parametrize("terms", ALL_TERMS, ids=str)
def test_mounts_that_are_killed_in_appends_leave_no_zeros(
    three: Mounts, terms: tuple[str, str, float]
) -> None:
    use_terms(three, *terms)
    for seed in range(10):
        kill_one(three, f"killed-{seed}-{'-'.join(map(str, terms))}", seed)
