# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that read a tree of files for the first time, on a mount 20 ms from home.

`git status` of a work tree of 1,000 files in 20 folders, which this mount has never seen, and `tar`
of the same tree by a second new mount. What was opened ahead and never used is counted as well.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.delayed import DelayedSocket
from bench.harness import Figure, figure
from bench.shares.local import served
from bench.shares.small import GIT, LEASE, ROUND_TRIP, SHARE
from homeserver.shares import Shares, ShareShelf
from shares.home import ShareRecord

FOLDERS, EACH = 20, 50
SIZE = 2000

STATUS_SECONDS = 8.0
VAIN = 0.25
"""The goals: seconds of the first `git status`, and the part of opened files that is not used."""


def scanned_figures(quick: bool) -> Iterator[Figure]:
    """First `git status` and `tar` of a tree: seconds, by those of a local folder, and what was
    opened in vain."""
    with tempfile.TemporaryDirectory(prefix="satchel-bench-") as name:
        folder = Path(name)
        root = folder / "root"
        _work_tree(root, EACH // 5 if quick else EACH)
        local = {what: _seconds(argv, root) for what, argv in PROGRAMS.items()}
        shares = Shares(ShareShelf(folder / "shelf"), folder / "home", LEASE)
        with contextlib.closing(shares):
            shares.add(ShareRecord(SHARE, str(root)))
            for what, argv in PROGRAMS.items():
                seconds, ahead = _mounted(folder, what, argv)
                goal = STATUS_SECONDS if what == "git status" else None
                label = f"shares, {FOLDERS} folders, 20 ms: first {what}"
                yield figure(label, seconds, "s", at_most=goal)
                yield figure(f"{label}: by a local folder", seconds / local[what], "1")
                tried = ahead["used"] + ahead["vain"] + ahead["ahead"]
                part = (tried - ahead["used"]) / tried if tried else 0.0
                yield figure(f"{label}: opened in vain", part, "1", at_most=VAIN)


PROGRAMS = {
    "git status": [*GIT, "status", "--porcelain"],
    "tar": ["tar", "cf", "-", "."],
}


def _work_tree(root: Path, each: int) -> None:
    for folder in range(FOLDERS):
        place = root / f"d{folder:02}"
        place.mkdir(parents=True)
        for number in range(each):
            (place / f"{number:03}.txt").write_bytes(f"{folder} {number} ".encode() * (SIZE // 8))
    subprocess.run([*GIT, "init", "-q", "-b", "main"], cwd=root, check=True)
    subprocess.run([*GIT, "add", "."], cwd=root, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "all"], cwd=root, check=True)


def _seconds(argv: list[str], place: Path) -> float:
    began = time.perf_counter()
    subprocess.run(argv, cwd=place, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _mounted(folder: Path, what: str, argv: list[str]) -> tuple[float, dict[str, int]]:
    """Seconds, and what was opened ahead, as the mount's status has it."""
    short = what.replace(" ", "-")
    place, status = folder / f"mount-{short}", folder / f"status-{short}"
    with contextlib.ExitStack() as stack:
        way = DelayedSocket(folder / f"way-{short}", folder / "home", ROUND_TRIP / 2)
        stack.callback(way.close)
        mount = [sys.executable, "-m", "bench.shares.local", str(folder / f"way-{short}"), SHARE]
        argument = [str(place), str(folder / f"cache-{short}"), str(status)]
        stack.enter_context(served([*mount, *argument], place))
        time.sleep(LEASE / 3 + 1)  # the mount knows of its lease, and remembers from now on
        seconds = _seconds(argv, place)
    return seconds, json.loads(status.read_text())["ahead"]


__all__ = ["scanned_figures"]
