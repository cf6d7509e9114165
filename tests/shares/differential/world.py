# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs played on two mounts of a share and on a plain folder at once, and compared."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from homeserver.shares import ShareRegistry, Shares
from shares.home import ShareRecord
from tests.shares.differential.player import Outcome
from tests.shares.differential.programs import FIRST_MOUNT, WORKERS, Call, Program
from tests.shares.node.mounted import SHARE, MountProcess

LEASE = 2.0
PATIENCE_SECONDS = 20.0
"""Until what was closed has to be in home's folder: how fast that is, is no matter of these tests.
"""

BUFFERS = (1 << 26, 1 << 18)
"""Bytes of the two mounts' buffers: the second one gives blocks up all the time."""

BACKWARDS = 20_000_000
"""Nanoseconds that a time may go back: home's file system takes its times from a coarser clock than
nodes do."""

MODIFIED = "modified"
ANY_TIME = -1
"""In place of when a program began, where times are not compared: a node that writes inside of a
file tells the others when that was with its next fstat, fsync or close (docs/shares.md)."""


class Different(Exception):
    """A program that gives something else on a share than in a folder."""

    def __init__(self, what: str, at: int | None = None) -> None:
        """at: the number of the call, None: after the last one"""
        super().__init__(what)
        self.at = at


class Worker:
    """A process that makes calls below a folder."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.shares.differential.player", "/"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def play(self, name: str, *arguments: Any) -> Outcome:
        assert self.process.stdin and self.process.stdout
        pickle.dump((name, arguments), self.process.stdin)
        self.process.stdin.flush()
        outcome: Outcome = pickle.load(self.process.stdout)
        return outcome

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


class World:
    """A home of one share, two mounts of it, and a folder that knows nothing of shares."""

    def __init__(self, folder: Path, short: Path, **terms: Any) -> None:
        """terms: of the share, as ShareRecord has them."""
        self._folder, self._socket = folder, short / "s"
        self._root, self._plain = folder / "home", folder / "plain"
        for made in (self._root, self._plain):
            made.mkdir()
        self._shares = Shares(ShareRegistry(folder / "shares"), self._socket, LEASE)
        self._shares.add(ShareRecord(SHARE, str(self._root), **terms))
        self._mounts = [self._mount(number) for number in range(len(BUFFERS))]
        self._here = [Worker() for _ in range(WORKERS)]
        self._there = [Worker() for _ in range(WORKERS)]
        self._names = itertools.count()
        self._latest: dict[tuple[bool, str], int] = {}

    def _mount(self, number: int) -> MountProcess:
        place = self._folder / f"mount{number}"
        cache = self._folder / f"cache{number}"
        return MountProcess(self._socket, place, cache, limit=BUFFERS[number])

    def close(self) -> None:
        for worker in (*self._here, *self._there):
            worker.close()
        for mount in self._mounts:
            mount.close()
        self._shares.close()

    def play(self, program: Program) -> None:
        """Raises Different."""
        name = f"p{next(self._names)}"
        self._begin(name)
        began = time.time_ns()
        open_began = began if program.mounts == 1 else ANY_TIME
        for at, call in enumerate(program.calls):
            try:
                self._play(name, call, open_began)
            except Different as different:
                raise Different(f"call {at}, {call}: {different}", at) from None
        self._compare(name, open_began, "with files open")
        for worker in (*self._here, *self._there):
            worker.play("begin", "/")
        self._compare(name, began, "when all is closed")
        self._compare_home(name)
        # Of a program that differs, all stays to be looked at.
        shutil.rmtree(self._mounts[0].mountpoint / name)
        shutil.rmtree(self._plain / name)

    def _place(self, worker: int) -> int:
        return 0 if worker in FIRST_MOUNT else 1

    def _begin(self, name: str) -> None:
        for number in range(WORKERS):
            self._here[number].play("begin", str(self._plain / name))
            mountpoint = self._mounts[self._place(number)].mountpoint
            self._there[number].play("begin", str(mountpoint / name))

    def _play(self, name: str, call: Call, began: int) -> None:
        if call.name == "remount":
            self._remount(name, self._place(call.worker))
            return
        wanted = self._here[call.worker].play(call.name, *call.arguments)
        found = self._there[call.worker].play(call.name, *call.arguments)
        compare(wanted, found, began)

    def _remount(self, name: str, number: int) -> None:
        """What is open there is closed, on both sides."""
        for worker in range(WORKERS):
            if self._place(worker) == number:
                self._here[worker].play("begin", str(self._plain / name))
                self._there[worker].play("begin", "/")
        self._mounts[number].close()
        self._mounts[number] = self._mount(number)
        for worker in range(WORKERS):
            if self._place(worker) == number:
                mountpoint = self._mounts[number].mountpoint
                self._there[worker].play("begin", str(mountpoint / name))

    def _compare(self, name: str, began: int, when: str) -> None:
        _, wanted = self._tree(self._plain / name)
        for mount in self._mounts:
            _, found = self._tree(mount.mountpoint / name)
            compare_trees(wanted, found, began, f"{mount.mountpoint.name}, {when}")

    def _tree(self, folder: Path) -> Outcome:
        worker = self._here[0]
        worker.play("begin", str(folder))
        found = worker.play("tree")
        worker.play("begin", "/")
        if found[0] != "ok":
            raise Different(f"{folder}: {found[1]}")
        return found

    def _compare_home(self, name: str) -> None:
        """What was closed is on its way to home, and has to be there some time. Times are those of
        home's files only when no node has them open, nor keeps them at rest."""
        _, wanted = self._tree(self._plain / name)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                _, found = self._tree(self._root / name)
                return compare_trees(wanted, found, ANY_TIME, "home's folder")
            except Different:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.01)


