# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Carrying onto media, against writing as many bytes into one file of the same file system.

The medium is a model, so that the machine's disk has no say: an ext4 without a journal on a loop
device whose file nbdkit serves no faster than a given rate. A stick with exFAT is used by the
kernel in the same way: through its memory, in large writes, with a flush where one is asked for.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.device import device, mounted, run
from bench.harness import Figure, figure
from bench.store.inputs import make_inputs, run_folder
from chunkstore import Media, Store, TableRoot

GOAL = 0.9
RATE = 100
"""MiB/s that the medium takes: a good stick."""

ROUNDS = 3
SIZE = 4 << 30
BURST_SECONDS = 3
"""For so long nbdkit's filter lets through more than the rate after a pause; it allows for 2."""

_PIECE = 1 << 20


def media_figures(quick: bool) -> Iterator[Figure]:
    """All onto an empty medium, from a store as imports leave it and from a settled one, then
    what 1 % of changed blocks add."""
    inputs = make_inputs(quick)
    with run_folder() as folder:
        Store.create(folder / "store").close()
        with Store.open(folder / "store", level=0) as store:
            second = store.import_file(inputs["second"].path)
            for state in ("fresh", "settled"):
                if state == "settled":
                    store.settle()
                with modelled(folder) as root:
                    rounds = range(1 if quick else ROUNDS)
                    runs = [_against_one_file(root, store, second) for _ in rounds]
                yield _figure(f"media export, {state}", runs)
            changed = store.import_file(inputs["changed"].path, base=second)
            with modelled(folder) as root, Media.init(root) as media:
                carry(media, store, second)
                yield _figure("media sync of 1 % changed", [_timed(root, media, store, changed)])


def _figure(name: str, runs: list[tuple[int, float, float]]) -> Figure:
    """Of (bytes, our seconds, those of one file)."""
    ours = statistics.median(size / seconds for size, seconds, _ in runs) / 1e6
    plain = statistics.median(size / seconds for size, _, seconds in runs) / 1e6
    against = "one file of as many bytes, synced", plain
    bound = "the medium's rate", RATE * 2**20 / 1e6
    return figure(name, ours, "MB/s", against=against, at_least=GOAL, bound=bound)


def _against_one_file(root: Path, store: Store, volume: TableRoot) -> tuple[int, float, float]:
    place = root / "medium"
    place.mkdir()
    with Media.init(place) as media:
        run = _timed(root, media, store, volume)
    subprocess.run(["rm", "-r", place], check=True)
    return run


def _timed(root: Path, media: Media, store: Store, volume: TableRoot) -> tuple[int, float, float]:
    exhaust(root)
    began = time.perf_counter()
    size = carry(media, store, volume)
    ours = time.perf_counter() - began
    exhaust(root)
    return size, ours, write_file(root / "plain", size)


def carry(media: Media, store: Store, volume: TableRoot) -> int:
    """What a checkpoint does with its chunks; the bytes that were written."""
    size = media.add(store, store.reachable([volume]))
    media.commit([], [volume])
    return size


def exhaust(root: Path) -> None:
    """Nothing is left of what was saved up in a pause."""
    write_file(root / "plain", RATE * 10**6 * BURST_SECONDS)


def write_file(path: Path, size: int) -> float:
    """Seconds until it is durable; it is removed then."""
    piece = os.urandom(_PIECE)
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for start in range(0, size, _PIECE):
            file.write(piece[: size - start])
        os.fsync(file.fileno())
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


@contextlib.contextmanager
def modelled(folder: Path, *, made: bool = False) -> Iterator[Path]:
    """A mounted medium, or the one that was there before. Needs root."""
    image, disk, root = folder / "image", folder / "device", folder / "mount"
    if not made:
        with image.open("wb") as file:
            file.truncate(SIZE)
        options = ["-O", "^has_journal", "-E", "lazy_itable_init=0"]
        run("mkfs.ext4", "-q", "-F", *options, str(image))
    nbdkit = ["--filter=rate", "file", f"file={image}", f"rate={RATE * 8}M"]
    with device(disk, nbdkit), mounted(disk, root):
        yield root
