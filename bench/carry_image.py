# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A container's image becomes a guest's, beside `umoci unpack` of the same one, alternately.

The container is Debian with Radicale in one layer, which mmdebstrap makes. What every image has in
common, the kernel and its initrd, is there before.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.harness import Figure, figure
from images import build, changed, release_files, target
from replay import agent_program
from satchel.errors import UnavailableError
from testbed import built

ROUNDS = 3
GOAL = 3.0

RELEASE, PACKAGES = "bookworm", ("radicale", "usr-is-merged")
COMMON = "redis"
"""An image with the same kernel."""


def image(quick: bool = False) -> Iterator[Figure]:
    """Seconds of both, and the container's size."""
    built.built_image(COMMON)
    with tempfile.TemporaryDirectory(prefix="satchel-") as name:
        folder = Path(name)
        layer = folder / "layer.tar"
        release_files(layer, RELEASE, PACKAGES)
        yield figure("a container of one layer", layer.stat().st_size / 1e6, "MB")
        container = _container(folder / "oci", layer)
        ways: dict[str, Callable[[Path], None]] = {
            "umoci unpack": lambda made: _run("umoci", "unpack", "--image", container, str(made)),
            "image build": lambda made: _build(container, made),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(1 if quick else ROUNDS):
            for way, make in ways.items():
                began = time.monotonic()
                make(folder / "made")
                seconds[way].append(time.monotonic() - began)
                shutil.rmtree(folder / "made")
        unpack, own = (statistics.median(taken) for taken in seconds.values())
        yield figure("umoci unpack of it", unpack, "s")
        against = ("umoci unpack", unpack)
        yield figure("image build of it", own, "s", against=against, at_most=GOAL)


def _container(folder: Path, layer: Path) -> str:
    """The name of a new image in an OCI layout, which runs Radicale."""
    name = f"{folder}:app"
    _run("umoci", "init", "--layout", str(folder))
    _run("umoci", "new", "--image", name)
    _run("umoci", "raw", "add-layer", "--image", name, str(layer))
    config = ("--config.entrypoint", "/usr/bin/radicale", "--config.exposedports", "5232/tcp")
    _run("umoci", "config", "--image", name, *config)
    return name


def _build(container: str, folder: Path) -> None:
    recipe = changed(target(f"oci:{container}", "bench"), ("disk-mib=1024",))
    build(recipe, folder, agent=agent_program(), layers=built.cache_folder() / "layers")


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{argv[0]} failed", why=done.stderr.strip()[-1000:])