def compare(wanted: Outcome, found: Outcome, began: int) -> None:
    """What one call gave. began: of the program, as time.time_ns. Raises Different."""
    if wanted[0] != found[0]:
        raise Different(f"a folder gives {short(wanted)}, the mount {short(found)}")
    if isinstance(wanted[1], dict):
        compare_attributes(wanted[1], found[1], began)
    elif wanted[1] != found[1]:
        if isinstance(wanted[1], bytes) and isinstance(found[1], bytes):
            raise Different(where_they_differ(wanted[1], found[1]))
        raise Different(f"a folder gives {short(wanted)}, the mount {short(found)}")


def compare_attributes(wanted: dict[str, Any], found: dict[str, Any], began: int) -> None:
    for about in wanted.keys() | found.keys():
        here, there = wanted.get(about), found.get(about)
        if about == MODIFIED:
            compare_times(here or 0, there or 0, began)
        elif about != "content" and here != there:
            raise Different(f"{about}: {here} in a folder, {there} on the mount")
    if wanted.get("content") != found.get("content"):
        here, there = wanted.get("content", {}), found.get("content", {})
        for start in sorted(here.keys() | there.keys()):
            if here.get(start) != there.get(start):
                at = where_they_differ(here.get(start, b""), there.get(start, b""), start)
                raise Different(at)


def compare_times(wanted: int, found: int, began: int) -> None:
    """A time that the program has set is the same; another one is of when it ran."""
    if began == ANY_TIME:
        return
    if wanted < began - BACKWARDS:
        if wanted != found:
            raise Different(f"modified: {wanted} was set, it is {found}")
    elif not began - BACKWARDS <= found <= time.time_ns() + BACKWARDS:
        raise Different(f"modified: {found} is no time at which the program ran")


def compare_trees(
    wanted: dict[str, dict[str, Any]], found: dict[str, dict[str, Any]], began: int, where: str
) -> None:
    if wanted.keys() != found.keys():
        names = sorted(wanted.keys() ^ found.keys())
        raise Different(f"{where}: {names} are in one of the two only")
    for path, attributes in wanted.items():
        try:
            compare_attributes(attributes, found[path], began)
        except Different as different:
            raise Different(f"{where}, {path}: {different}") from None


def where_they_differ(wanted: bytes, found: bytes, start: int = 0) -> str:
    if len(wanted) != len(found):
        return f"{len(wanted)} bytes in a folder, {len(found)} on the mount"
    places = [at for at, (one, two) in enumerate(zip(wanted, found, strict=True)) if one != two]
    first, last = places[0], places[-1]
    zeros = not any(found[place] for place in places)
    what = "zeros on the mount" if zeros else "other bytes on the mount"
    if zeros and not any(wanted[place] for place in places):
        what = "zeros in the folder"
    about = f"bytes {start + first} to {start + last} of {start + len(wanted)}"
    return f"{len(places)} differ among {about}: {what}"


def short(outcome: Outcome) -> str:
    said = repr(outcome[1])
    return f"{outcome[0]} {said[:100]}{'...' if len(said) > 100 else ''}"


def shrunk(world: World, program: Program, seconds: float) -> tuple[Program, Different]:
    """Fewer calls that differ still, found within about so long: parts of the calls are left out,
    the larger ones first. The program has to differ each time, so that of one that differs
    sometimes not much is taken away."""
    deadline = time.monotonic() + seconds
    least, why = program, Different("the program differs no more when it is played again")
    size = max(1, len(program.calls) // 2)
    while size:
        start = 0
        while start < len(least.calls) and time.monotonic() < deadline:
            calls = least.calls[:start] + least.calls[start + size :]
            attempt = Program(least.seed, calls)
            try:
                world.play(attempt)
            except Different as different:
                stop = len(calls) if different.at is None else different.at + 1
                least, why = Program(least.seed, calls[:stop]), different
            else:
                start += size
        size //= 2
    return least, why


def seeds() -> Iterable[int]:
    """Those of one run, from $SATCHEL_PROGRAM_SEED on if that is set."""
    return itertools.count(int(os.environ.get("SATCHEL_PROGRAM_SEED", "1")))
