# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long operations take while a replica is being instantiated where the client is now.

A client has moved to a hotspot. Its operations go to the replica at the hotspot before, over the
same Wi-Fi as what the new surrogate fetches from the client's media: the spike of Su and Flinn's
Figure 4. The surrogate is a process of its own, and resumes again and again, each time with an
empty cache.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.fetch.replay import Resume, learning
from bench.fetch.trace import Trace
from bench.fetch.world import Origin, World
from bench.harness import Figure, figure
from testbed import Profile
from wire import HttpClient

OPERATIONS = 200
THINKING_SECONDS = 0.03
SIZE = 1000
"""Bytes of an operation and of its response."""

SETTLE_SECONDS = 2.0
SPIKE_GOAL = 1.2


def operation_figures(
    folder: Path, trace: Trace, origin: Origin, links: World, profile: Profile
) -> Iterator[Figure]:
    """The 99th percentile and the median, beside those of the same operations without it."""
    sockets = {"media": links.media, "home": links.home}
    touches = trace.touches[: trace.response]
    resume = Resume(origin.roots, origin.working_set, touches, sockets)
    idle = _operate(links)
    with _resuming(resume, folder):
        busy = _operate(links)
    label = f"fetch {trace.service}, {profile.name}: operations while a replica is instantiated"
    for name, pick, goal in (("99th percentile", _p99, SPIKE_GOAL), ("median", _median, None)):
        figures = {"value": pick(busy) * 1e3, "against": ("idle", pick(idle) * 1e3)}
        yield figure(f"{label}: {name}", unit="ms", at_most=goal, **figures)  # type: ignore[arg-type]


def _operate(links: World) -> list[float]:
    """Seconds of each operation."""
    seconds = []
    with HttpClient(links.replica) as http:
        for number in range(OPERATIONS):
            time.sleep(THINKING_SECONDS)
            began = time.monotonic()
            with links.operations.operation():
                http.post_bytes("/operation", bytes([number]) * SIZE, limit=SIZE)
            seconds.append(time.monotonic() - began)
    return seconds


@contextmanager
def _resuming(resume: Resume, folder: Path) -> Iterator[None]:
    """Within it the surrogate resumes."""
    process = multiprocessing.get_context("spawn").Process(
        target=_resume_again_and_again, args=(resume, folder), daemon=True
    )
    process.start()
    try:
        time.sleep(SETTLE_SECONDS)
        yield
        assert process.is_alive(), "the surrogate has failed"
    finally:
        process.terminate()
        process.join()


def _resume_again_and_again(resume: Resume, folder: Path) -> None:
    while True:
        resume.replay(folder, learning, stream=True)


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds)
