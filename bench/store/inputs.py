# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What the store's bench stores: disk images with a common base, and RAM of a machine that runs.

Everything is made once and kept under build/bench; the same recipes, the same seed. The quick
inputs are the disks of the shipped services, so that a bench of a minute needs no other download.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import images
from bench.notes import SERVICE, add_note, notes_home
from bench.store.extents import data_extents
from homeserver import Home, Service
from images import Recipe
from replay import agent_program
from satchel.ids import BLOCK_SIZE
from testbed import built

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
FOLDER = Path("build/bench").resolve()
OPERATIONS = 40
CHANGED = 0.01
SEED = 1
STEPS = ("first", "second", "changed", "ram", "ram-used")
"""What is stored, in this order; "changed" is "second" with 1 % of its non-zero blocks replaced."""

_ZERO = bytes(BLOCK_SIZE)
_PIECE = 1 << 20


@dataclass(frozen=True)
class Input:
    """A raw image. data: bytes in blocks that are not zero."""

    name: str
    path: Path
    data: int


def make_inputs(quick: bool) -> dict[str, Input]:
    """The inputs by name, made where they are not there yet. Downloads Debian packages once."""
    folder = FOLDER / ("quick" if quick else "full")
    folder.mkdir(parents=True, exist_ok=True)
    done = {name: folder / f"{name}.raw" for name in STEPS}
    if not (done["first"].exists() and done["second"].exists()):
        for name, disk in zip(("first", "second"), _disks(quick), strict=True):
            _copy(disk, done[name])
    if not done["changed"].exists():
        _change(done["second"], done["changed"])
    if not (done["ram"].exists() and done["ram-used"].exists()):
        _record_ram(done["ram"], done["ram-used"])
    return {name: Input(name, path, _data(path)) for name, path in done.items()}


def data_blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, content) of the blocks of a raw image that are not zero."""
    with path.open("rb", buffering=_PIECE) as file:
        for begin, hole in data_extents(file.fileno()):
            at = begin // BLOCK_SIZE * BLOCK_SIZE
            while at < hole:
                piece = os.pread(file.fileno(), min(_PIECE, hole - at), at)
                for offset in range(0, len(piece), BLOCK_SIZE):
                    block = piece[offset : offset + BLOCK_SIZE]
                    if block != _ZERO:
                        yield (at + offset) // BLOCK_SIZE, block
                at += len(piece)


def changed_blocks(image: Input) -> dict[int, bytes]:
    """The blocks that "changed" has instead of those of `image`, by number."""
    dice = random.Random(SEED)
    numbers = [number for number, _ in data_blocks(image.path)]
    chosen = dice.sample(numbers, max(1, int(len(numbers) * CHANGED)))
    return {number: dice.randbytes(BLOCK_SIZE) for number in sorted(chosen)}


def warm(path: Path) -> None:
    """Bring what is not a hole into the page cache."""
    buffer = bytearray(_PIECE)
    with path.open("rb", buffering=0) as file:
        for begin, hole in data_extents(file.fileno()):
            at = begin
            while at < hole:
                at += os.preadv(file.fileno(), [buffer], at)


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """A folder for one run, on the disk of the inputs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as name:
        yield Path(name).resolve()


def _disks(quick: bool) -> list[Path]:
    if quick:
        found = [built.built_image(name) for name in ("notes", "speech")]
    else:
        found = [
            images.build(
                Recipe.load(RECIPES / name),
                FOLDER / "images" / name,
                agent=agent_program(),
                layers=FOLDER / "layers",
            )
            for name in ("first", "second")
        ]
    return [image.disk for image in found]


def _copy(source: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    subprocess.run(["cp", "--sparse=always", source, partial], check=True)
    partial.replace(target)


def _change(source: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    subprocess.run(["cp", "--sparse=always", source, partial], check=True)
    with partial.open("r+b") as file:
        for number, block in changed_blocks(Input("second", source, 0)).items():
            os.pwrite(file.fileno(), block, number * BLOCK_SIZE)
    partial.replace(target)


def _record_ram(fresh: Path, used: Path) -> None:
    """RAM of a machine that has just booted, and after it has worked."""
    with (
        tempfile.TemporaryDirectory(prefix="satchel-bench-") as name,
        notes_home(Path(name)) as home,
    ):
        home.add_service(SERVICE, SERVICE)
        service = home.service(SERVICE)
        service.launch()
        _export_ram(home, service, fresh)
        list(service.answer([add_note(number) for number in range(1, OPERATIONS + 1)]))
        _export_ram(home, service, used)
        service.stop()


def _export_ram(home: Home, service: Service, target: Path) -> None:
    manifest = service.checkpoint().manifest
    home.store.export_file(manifest.volumes["ram"], target)


def _data(path: Path) -> int:
    return sum(len(block) for _, block in data_blocks(path))
