# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The next Debian's QEMU by this one's, on the same guests, emulated, in turns: `notes` boots and
executes operations; `speech` recognises a sentence. Machines have no cell here, which would not
show that QEMU its libraries."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.notes import SERVICE, add_note, posted
from homeserver import Home, HomeSettings
from hypervisor import QemuDriver
from images import PHRASES, speak
from replay import Operation
from replica import Replica
from testbed import built, newer_qemu

ROUNDS = 3
QUICK_ROUNDS = 1
OPERATIONS = 100
SPEECH = "speech"
RECOGNITIONS = 5

_Times = tuple[float, float, float]


def figures() -> Iterator[Figure]:
    """Every figure of this bench."""
    yield from _figures(ROUNDS)


def quick_figures() -> Iterator[Figure]:
    """One round."""
    yield from _figures(QUICK_ROUNDS)


def _figures(rounds: int) -> Iterator[Figure]:
    for service in (SERVICE, SPEECH):
        built.built_image(service)
    path = os.environ["PATH"]
    paths = (path, f"{newer_qemu.folder()}:{path}")
    taken: tuple[list[_Times], ...] = ([], [])
    try:
        versions = [_version(one) for one in paths]
        for number in range(rounds):
            for which in (1, 0) if number % 2 else (0, 1):
                os.environ["PATH"] = paths[which]
                taken[which].append(_times())
    finally:
        os.environ["PATH"] = path
    old, new = ([statistics.median(column) for column in zip(*one, strict=True)] for one in taken)
    for index, (what, unit, scale) in enumerate(
        (
            ("boot of notes", "s", 1.0),
            ("operation of notes, warm", "ms", 1e3),
            ("recognition of a sentence, warm", "s", 1.0),
        )
    ):
        against = (versions[0], old[index] * scale)
        yield figure(f"{what}, {versions[1]}", new[index] * scale, unit, against=against)


def _version(path: str) -> str:
    environment = os.environ | {"PATH": path}
    command = ["/usr/bin/env", newer_qemu.BINARY, "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return "QEMU " + said.stdout.split()[3]


def _times() -> _Times:
    """Seconds until `notes`, which boots, is ready; of an operation of it; of a recognition."""
    with _booted(SERVICE) as (replica, boot):
        operation = _mean(replica, OPERATIONS, lambda: add_note(replica.last + 1))
    with _booted(SPEECH) as (replica, _):
        recording = speak(PHRASES[0])

        def recognise() -> Operation:
            return posted(replica.last + 1, "/recognize", "audio/wav", recording)

        return boot, operation, _mean(replica, RECOGNITIONS, recognise)


@contextlib.contextmanager
def _booted(service: str) -> Iterator[tuple[Replica, float]]:
    """A new machine of that service that is ready, and the seconds which that took."""
    with tempfile.TemporaryDirectory(prefix="satchel-") as name:
        folder = Path(name)
        settings = HomeSettings(
            data=folder / "data",
            run=folder / "run",
            images=built.cache_folder(),
            cell="off",
            cell_off_as_root=True,
        )
        Home.init(settings)
        home = Home(settings, QemuDriver())
        try:
            home.add_service(service, service)
            added = home.service(service)
            began = time.monotonic()
            added.launch()
            yield added.replica(), time.monotonic() - began
        finally:
            home.close()


def _mean(replica: Replica, count: int, make: Callable[[], Operation]) -> float:
    """Seconds of an operation, but for the first one."""
    replica.execute(make())
    began = time.monotonic()
    for _ in range(count):
        replica.execute(make())
    return (time.monotonic() - began) / count
