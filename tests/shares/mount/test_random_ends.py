# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Mounts that end at random moments: killed, unmounted, by a power cut or a reboot; between two
calls of programs or amid them; with files open or closed; with home or without it.

What is judged is what programs were promised, by what their calls returned, and nothing else is
known of how that is kept (docs/shares.md, "What survives"). A byte at home is right if it is what
the last promised write to it wrote, or what was written there after that, as far as that may have
happened.

Each run has a seed. The seed's number says which combination of these it is, so that all of them
come equally often; what happens in it is drawn. `SATCHEL_LOST_WRITES` says how many runs there are
nightly, and `SATCHEL_LOST_WRITES_FROM` which seed is their first.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import struct
import subprocess
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import requires
from tests.shares.mount.served import LEASE, Served, World
from tests.waiting import eventually

pytestmark = requires("fuse")

RUNS = 13
NIGHTLY = int(os.environ.get("SATCHEL_LOST_WRITES", "2000"))
FIRST = int(os.environ.get("SATCHEL_LOST_WRITES_FROM", str(RUNS)))
MODES = ("sync", "async", "off")
LARGEST = 60_000
AFTER_CUT = 6
"""Calls of programs without home, at most."""

WAIT = 0.3
"""Seconds for which programs and unmounts wait for home."""

HERE = errno.ENOLINK

AMID_SECONDS = 0.15
"""Within which a cut or an end comes that comes amid calls."""


class Combination(NamedTuple):
    """How a mount ends. link: whether it has home till then; amid: what ends it, and what cuts the
    link, comes while a call of a program is under way."""

    end: str
    link: str
    open: bool
    amid: bool


ENDS = ("kill", "unmount", "stop", "power", "reboot")
LINKS = ("whole", "cut", "cut at the end")
COMBINATIONS = tuple(
    Combination(*each) for each in itertools.product(ENDS, LINKS, (True, False), (True, False))
)
STRIDE = 23
"""Has no divisor with their number in common: neighbours among seeds are far apart there."""


