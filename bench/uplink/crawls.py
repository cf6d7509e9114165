# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""StoArranger's folder synchronisation (section VII, Figures 7 and 8), with rclone as the crawler.

Nothing has changed since the crawl before, of which nothing is fresh any more. The paper's service
has a call for what has changed; this one has none. So home asks it, beyond the mobile's
link, and says what has changed. Without home a crawl costs one list of the whole tree. What rclone
takes for its own start is in every figure, and told.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.uplink.world import World, world

SECONDS, BYTES = 1.6, 1536
"""Goals: the most that any tree of the paper took, and its traffic."""

ROUNDS, QUICK_ROUNDS = 5, 1


def crawls(quick: bool) -> Iterator[Figure]:
    """Seconds and bytes on the mobile's link, of both of the paper's trees."""
    for name, plant in (("3 folders with 20 files", _wide), ("3 levels of 3 folders", _deep)):
        for helped in (True, False):
            with world(helped=helped) as there:
                plant(there.files)
                what = name if helped else f"{name}, without home"
                yield from _tree(there, what, QUICK_ROUNDS if quick else ROUNDS, goal=helped)


def _tree(there: World, name: str, rounds: int, *, goal: bool) -> Iterator[Figure]:
    start = statistics.median(there.seconds("rclone", "version") for _ in range(rounds))
    for _ in range(2):  # the second one is home's first, which tells the whole tree
        _crawl(there, "through")
        there.wait_stale()
    measured: dict[str, list[tuple[float, int]]] = {"direct": [], "through": []}
    for _ in range(rounds):
        for remote, rows in measured.items():
            there.wait_stale()
            rows.append(_crawl(there, remote))
    (seconds, traffic), (direct, direct_traffic) = (
        (statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows))
        for rows in (measured["through"], measured["direct"])
    )
    yield figure(f"{name}: crawl", seconds, "s", at_most=SECONDS if goal else None)
    yield figure(f"{name}: crawl without uplink", direct, "s")
    yield figure(f"{name}: rclone alone", start, "s")
    yield figure(f"{name}: bytes on the link", traffic, "B", at_most=BYTES if goal else None)
    yield figure(f"{name}: bytes without uplink", direct_traffic, "B")


def _crawl(there: World, remote: str) -> tuple[float, int]:
    before = there.bytes()
    seconds = there.seconds("rclone", "lsf", "-R", "--checkers", "1", f"{remote}:")
    return seconds, there.bytes() - before


def _wide(files: Path) -> None:
    for folder in range(3):
        _files(files / f"folder {folder}", 20)


def _deep(files: Path) -> None:
    for number in range(27):
        _files(files / f"a{number // 9}" / f"b{number // 3 % 3}" / f"c{number % 3}", 5)


def _files(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"file {number}.txt").write_text("content")
