# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Many small files through a mounted share: what programs wait for, in seconds and in requests.

A mount as `satchel mount` makes it, whose way to home delays every byte: no bandwidth is limited,
so the seconds beyond those of a local folder are round trips. Each program is run by itself; then
what was closed and is still on its way to home is waited for, and counted as well.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.delayed import DelayedSocket
from bench.harness import Figure, figure
from bench.shares.local import served
from homeserver.shares import Shares, ShareShelf
from shares.home import ShareRecord

ROUND_TRIP = 0.020
FILES, FEW = 100, 20
SIZE = 2000
LEASE = 20.0
SHARE = "small"
QUIET_SECONDS = 1.0
"""Without a request of the mount's: then all that it had to say is said."""

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsmonitor=false"]


@dataclass(frozen=True)
class Run:
    """seconds: until the program ended. requests: of the mount at home by kind, until it was quiet
    again; heartbeats are not counted."""

    seconds: float
    requests: Counter[str]

    @property
    def total(self) -> int:
        return sum(self.requests.values())


Program = Callable[[Path], object]


def programs(files: int, archive: Path) -> dict[str, Program]:
    """In the order in which they are run, in one folder that `_furnished` was called for. archive:
    for tar, with the files in it."""

    def write(folder: Path) -> None:
        (folder / "w").mkdir()
        for number in range(files):
            (folder / "w" / f"{number}").write_bytes(bytes([number % 256]) * SIZE)

    def read(folder: Path) -> None:
        for number in range(files):
            (folder / "t" / f"{number}").read_bytes()

    def rewrite(folder: Path) -> None:
        for number in range(files):
            with (folder / "w" / f"{number}").open("r+b") as file:
                file.write(b"again")

    return {
        "tar c": lambda folder: _run(folder.parent, ["tar", "c", "-C", str(folder), "h"]),
        "create, write, close": write,
        "open, write, close": rewrite,
        "tar x": lambda folder: _run(folder, ["tar", "xf", str(archive)]),
        "read": read,
        "git add": _git,
        "git status": lambda folder: _run(folder / "w", [*GIT, "status", "--porcelain"]),
        "rm -r": lambda folder: _run(folder, ["rm", "-r", "w", "t"]),
    }


def _git(folder: Path) -> None:
    _run(folder / "w", [*GIT, "init", "-q", "-b", "main"])
    _run(folder / "w", [*GIT, "add", "."])


def _run(folder: Path, argv: list[str]) -> None:
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)


def small_figures(quick: bool) -> Iterator[Figure]:
    """Of each program: seconds by those of a local folder, and requests for each file."""
    count = FEW if quick else FILES
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        local = locally(folder, count)
        for log in ("async",) if quick else ("async", "sync", "off"):
            for what, run in mounted(folder, count, log).items():
                label = f"shares, {count} small files, 20 ms, log {log}: {what}"
                against = ("local folder", local[what].seconds)
                yield figure(label, run.seconds, "s", against=against)
                yield figure(f"{label}: requests", run.total, "1")


def locally(folder: Path, files: int) -> dict[str, Run]:
    """In a folder of the machine's own file system."""
    place = folder / "local"
    _furnished(place, files)
    return _runs(place, programs(files, _archive(folder, files)), Counter)


def mounted(folder: Path, files: int, log: str) -> dict[str, Run]:
    """On a mount that nobody shares. log: the share's policy."""
    archive = _archive(folder, files)
    with contextlib.ExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-")))
        root = folder / f"root-{log}"
        _furnished(root, files)
        shares = Shares(ShareShelf(folder / f"shelf-{log}"), short / "home", LEASE)
        stack.callback(shares.close)
        shares.add(ShareRecord(SHARE, str(root), log=log))
        way = DelayedSocket(short / "way", short / "home", ROUND_TRIP / 2)
        stack.callback(way.close)
        place = folder / f"mount-{log}"
        argv = [sys.executable, "-m", "bench.shares.local", str(short / "way"), SHARE]
        stack.enter_context(served([*argv, str(place), str(folder / f"cache-{log}")], place))
        (session,) = shares.get(SHARE).sessions.values()

        def asked() -> Counter[str]:
            found = session.traffic.copy()
            return Counter({k: n for (way, k), n in found.items() if way == "in" and k != "beat"})

        time.sleep(LEASE / 3 + 1)  # the mount knows of its lease, and remembers from now on
        return _runs(place, programs(files, archive), asked)


def _runs(
    place: Path, wanted: dict[str, Program], asked: Callable[[], Counter[str]]
) -> dict[str, Run]:
    found = {}
    for what, program in wanted.items():
        before, began = asked(), time.perf_counter()
        program(place)
        seconds = time.perf_counter() - began
        found[what] = Run(seconds, _quiet(asked) - before)
    return found


def _quiet(asked: Callable[[], Counter[str]]) -> Counter[str]:
    last = asked()
    while last:
        time.sleep(QUIET_SECONDS)
        now = asked()
        if now == last:
            break
        last = now
    return last


def _furnished(root: Path, files: int) -> None:
    """A folder with files that no node has been asked for yet."""
    (root / "h").mkdir(parents=True)
    for number in range(files):
        (root / "h" / f"{number}").write_bytes(bytes([number % 256]) * SIZE)


def _archive(folder: Path, files: int) -> Path:
    archive = folder / "files.tar"
    if not archive.exists():
        source = folder / "source" / "t"
        source.mkdir(parents=True)
        for number in range(files):
            (source / f"{number}").write_bytes(bytes([number % 256]) * SIZE)
        _run(source.parent, ["tar", "cf", str(archive), "t"])
    return archive


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as NAME:
        for LOG in sys.argv[2:] or ["async"]:
            for WHAT, RUN in mounted(Path(NAME), int(sys.argv[1]), LOG).items():
                print(f"{LOG:6} {WHAT:22} {RUN.seconds:7.2f} s {RUN.total:5} {dict(RUN.requests)}")


__all__ = ["Run", "locally", "mounted", "programs", "small_figures"]
