# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Mounts that end at random moments: killed, unmounted, by a power cut; with home or without it.

What is judged is what programs were promised, by what their calls returned, and nothing else is
known of how that is kept (docs/shares.md, "What survives"). A byte at home is right if it is what
the last promised write to it wrote, or what was written there after that, as far as that may have
happened.

Each run has a seed, and `SATCHEL_LOST_WRITES` says how many there are nightly.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.needs import requires
from tests.shares.mount.served import LEASE, Served, World
from tests.waiting import eventually

pytestmark = requires("fuse")

RUNS = 13
NIGHTLY = int(os.environ.get("SATCHEL_LOST_WRITES", "2000"))
MODES = ("sync", "async", "off")
LARGEST = 60_000
AFTER_CUT = 6
"""Calls of programs without home, at most."""

WAIT = 0.3
"""Seconds for which programs and unmounts wait for home."""

HERE = errno.ENOLINK


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

    def __init__(self, world: World, seed: int, mode: str) -> None:
        self._world, self._random = world, random.Random(seed)
        self._mode, self._folder = mode, f"run{seed}"
        self._files: dict[str, Promised] = {}
        self._open: dict[int, tuple[Promised, int]] = {}
        self._synced_journal = 0
        self._cut = False

    def go(self, served: Served) -> Served:
        """served: a mount, which ends. The one after it."""
        self._note_synced()
        folder = served.mountpoint / self._folder
        folder.mkdir()
        cut = self._random.randint(0, 30)
        steps = min(self._random.randint(3, 25), cut + self._random.randint(1, AFTER_CUT))
        for step in range(steps):
            if step == cut:
                self._world.link.cut()
                self._cut = True
            self._step(folder)
        power = self._end(served)
        self._world.link.mend()
        again = self._world.mount(wait=WAIT)
        assert power or not again.status()["conflicts"]
        assert self._world.waits() is None
        assert power or not list(self._world.state.glob("*.damaged"))
        self._judge(power=power)
        for damaged in self._world.state.glob("*.damaged*"):
            shutil.rmtree(damaged)
        return again

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
            assert self._cut
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
            assert self._cut
            promised.wrote(offset, data, returned=False)
            return
        promised.wrote(offset, data[:done], returned=True)

    def _sync(self) -> None:
        descriptor = self._random.choice(list(self._open))
        promised, _ = self._open[descriptor]
        try:
            os.fsync(descriptor)
        except OSError as error:
            assert self._cut
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
        os.close(descriptor)

    def _end(self, served: Served) -> bool:
        """Whether it was a power cut."""
        if not self._cut and self._random.random() < 0.5:
            self._world.link.cut()
            self._cut = True
        end = self._random.choice(("kill", "unmount", "stop", "power"))
        if end in ("kill", "power"):
            served.kill()
        for descriptor in self._open:
            with suppress(OSError):
                os.close(descriptor)
        self._open.clear()
        if end == "unmount":
            served.unmount()
        elif end == "stop":
            served.stop()
        elif end == "power":
            self._lose_unsynced()
        return end == "power"

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
            try:
                served = Run(world, seed, mode).go(served)
            except AssertionError as error:
                raise AssertionError(f"mode {mode}, seed {seed}") from error
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
    in_all_modes(tmp_path, short_path, range(RUNS, RUNS + NIGHTLY // len(MODES)))
