# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reading what a resume reads first from a slow medium, before and after `media defrag`.

A medium carries checkpoint after checkpoint of a recorded service, each with the working set that
the life before it taught. What does not change is not written again, so the newest working set lies
in pieces. The medium is an ext4 on a modelled device (slow_device.py): its time for a move of the
head, and its rate. Needs root.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.device import device, run
from bench.harness import Figure, figure
from bench.recording import FOLDER, HELD_OUT, Recording
from chunkstore import Media, Store, TableRoot
from replica import Run, encode_working_set
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE

SERVICES = ("notes", "speech")
QUICK_SERVICES = ("notes",)
SIZE = 1 << 30
AT_ONCE = 128
"""Chunks of a request: 512 KB."""

GOAL = 1 / 1.63
"""The time after relocation, of that before: 63 % faster."""


@dataclass(frozen=True)
class Device:
    """seek: seconds until the head is elsewhere; rate: bytes a second."""

    name: str
    seek: float
    rate: int


MICRODRIVE = Device("microdrive", 0.012 + 0.0083, 4_200_000)
"""A 1-inch disk: 12 ms for a seek, half of a turn at 3,600 a minute."""

DEVICES = (
    MICRODRIVE,
    Device("SD card", 0.001, 10_000_000),
    Device("USB 2 stick", 0.0007, 25_000_000),
)


@dataclass(frozen=True)
class Carried:
    """A medium's newest checkpoint: what is read first, and all of it."""

    first: list[TableRoot]
    roots: list[TableRoot]


def figures() -> Iterator[Figure]:
    yield from _figures(SERVICES, DEVICES)


def quick_figures() -> Iterator[Figure]:
    yield from _figures(QUICK_SERVICES, DEVICES[:1])


def _figures(services: tuple[str, ...], devices: tuple[Device, ...]) -> Iterator[Figure]:
    for service in services:
        recording = Recording.load(FOLDER / f"{service}.{HELD_OUT}.trace")
        with (
            tempfile.TemporaryDirectory(prefix="satchel-bench-") as name,
            Store.create(Path(name) / "store") as store,
        ):
            folder = Path(name)
            image = folder / "image"
            with _file_system(image, folder), Media.init(folder / "mount") as media:
                carried = _carry(recording, store, media, folder)
                pieces = media.pieces(*carried.first).pieces
            before = {d.name: _read(d, image, folder, store, carried) for d in devices}
            with _mounted(image, folder), Media.open(folder / "mount") as media:
                first = store.reachable(carried.first)
                media.add(store, first, again=len(first) // CHUNK_REF_SIZE)
                media.commit([], carried.roots)
                laid = media.pieces(*carried.first).pieces
            label = f"relocation {service}"
            yield figure(f"{label}: pieces", laid, "1", against=("before", pieces), at_most=1.0)
            for model in devices:
                after = _read(model, image, folder, store, carried)
                what = f"{label}, {model.name}: reads of what a resume reads first"
                goal = GOAL if model is MICRODRIVE else 1.0
                against = ("before", before[model.name])
                yield figure(what, after, "s", against=against, at_most=goal)


def _carry(recording: Recording, store: Store, media: Media, folder: Path) -> Carried:
    """A generation for each life but the first, with what the one before it touched."""
    carried = Carried([], [])
    for life in range(1, len(recording.lives)):
        volumes = {n: _volume(recording, life, n, store, folder) for n in ("disk0", "ram")}
        runs = [Run(t.volume, t.first, t.count) for _, t in recording.touches(life - 1)]

        def content(run: Run, roots: dict[str, TableRoot] = volumes) -> bytes:
            return store.read(roots[run.volume], run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)

        blob = store.import_bytes(encode_working_set([runs], content))
        carried = Carried([blob], [blob, *volumes.values()])
        media.add(store, store.reachable(carried.roots))
        media.commit([], carried.roots)
    return carried


def _volume(recording: Recording, life: int, name: str, store: Store, folder: Path) -> TableRoot:
    """A volume as that life found it: equal numbers are equal blocks, half of each compressible."""
    path = folder / "volume"
    held = recording.lives[life]
    with path.open("wb") as file:
        file.truncate(held.volumes[name] * BLOCK_SIZE)
        for block, number in sorted(held.content[name].items()):
            noise = random.Random(number).randbytes(BLOCK_SIZE // 2)
            file.seek(block * BLOCK_SIZE)
            file.write(noise + b"the other half " * 136 + b"........")
    try:
        return store.import_file(path)
    finally:
        path.unlink()


def _read(model: Device, image: Path, folder: Path, store: Store, carried: Carried) -> float:
    """Seconds for what a resume reads first, in its order, from a medium just plugged in."""
    refs = store.reachable(carried.first)
    with _modelled(model, image, folder) as root, Media.open(root) as media:
        began = time.perf_counter()
        for start in range(0, len(refs), AT_ONCE * CHUNK_REF_SIZE):
            assert media.records(refs[start : start + AT_ONCE * CHUNK_REF_SIZE])
        return time.perf_counter() - began


@contextlib.contextmanager
def _file_system(image: Path, folder: Path) -> Iterator[None]:
    with image.open("wb") as file:
        file.truncate(SIZE)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", str(image))
    with _mounted(image, folder):
        yield


@contextlib.contextmanager
def _mounted(device: Path, folder: Path, options: str = "loop") -> Iterator[None]:
    root = folder / "mount"
    root.mkdir(exist_ok=True)
    run("mount", "-t", "ext4", "-o", options, str(device), str(root))
    try:
        yield
    finally:
        run("umount", str(root))


@contextlib.contextmanager
def _modelled(model: Device, image: Path, folder: Path) -> Iterator[Path]:
    """The image mounted as if it were on that device."""
    disk = folder / "disk"
    plugin = Path(__file__).with_name("slow_device.py")
    settings = [f"file={image}", f"seek={model.seek}", f"rate={model.rate}"]
    with (
        device(disk, ["-r", "python", str(plugin), *settings], ["-r"]),
        _mounted(disk, folder, "loop,ro"),
    ):
        yield folder / "mount"


__all__ = ["figures", "quick_figures"]
