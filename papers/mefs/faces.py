# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""MEFS's Figure 8 in kind: how long a client waits until a face on a frame of its video is known.

The recogniser (`recognise.py`) runs on the device itself, at a surrogate, or at home. At the
surrogate its training set is a mount of home's share over the link; on the device and at home it is
a folder. The frame goes over the link to where the recogniser is. All of them have this machine's
processors.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import Figure, device, figure
from papers.mefs.edge_world import (
    EDGE_RATE,
    EDGE_TRIP,
    HOME_TRIP,
    RATE,
    SHARE,
    Relay,
    World,
    world,
)
from papers.ofs.local import served

PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("recognise.py")
QUALITIES = {"low": (720, 480), "medium": (1280, 720), "high": (1920, 1080)}
PEOPLE, PICTURES, FRAMES = 6, 12, 8

LINKS = {"local": (0.0, 0.0), "edge": (EDGE_TRIP, EDGE_RATE), "home": (HOME_TRIP, RATE)}
"""Seconds there and back, and bytes a second; 0: there is none."""


def face_figures(quick: bool) -> Iterator[Figure]:
    """Needs Debian's python3-opencv and opencv-data, and /dev/fuse."""
    with tempfile.TemporaryDirectory(prefix="sb") as name:
        folder = Path(name)
        people, pictures, count = (2, 3, 2) if quick else (PEOPLE, PICTURES, FRAMES)
        for quality, size in list(QUALITIES.items())[: 1 if quick else None]:
            _program("frames", folder / quality, people, *size, count)
        for place, link in LINKS.items():
            with _training_set(folder / f"at-{place}", place, people, pictures) as root:
                yield from _of_place(folder, root, place, link)


def _of_place(folder: Path, root: Path, place: str, link: tuple[float, float]) -> Iterator[Figure]:
    argv = [PYTHON, str(PROGRAM), "serve", str(root)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as program:  # type: ignore[call-overload]
        first = True
        for quality in QUALITIES:
            frames = sorted((folder / quality).glob("*.jpg"))
            taken, files, wrong = [], [], 0
            for frame in frames:
                seconds, said = _recognised(program, frame, link)
                if first:
                    yield figure(f"shares, faces: first answer, {place}", seconds * 1e3, "ms")
                    first = False
                    continue
                taken.append(seconds)
                files.append(said["files"])
                wrong += f"{said['person']:.0f}" != frame.name.split("-")[0]
            if not taken:
                continue
            about = f"shares, faces: {quality} quality, {place}"
            yield figure(f"{about}: an answer", statistics.median(taken) * 1e3, "ms")
            yield figure(f"{about}: of that, training set", statistics.median(files) * 1e3, "ms")
            yield figure(f"{about}: not recognised", wrong / len(taken), "1")
        program.stdin.close()


def _recognised(
    program: subprocess.Popen[str], frame: Path, link: tuple[float, float]
) -> tuple[float, dict[str, float]]:
    assert program.stdin and program.stdout
    trip, rate = link
    began = time.perf_counter()
    if rate:
        time.sleep(trip + frame.stat().st_size / rate)
    print(frame, file=program.stdin, flush=True)
    said: dict[str, float] = json.loads(program.stdout.readline())
    return time.perf_counter() - began, said


@contextlib.contextmanager
def _training_set(folder: Path, place: str, people: int, pictures: int) -> Iterator[Path]:
    if place != "edge":
        _program("make", folder, people, pictures)
        yield folder
        return
    with world(folder) as made:
        _program("make", made.root / "set", people, pictures)
        with _mounted(made) as mount:
            yield mount / "set"


@contextlib.contextmanager
def _mounted(made: World) -> Iterator[Path]:
    """As a surrogate has it, which reaches home through the client."""
    relay = Relay(made.folder / "far", made.folder / "s", HOME_TRIP + EDGE_TRIP)
    place = made.folder / "surrogate"
    argv = [sys.executable, "-m", "papers.ofs.local", str(made.folder / "far"), SHARE]
    try:
        with served([*argv, str(place), str(made.folder / "copies")], place):
            yield place
    finally:
        relay.close()


def _program(*words: object) -> None:
    device.run(PYTHON, str(PROGRAM), *map(str, words))
