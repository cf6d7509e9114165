# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The next Debian's QEMU by this one's, on the same guest, emulated, in turns: `notes` boots, and
then executes operations. Machines have no cell here, which would not show that QEMU its libraries.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, figure
from bench.notes import SERVICE, add_note
from homeserver import Home, HomeSettings
from hypervisor import QemuDriver
from testbed import built, newer_qemu

ROUNDS = 5
QUICK_ROUNDS = 1
OPERATIONS = 100


def figures() -> Iterator[Figure]:
    """Every figure of this bench."""
    yield from _figures(ROUNDS)


def quick_figures() -> Iterator[Figure]:
    """One round."""
    yield from _figures(QUICK_ROUNDS)


def _figures(rounds: int) -> Iterator[Figure]:
    built.built_image(SERVICE)
    path = os.environ["PATH"]
    paths = (path, f"{newer_qemu.folder()}:{path}")
    taken: tuple[list[tuple[float, float]], ...] = ([], [])
    try:
        versions = [_version(one) for one in paths]
        for number in range(rounds):
            for which in (1, 0) if number % 2 else (0, 1):
                os.environ["PATH"] = paths[which]
                taken[which].append(_life())
    finally:
        os.environ["PATH"] = path
    old, new = ([statistics.median(column) for column in zip(*one, strict=True)] for one in taken)
    for index, (what, unit, scale) in enumerate(
        (("boot of notes", "s", 1.0), ("operation of notes, warm", "ms", 1e3))
    ):
        against = (versions[0], old[index] * scale)
        yield figure(f"{what}, {versions[1]}", new[index] * scale, unit, against=against)


def _version(path: str) -> str:
    environment = os.environ | {"PATH": path}
    command = ["/usr/bin/env", newer_qemu.BINARY, "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return "QEMU " + said.stdout.split()[3]


def _life() -> tuple[float, float]:
    """Seconds until a machine that boots is ready, and of an operation after that."""
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
            home.add_service(SERVICE, SERVICE)
            service = home.service(SERVICE)
            began = time.monotonic()
            service.launch()
            booted = time.monotonic() - began
            replica = service.replica()
            replica.execute(add_note(replica.last + 1))
            began = time.monotonic()
            for _ in range(OPERATIONS):
                replica.execute(add_note(replica.last + 1))
            return booted, (time.monotonic() - began) / OPERATIONS
        finally:
            home.close()
