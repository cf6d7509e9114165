# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""StoArranger's coordination of backups (section VII, Figure 5): 50 uploads of 20 KB to 1 MB.

Each upload is asked for long after the one before it, so that alone it pays for a promotion and a
whole tail. What is sent is charged by the states of the interface (`uplink.Interface`), not by the
formula that decides. The rest of the batch that no condition let go is sent at the end and counted.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from bench import Figure, figure
from uplink.policy import Batcher, Interface, RadioModel, built_in_radios

UPLOADS = 50
SIZES = (20_000, 1_000_000)
SEEDS, QUICK_SEEDS = 20, 3
FAR_SECONDS = 60.0
"""Between two uploads: longer than any tail and any transfer."""

GOALS = {("4g", 1.0): 0.58, ("4g", 6.0): 0.75, ("3g", 1.0): 0.45, ("3g", 2.0): 0.52}
SLOW = 1.0
"""Megabits a second up: the paper's base rate; the other one is the model's."""


@dataclass(frozen=True)
class Run:
    """joules, of the model; sent: bytes; bursts: how many uploads each had"""

    joules: float
    sent: int
    bursts: tuple[int, ...]


def batching_figures(quick: bool) -> Iterator[Figure]:
    """The saving by radio and rate, the mean over seeds."""
    radios = built_in_radios()
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    for name in ("4g", "3g", "wifi"):
        for rate in (SLOW, radios[name].rate):
            savings, batches, wrong = [], [], 0
            for seed in seeds:
                sizes = uploads(seed)
                apart = run(radios[name], rate, sizes, together=False)
                batched = run(radios[name], rate, sizes, together=True)
                savings.append(1 - batched.joules / apart.joules)
                batches.append(UPLOADS / len(batched.bursts))
                wrong += batched.sent != apart.sent
            goal = GOALS.get((name, rate))
            what = f"model: {name} at {rate:g} Mb/s"
            yield figure(
                f"{what}, joules saved",
                100 * statistics.fmean(savings),
                "%",
                at_least=None if goal is None else 100 * goal,
            )
            yield figure(f"{what}, least of the seeds", 100 * min(savings), "%")
            yield figure(f"{what}, uploads in a burst", statistics.fmean(batches), "uploads")
            yield figure(f"{what}, seeds with other bytes sent", wrong, "seeds", at_most=0)


def uploads(seed: int) -> list[int]:
    """Sizes in bytes."""
    draw = random.Random(seed)
    return [draw.randint(*SIZES) for _ in range(UPLOADS)]


def run(model: RadioModel, rate: float, sizes: list[int], *, together: bool) -> Run:
    """What these uploads cost, each at once or as the batcher says."""
    interface, batcher = Interface(model), Batcher(model, rate)
    held: list[int] = []
    bursts: list[int] = []
    sent, now = 0, 0.0
    for number, size in enumerate(sizes):
        now += FAR_SECONDS
        held.append(size)
        last = number == len(sizes) - 1
        if not together or last or batcher.accepted(sum(held)):
            sent += sum(held)
            now = interface.transfer(now, up=sum(held), rate=rate)
            bursts.append(len(held))
            held = []
    return Run(interface.finish().total, sent, tuple(bursts))


PARTS = {"batching": batching_figures}
