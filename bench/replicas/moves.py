# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Moves between surrogates under load (MEFS, Figure 6): `notes`, a machine of 256 MB.

Real programs on the links of today: home 20/100 Mb/s away, 100 Mb/s between the surrogates, a round
trip of 30 ms between any two sites. Requests come at a steady rate, half of them reads; the client
walks nowhere, so that only the move is measured. A gap is the time between one answer and the next
beyond that rate's; a wait is one request's own. Needs root.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processors
from bench.harness import Figure, figure
from bench.replicas.load import Load, Sample, add_note, executed_once, gaps, percentile, waits
from testbed import TODAY, Testbed, built, media, roles

SERVICE = "notes"
RATES = (0, 2, 5)
QUICK_RATES = (0, 5)
ROUTES = ("handover", "replay")
QUICK_ROUTES = ("handover",)
SETTLE_SECONDS = 4.0
LIMIT_SECONDS = 30.0
"""Where machines execute fewer operations than come, a new one never catches up: after so long no
more come."""

GAP_GOAL = 0.15
PART = 0.99


@dataclass
class Stage:
    """A testbed with a home that has a service on a stick."""

    bed: Testbed
    roles: roles.Roles
    stick: media.Stick
    folder: Path
    service: str = SERVICE

    @contextmanager
    def session(self, at: str | None) -> Iterator[int]:
        """`satchel run` with a replica at a surrogate, or with home alone; the local port."""
        options = ["--media", str(self.stick.root), "--json"]
        log = self.folder / "session.log"
        process = self.roles.start_session(self.service, *options, log=log)
        try:
            if at:
                self.move(at, "replay")
            yield int(self.status()["port"])
        finally:
            self.roles.satchel("stop", self.service, "--json")
            process.wait(timeout=60)

    def status(self) -> dict[str, Any]:
        return dict(self.roles.satchel("status", self.service, "--json"))

    def move(self, to: str, route: str) -> dict[str, Any]:
        words = ("move", self.service, "--to", to, "--route", route, "--json")
        return dict(self.roles.satchel(*words))


def moves(quick: bool) -> Iterator[Figure]:
    """The part `moves`."""
    with stage() as made:
        for route in QUICK_ROUTES if quick else ROUTES:
            for rate in QUICK_RATES if quick else RATES:
                yield from _move(made, route, rate)


@contextmanager
def stage(
    service: str = SERVICE, before_launch: Callable[[roles.Role], object] = lambda home: None
) -> Iterator[Stage]:
    """The service checkpointed and running at home, both surrogates empty. before_launch: gets the
    home, which has the service already."""
    built.built_image(service)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="satchel-bench-")))
        bed = stack.enter_context(processors.apart(TODAY))
        stick = media.Stick(folder / "m")
        stack.callback(stick.close)
        actors = roles.Roles(bed, folder, built.cache_folder())
        for role in (actors.home, *actors.surrogates.values()):
            stack.callback(role.stop)
        actors.start()
        actors.home.command("media", "init", stick.root, "--unsealed", "--json")
        actors.home.command("service", "add", service, "--json")
        before_launch(actors.home)
        actors.home.command("launch", service, "--json")
        actors.home.command("checkpoint", service, "--media", stick.root, "--json")
        yield Stage(bed, actors, stick, folder, service)


def _move(made: Stage, route: str, rate: float) -> Iterator[Figure]:
    for name in made.roles.surrogates:
        made.roles.restart_surrogate(name, empty=True)
    with made.session("a") as port:
        written = add_note(made.bed.client, port)
        before = made.status()["last_operation"]
        with Load(made.bed.client, port, rate) as load:
            time.sleep(SETTLE_SECONDS)
            began = time.monotonic()
            limit = threading.Timer(LIMIT_SECONDS, load.end)
            limit.start()
            brought = made.move("b", route)
            ended = time.monotonic()
            limit.cancel()
            time.sleep(SETTLE_SECONDS)
        status = made.status()
    assert before + len(load.samples()) == status["last_operation"], "an operation is missing"
    label = f"move by {route}, {rate:g} operations/s"
    yield figure(f"{label}: total", ended - began, "s")
    yield figure(f"{label}: until it had joined", brought["seconds"], "s")
    yield figure(f"{label}: replayed", brought["replayed"], "operations")
    yield figure(f"{label}: asked", brought["asked_seconds"], "s")
    yield figure(f"{label}: running after", brought["running_seconds"], "s")
    yield figure(f"{label}: machine stood still", brought["paused_seconds"] * 1e3, "ms")
    stalls = status["surrogates"]["b"]["stalls"]
    yield figure(f"{label}: new machine waited for blocks", stalls["seconds"], "s")
    yield figure(f"{label}: so many times", stalls["count"], "1")
    if rate:
        quiet, moving = load.samples(until=began), load.samples(began, ended)
        usual = len(quiet) / (quiet[-1].answered - quiet[0].due)
        yield figure(f"{label}: answered before the move", usual, "1/s", against=("sent", rate))
        once = executed_once(load.samples(), written)
        yield figure(f"{label}: executed once, in order", float(once), "1", at_least=1)
        yield from _service(label, load.samples(), quiet, moving, 1 / rate)


def _service(
    label: str, everything: list[Sample], quiet: list[Sample], moving: list[Sample], pace: float
) -> Iterator[Figure]:
    failed = sum(sample.failed for sample in everything)
    yield figure(f"{label}: failed", failed, "operations", at_most=0)
    usual = ("before the move", percentile(waits(quiet), PART) * 1e3)
    gap, wait = [max(0.0, gap - pace) for gap in gaps(moving)], waits(moving)
    yield figure(
        f"{label}: gap, 99th percentile", percentile(gap, PART) * 1e3, "ms", at_most=GAP_GOAL * 1e3
    )
    yield figure(f"{label}: longest gap", gap[-1] * 1e3, "ms")
    yield figure(
        f"{label}: wait, 99th percentile", percentile(wait, PART) * 1e3, "ms", against=usual
    )
    yield figure(f"{label}: wait, median", percentile(wait, 0.5) * 1e3, "ms")
    yield figure(f"{label}: longest wait", wait[-1] * 1e3, "ms")
