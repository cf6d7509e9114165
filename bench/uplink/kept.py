# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""StoArranger's cache of files (section VII, Figure 6): curl opens a file, directly, for the first
time through uplink, and again. Of the three each round has one, and no content twice."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

from bench.harness import Figure, figure
from bench.uplink.world import PASSWORD, USER, World, world

SIZES = {"100 KB": 100_000, "1 MB": 1_000_000}
ROUNDS, QUICK_ROUNDS = 9, 2
FRESH_SECONDS = 600.0
QUIET_SECONDS = 0.5
"""Until the last packets of the transfer before have come."""

HIT, MISS = 0.4, 1.05
"""Goals, by what it takes directly."""


def kept(quick: bool) -> Iterator[Figure]:
    """Seconds of a miss and a hit by those without uplink, and the bytes of a hit."""
    with world(fresh=FRESH_SECONDS) as there:
        for name, size in SIZES.items():
            rows = [
                _round(there, number, size) for number in range(QUICK_ROUNDS if quick else ROUNDS)
            ]
            direct, miss, hit, traffic = (
                statistics.median(row[part] for row in rows) for part in range(4)
            )
            against = ("curl without uplink", direct)
            yield figure(f"{name}: kept file", hit, "s", against=against, at_most=HIT)
            yield figure(f"{name}: first time", miss, "s", against=against, at_most=MISS)
            yield figure(f"{name}: bytes on the link for a kept file", traffic, "B", at_most=0)


def _round(there: World, number: int, size: int) -> tuple[float, float, float, int]:
    names = [f"{size}-{number}-{part}" for part in ("direct", "through")]
    for name in names:
        (there.files / name).write_bytes(os.urandom(size))
    _open(there, f"{there.through}/{names[0]}-none")
    direct = _open(there, f"{there.direct}/{names[0]}")
    miss = _open(there, f"{there.through}/{names[1]}")
    time.sleep(QUIET_SECONDS)
    before = there.bytes()
    hit = _open(there, f"{there.through}/{names[1]}")
    return direct, miss, hit, there.bytes() - before


def _open(there: World, url: str) -> float:
    return there.seconds("curl", "-s", "-o", "/dev/null", "-u", f"{USER}:{PASSWORD}", url)
