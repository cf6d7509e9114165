# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The link emulator: how true its rates and delays are, and what it costs.

The goals are the issue's: 5 % of the rate, 1 ms + 5 % of the delay. Needs root.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, figure
from satchel.errors import UnsupportedError
from testbed import PAPER, TODAY, Shape, links, measure

RATES = {
    "256 kb/s": (PAPER.home_up, 20),
    "1.5 Mb/s": (PAPER.hotspot, 60),
    "11 Mb/s": (PAPER.wifi, 150),
    "20 Mb/s": (TODAY.home_up, 250),
    "200 Mb/s": (TODAY.wifi, 1500),
}
"""Datagrams of a burst, for each rate: a tenth of a second at least."""

DELAYS_MS = (0.0, 2.5, 15.0, 100.0)
REPEATS = 3
BURST_QUEUE = 4 << 20
TCP_BYTES = {"11 Mb/s": 2 << 20, "200 Mb/s": 50 << 20}
WIFI_DELAY = 0.0025
RATE_GOAL = 5.0
DELAY_GOAL_MS = 1.0
DELAY_GOAL = 0.05
TCP_GOAL = 0.9
CPU_GOAL = 2.0
GIGABIT = 1e9


def figures() -> Iterator[Figure]:
    maker = links.TunLinks()
    try:
        with measure.pair(maker) as pair:
            yield from _rates(pair)
            yield from _delays(pair)
            yield from _tcp(pair, maker.emulator.pid)
        yield figure("link memory", _peak_memory(maker.emulator.pid), "MB")
    finally:
        maker.close()


def _rates(pair: measure.Pair) -> Iterator[Figure]:
    for name, (rate, count) in RATES.items():
        pair.link.shape(up=Shape(rate=rate, queue=BURST_QUEUE))
        repeats = REPEATS if rate > PAPER.home_up else 1
        measured = [measure.rate(pair.leaf, pair.core, count=count) for _ in range(repeats)]
        error = abs(statistics.median(measured) / rate - 1) * 100
        yield figure(f"link rate {name}: error", error, "%", at_most=RATE_GOAL)


def _delays(pair: measure.Pair) -> Iterator[Figure]:
    for delay in DELAYS_MS:
        pair.link.shape(up=Shape(delay=delay / 1000))
        measured = statistics.median(measure.delays(pair.leaf, pair.core)) * 1000
        error = abs(measured - delay)
        goal = DELAY_GOAL_MS + DELAY_GOAL * delay
        yield figure(f"link delay {delay:g} ms: error", error, "ms", at_most=goal)


def _tcp(pair: measure.Pair, pid: int) -> Iterator[Figure]:
    for name, size in TCP_BYTES.items():
        rate = RATES[name][0]
        shape = Shape(rate=rate, delay=WIFI_DELAY, queue=links.queue_for(rate))
        pair.link.shape(up=shape, down=shape)
        before = _cpu_seconds(pid)
        goodput = measure.goodput(pair.leaf, pair.core, size)
        spent = _cpu_seconds(pid) - before
        against = ("the link's rate", rate / 1e6)
        yield figure(f"link TCP {name}", goodput / 1e6, "Mb/s", against=against, at_least=TCP_GOAL)
        cost = spent / (size * 8 / GIGABIT)
        goal = CPU_GOAL if rate == TODAY.wifi else None
        yield figure(f"link CPU at {name}", cost, "s/Gbit", at_most=goal)


def _cpu_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii")
    except FileNotFoundError as error:
        raise UnsupportedError("cannot measure processor time", why=str(error)) from error
    return int(text.split()[0]) / 1e9


def _peak_memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
