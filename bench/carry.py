# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Redis, carried, over the links of today: what an open connection sees of moves, what copies cost,
and how soon home answers when a surrogate is lost.

Everything is real: namespaces, emulated links, sshd, home, two surrogates, the client, emulated
guests. One run; needs root.
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
from typing import Any

from bench import processors
from bench.harness import Figure, figure
from testbed import TODAY, Testbed, built, roles

REDIS = "redis", 6379

P99_GOAL_SECONDS = 0.25
LONGEST_GOAL_SECONDS = 1.0
DELTA_GOAL_MB = 1.0
PAUSE_GOAL_SECONDS = 0.05
LOSS_GOAL_SECONDS = 5.0
BEHIND_SLACK_SECONDS = 5.0

AT_REST_SECONDS = 5.0
COPIES = 3
PATIENCE_SECONDS = 300.0


class _Scene:
    """All roles, and the session of a service that is carried."""

    def __init__(self, bed: Testbed, folder: Path, service: str, port: int) -> None:
        self.bed = bed
        self.service = service
        self.port = port
        self.roles = roles.Roles(bed, folder, built.cache_folder())
        self._log = folder / "log"
        self._running: list[subprocess.Popen[Any]] = []

    def open(self) -> None:
        """Home launches the service, and a person uses it there."""
        self.roles.start()
        config = self.roles.client_config
        config.write_text(config.read_text().replace("trusted = false", "trusted = true"))
        for words in (("service", "add", self.service), ("launch", self.service)):
            self.roles.home.command(*words, "--json")
        options = ("--port", str(self.port), "--json")
        self._running.append(self.roles.start_session(self.service, *options, log=self._log))

    def ping(self) -> None:
        """Begin to have a connection, of which `seen` tells."""
        self._pings = self.use(sys.executable, "-m", "bench.carry_pings", str(self.port))

    def use(self, *argv: str) -> subprocess.Popen[str]:
        """A program at the client's device, until `close`."""
        pipe = subprocess.PIPE
        argv = (*self.bed.client.prefix, *argv)
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        self._running.append(process)
        return process

    def seen(self) -> dict[str, Any]:
        """Return the connection's samples since the last call."""
        assert self._pings.stdin is not None
        assert self._pings.stdout is not None
        self._pings.stdin.write("\n")
        self._pings.stdin.flush()
        found: dict[str, Any] = json.loads(self._pings.stdout.readline())
        return found

    def move(self, place: str) -> dict[str, Any]:
        moved: dict[str, Any] = self.roles.satchel("move", self.service, "--to", place, "--json")
        return moved

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.roles.satchel("status", self.service, "--json")
        return found

    def close(self) -> None:
        for process in reversed(self._running):
            process.terminate()
            process.wait(timeout=PATIENCE_SECONDS)
        self.roles.stop()


@contextlib.contextmanager
def _scene(service: str, port: int) -> Iterator[_Scene]:
    with tempfile.TemporaryDirectory(prefix="satchel-") as name, processors.apart(TODAY) as bed:
        scene = _Scene(bed, Path(name), service, port)
        try:
            scene.open()
            yield scene
        finally:
            scene.close()


def moves(quick: bool) -> Iterator[Figure]:
    """Yield the gaps of a connection to Redis, the cost of copies, and a loss."""
    built.built_image(REDIS[0])
    with _scene(*REDIS) as scene:
        scene.ping()
        time.sleep(AT_REST_SECONDS)
        rest = scene.seen()
        yield figure("echo at home, median", rest["median"], "s")
        for place in ("a", "b"):
            yield from _move(scene, place)
        yield from _copies(scene)
        yield from _loss(scene)


PARTS = {"moves": moves}


def _move(scene: _Scene, place: str) -> Iterator[Figure]:
    moved = scene.move(place)
    time.sleep(AT_REST_SECONDS)
    seen = scene.seen()
    what = f"move to {place}"
    yield figure(f"{what}: 99th percentile", seen["p99"], "s", at_most=P99_GOAL_SECONDS)
    link = "the hotspots' links", moved["deltas"][-1] * 8 / TODAY.hotspot
    longest = seen["longest"]
    yield figure(f"{what}: longest", longest, "s", at_most=LONGEST_GOAL_SECONDS, bound=link)
    yield figure(f"{what}: connections broken", float(bool(seen["failure"])), "1", at_most=0)
    yield figure(f"{what}: machine held", moved["held_seconds"], "s", bound=link)
    yield figure(f"{what}: of that, paused", moved["paused_seconds"], "s")
    yield figure(f"{what}: last delta", moved["deltas"][-1] / 1e6, "MB")
    yield figure(f"{what}: in all", moved["seconds"], "s")


def _copies(scene: _Scene) -> Iterator[Figure]:
    """The size of each copy, and how long the machine is paused for it."""
    what = "copy of an idle service"
    before, sizes, pauses = scene.status(), [0], [0.0]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(sizes) <= COPIES and time.monotonic() < deadline:
        time.sleep(1.0)
        now = scene.status()
        if now["deltas"] > before["deltas"]:
            sizes.append(now["delta_bytes"] - before["delta_bytes"])
            pauses.append(now["delta_paused_seconds"])
            before = now
    yield figure(f"{what}: copies seen", len(sizes) - 1.0, "1", at_least=COPIES)
    yield figure(f"{what}: the largest", max(sizes) / 1e6, "MB", at_most=DELTA_GOAL_MB)
    longest = max(pauses)
    yield figure(f"{what}: machine paused, the longest", longest, "s", at_most=PAUSE_GOAL_SECONDS)


def _loss(scene: _Scene) -> Iterator[Figure]:
    began = time.monotonic()
    scene.roles.surrogates["b"].crash()
    seconds = _answers_after(scene, began)
    yield figure("loss: home answers after", seconds, "s", at_most=LOSS_GOAL_SECONDS)
    status = scene.status()
    lost = float(status["lost_seconds"][-1])
    goal = float(status["behind_seconds"]) + BEHIND_SLACK_SECONDS
    yield figure("loss: what is lost", lost, "s", at_most=goal)


def _answers_after(scene: _Scene, began: float) -> float:
    """Return the seconds until home answers a new connection."""
    argv = ["redis-cli", "-p", str(scene.port), "PING"]
    while time.monotonic() - began < PATIENCE_SECONDS:
        done = scene.bed.client.run(argv, timeout=60)
        if done.stdout.strip() == "PONG" and scene.status()["leader"] == "home":
            break
        time.sleep(0.05)
    return time.monotonic() - began
