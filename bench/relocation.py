# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a resume reads from a slow medium: before and after what it touches is laid first.

Twice, of the last life of a recorded service. Against a medium on which nothing was laid for it:
volumes as they are, read in the order of the machine's touches. And against a medium before `media
defrag`, which carried checkpoint after checkpoint, each with the working set that the life before
it taught: what does not change is not written again, so the newest working set lies in pieces.

What the life before did not teach is read from the volumes afterwards, in its order. Table pages
are not counted. The medium is an ext4 on a modelled device (slow_device.py): its time for a move of
the head, and its rate. Needs root.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.device import mounted, run, slow_device
from bench.harness import Figure, figure
from bench.recording import FOLDER, HELD_OUT, Recording
from chunkstore import Media, Store, TableRoot, name_blocks, split_refs
from replica import Run, encode_working_set
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ZERO_REF

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
    """A medium's newest checkpoint. first: its working set; touched: the chunks that the machine
    asks for, in order; strange: those of them that the working set lacks"""

    first: list[TableRoot]
    roots: list[TableRoot]
    touched: bytes
    strange: bytes


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
            yield from _of_service(service, recording, store, Path(name), devices)


def _of_service(
    service: str, recording: Recording, store: Store, folder: Path, devices: tuple[Device, ...]
) -> Iterator[Figure]:
    image, plain = folder / "image", folder / "plain"
    with _file_system(image, folder), Media.init(folder / "mount") as media:
        carried = _carry(recording, store, media, folder)
        pieces = media.pieces(*carried.first).pieces
    with _file_system(plain, folder), Media.init(folder / "mount") as media:
        volumes = carried.roots[1:]
        media.add(store, store.reachable(volumes))
        media.commit([], volumes)
    first = store.reachable(carried.first)
    read = first + carried.strange
    before = {d.name: _read(d, image, folder, read) for d in devices}
    never = {d.name: _read(d, plain, folder, carried.touched) for d in devices}
    with mounted(image, folder / "mount"), Media.open(folder / "mount") as media:
        media.add(store, first, again=len(first) // CHUNK_REF_SIZE)
        media.commit([], carried.roots)
        laid = media.pieces(*carried.first).pieces
    label = f"relocation {service}"
    yield figure(f"{label}: pieces", laid, "1", against=("before", pieces), at_most=1.0)
    for model in devices:
        after = _read(model, image, folder, read)
        what = f"{label}, {model.name}: reads of a resume"
        goal = GOAL if model is MICRODRIVE else 1.0
        against = ("nothing laid for it", never[model.name])
        yield figure(what, after, "s", against=against, at_most=goal)
        yield figure(f"{what}, defrag", after, "s", against=("before", before[model.name]))


def _carry(recording: Recording, store: Store, media: Media, folder: Path) -> Carried:
    """A generation for each life but the first, with what the one before it touched."""
    first, volumes, taught = [], {}, set[tuple[str, int]]()
    for life in range(1, len(recording.lives)):
        volumes = {n: _volume(recording, life, n, store, folder) for n in ("disk0", "ram")}
        runs = _runs(recording, life - 1)

        def content(run: Run, roots: dict[str, TableRoot] = volumes) -> bytes:
            return store.read(roots[run.volume], run.first * BLOCK_SIZE, run.count * BLOCK_SIZE)

        first = [store.import_bytes(encode_working_set([runs], content))]
        taught = {place for run in runs for place in run.blocks()}
        media.add(store, store.reachable([*first, *volumes.values()]))
        media.commit([], [*first, *volumes.values()])
    touched = [place for run in _runs(recording, life) for place in run.blocks()]
    strange = [place for place in touched if place not in taught]
    named = (_names(store, volumes, places) for places in (touched, strange))
    return Carried(first, [*first, *volumes.values()], *named)


def _runs(recording: Recording, life: int) -> list[Run]:
    return [Run(t.volume, t.first, t.count) for _, t in recording.touches(life)]


def _names(store: Store, volumes: dict[str, TableRoot], places: list[tuple[str, int]]) -> bytes:
    """The chunks in those places, each once, where it is first; zeros are none."""
    blocks = (store.read(volumes[name], at * BLOCK_SIZE, BLOCK_SIZE) for name, at in places)
    refs = split_refs(b"".join(name_blocks(block) for block in blocks))
    return b"".join(ref for ref in dict.fromkeys(refs) if ref != ZERO_REF)


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


def _read(model: Device, image: Path, folder: Path, refs: bytes) -> float:
    """Seconds for these chunks, in that order, from a medium just plugged in."""
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
    with mounted(image, folder / "mount"):
        yield


@contextlib.contextmanager
def _modelled(model: Device, image: Path, folder: Path) -> Iterator[Path]:
    """The image mounted as if it were on that device."""
    disk, root = folder / "disk", folder / "mount"
    with (
        slow_device(disk, image, seek=model.seek, rate=model.rate, readonly=True),
        mounted(disk, root, "loop,ro"),
    ):
        yield root


__all__ = ["figures", "quick_figures"]