class Promised:
    """What one file may be. must: its content by the writes that count; may: what else may be at
    an offset. synced: how many writes a power cut leaves."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._writes: list[tuple[int, bytes, bool]] = []
        self._synced = 0

    def wrote(self, offset: int, data: bytes, *, returned: bool) -> None:
        self._writes.append((offset, data, returned))

    def synced(self) -> None:
        self._synced = len(self._writes)

    def judge(self, found: bytes, *, power: bool) -> str | None:
        """What is wrong with it. power: only what was synced was promised."""
        must, sure = bytearray(), bytearray()
        may: dict[int, set[int]] = {}
        for turn, (offset, data, returned) in enumerate(self._writes):
            end = offset + len(data)
            for content in (must, sure):
                content.extend(bytes(max(0, end - len(content))))
            if returned and (not power or turn < self._synced):
                must[offset:end], sure[offset:end] = data, b"\1" * len(data)
                for place in range(offset, end):
                    may.pop(place, None)
            else:
                for place, byte in enumerate(data, offset):
                    may.setdefault(place, set()).add(byte)
        promised = sure.rfind(b"\1") + 1
        if len(found) < promised:
            return f"{self.name} has {len(found)} bytes of {promised}"
        for place, byte in enumerate(found):
            wanted = must[place] if place < len(must) else None
            if byte != wanted and byte not in may.get(place, ()):
                return f"{self.name} has {byte} at {place}, which was to be {wanted}"
        return None


class Run:
    """One mount and its end."""

    def __init__(self, world: World, seed: int) -> None:
        self._world, self._random = world, random.Random(seed)
        self._folder = f"run{seed}"
        self.how = COMBINATIONS[seed * STRIDE % len(COMBINATIONS)]
        self._files: dict[str, Promised] = {}
        self._open: dict[int, tuple[Promised, int]] = {}
        self._synced_journal = 0
        self._cut = False
        self._ending = False

    def go(self, served: Served) -> Served:
        """served: a mount, which ends. The one after it."""
        self._note_synced()
        folder = served.mountpoint / self._folder
        folder.mkdir()
        cut = self._random.randint(0, 30) if self.how.link == "cut" else 99
        steps = min(self._random.randint(3, 25), cut + self._random.randint(1, AFTER_CUT))
        for step in range(steps):
            if step == cut:
                self._lose_home(folder)
            self._step(folder)
        self._end(served, folder)
        self._world.link.mend()
        again = self._world.mount(wait=WAIT)
        power = self.how.end == "power"
        assert power or not again.status()["conflicts"]
        assert self._world.waits() is None
        assert power or not list(self._world.state.glob("*.damaged"))
        self._judge(power=power)
        for damaged in self._world.state.glob("*.damaged*"):
            shutil.rmtree(damaged)
        return again

    def _amid(self, act: Callable[[], object], folder: Path) -> None:
        """Do that: at a random moment while programs go on, or now."""
        if not self.how.amid:
            act()
            return
        over = threading.Event()

        def do() -> None:
            over.wait(moment)
            try:
                act()
            finally:
                over.set()

        moment = self._random.uniform(0, AMID_SECONDS)
        thread = threading.Thread(target=do)
        thread.start()
        for _ in range(AFTER_CUT):
            if over.is_set():
                break
            self._step(folder)
        thread.join()

    def _lose_home(self, folder: Path) -> None:
        self._cut = True
        self._amid(self._world.link.cut, folder)

    def _step(self, folder: Path) -> None:
        choice = self._random.random()
        # Without home most of these wait, and fail.
        makes = 0.05 if self._cut else 0.25
        if not self._open or choice < makes:
            self._make(folder)
        elif choice < 0.75:
            self._write()
        elif choice < 0.85:
            self._sync()
        else:
            self._close()

    def _make(self, folder: Path) -> None:
        name = self._random.choice(("a", "b", "c", "d", "e", "f"))
        try:
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:
            assert self._cut or self._ending
            return
        promised = self._files.setdefault(name, Promised(name))
        self._open[descriptor] = promised, 0

    def _write(self) -> None:
        descriptor = self._random.choice(list(self._open))
        promised, _ = self._open[descriptor]
        offset, size = self._random.randrange(LARGEST), self._random.randint(1, LARGEST)
        data = self._random.randbytes(size)
        try:
            done = os.pwrite(descriptor, data, offset)
        except OSError:
            assert self._cut or self._ending
            promised.wrote(offset, data, returned=False)
            return
        promised.wrote(offset, data[:done], returned=True)

    def _sync(self) -> None:
        descriptor = self._random.choice(list(self._open))
        promised, _ = self._open[descriptor]
        try:
            os.fsync(descriptor)
        except OSError as error:
            assert self._cut or self._ending
            if error.errno != HERE:
                return
        promised.synced()
        self._note_synced()

    def _note_synced(self) -> None:
        (path,) = self._world.state.glob("*-*/journal")
        self._synced_journal = path.stat().st_size

    def _close(self) -> None:
        descriptor = self._random.choice(list(self._open))
        del self._open[descriptor]
        try:
            os.close(descriptor)
        except OSError:
            assert self._cut or self._ending

    def _close_all(self) -> None:
        while self._open:
            self._close()

    def _end(self, served: Served, folder: Path) -> None:
        if self.how.link == "cut at the end":
            self._lose_home(folder)
        if not self.how.open:
            self._close_all()
        self._ending = True
        end = self.how.end
        if end in ("kill", "power"):
            self._amid(served.kill, folder)
        elif end == "unmount" and not (self.how.open or self.how.amid):
            served.unmount()
        elif end == "unmount":  # lazily: it is over when the last file is closed
            self._amid(lambda: unmount_lazily(served), folder)
        else:
            self._amid(served.process.terminate, folder)
        self._close_all()
        served.ended()
        if end == "power":
            self._lose_unsynced()
        elif end == "reboot":
            self._begin_another_boot()

    def _begin_another_boot(self) -> None:
        """All that was written is on the disk."""
        for path in self._world.state.glob("*-*/journal"):
            path.write_bytes(another_boot(path.read_bytes()))

    def _lose_unsynced(self) -> None:
        """As a disk might be after a power cut: another boot, records only as far as they were
        synced, and what was not synced is there, or not, or in part."""
        for folder in self._world.state.glob("*-*"):
            records = (folder / "journal").read_bytes()
            end = self._random.randint(self._synced_journal, len(records))
            (folder / "journal").write_bytes(another_boot(records[:end]))
            for path in list((folder / "blocks").iterdir()):
                choice = self._random.random()
                if choice < 0.3:
                    path.unlink()
                elif choice < 0.6:
                    os.truncate(path, self._random.randint(0, path.stat().st_size))

    def _judge(self, *, power: bool) -> None:
        """What a node logged and home has not in the file yet is there when its lease is over."""
        root = self._world.root / self._folder

        def wrong() -> list[str]:
            found = []
            for name, promised in self._files.items():
                path = root / name
                content = path.read_bytes() if path.exists() else b""
                found.append(promised.judge(content, power=power))
            return [each for each in found if each is not None]

        eventually(lambda: not wrong(), 3 * LEASE)
        assert not wrong(), wrong()


def unmount_lazily(served: Served) -> None:
    subprocess.run(["fusermount3", "-u", "-z", str(served.mountpoint)], check=True)


def another_boot(records: bytes) -> bytes:
    """The first record says which boot it was."""
    (length,) = struct.unpack_from("<I", records, 20)
    place = 24 + 32
    data = records[place : place + length]
    at = data.index(b'"boot": "') + 9
    changed = data[:at] + b"00000000" + data[at + 8 :]
    rest = struct.pack("<I", length) + records[24:place] + changed
    return records[:16] + struct.pack("<I", zlib.crc32(rest)) + rest + records[place + length :]


def runs(folder: Path, short: Path, mode: str, seeds: range) -> None:
    world = World(folder, short, log=mode)
    try:
        served = world.mount(wait=WAIT)
        for seed in seeds:
            run = Run(world, seed)
            try:
                served = run.go(served)
            except Exception as error:
                raise AssertionError(f"mode {mode}, seed {seed}: {run.how}") from error
    finally:
        world.close()


def in_all_modes(folder: Path, short: Path, seeds: range) -> None:
    """At once: most of it waits."""
    with ThreadPoolExecutor(len(MODES)) as threads:
        going = []
        for mode in MODES:
            places = folder / mode, short / mode
            for place in places:
                place.mkdir()
            going.append(threads.submit(runs, *places, mode, seeds))
        for each in going:
            each.result()


def test_nothing_that_was_promised_is_lost(tmp_path: Path, short_path: Path) -> None:
    in_all_modes(tmp_path, short_path, range(RUNS))


@pytest.mark.nightly
def test_nothing_is_lost_in_thousands_of_runs(tmp_path: Path, short_path: Path) -> None:
    count = -(-NIGHTLY // len(MODES))
    in_all_modes(tmp_path, short_path, range(FIRST, FIRST + count))


def test_seeds_that_follow_each_other_are_all_combinations() -> None:
    count = len(COMBINATIONS)
    assert len({COMBINATIONS[seed * STRIDE % count] for seed in range(count)}) == count
