# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The model of a stick: an ext4 whose disk writes at a fixed rate.

The file system has no journal. nbdkit serves the file of its loop device no faster than RATE, so
the machine's own disk does not matter. The kernel uses a stick with exFAT in the same way: it
collects writes in memory, writes large pieces, and flushes on request.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from bench.device import device, mounted, run
from chunkstore import Store, TableRoot
from media import Media

RATE = 100
"""MiB/s that the stick writes: a good one."""

SIZE = 4 << 30
BURST_SECONDS = 3
"""Seconds for which nbdkit's filter may exceed the rate after a pause. Its limit is 2."""

_PIECE = 1 << 20


def carry(media: Media, store: Store, volume: TableRoot) -> None:
    """Write the volume's chunks as a checkpoint does."""
    media.add(store, store.reachable([volume]))
    media.commit([], [volume])


def exhaust(root: Path) -> None:
    """Write until the filter limits the rate again."""
    piece, left = os.urandom(_PIECE), RATE * 10**6 * BURST_SECONDS
    path = root / "plain"
    with path.open("wb", buffering=0) as file:
        while left > 0:
            left -= file.write(piece[:left])
        os.fsync(file.fileno())
    path.unlink()


@contextlib.contextmanager
def modelled(folder: Path, *, made: bool = False) -> Iterator[Path]:
    """Mount the stick of `folder` and yield its root. Needs root.

    made: the stick of an earlier call, with its content; otherwise an empty one.
    """
    image, disk, root = folder / "image", folder / "device", folder / "mount"
    if not made:
        with image.open("wb") as file:
            file.truncate(SIZE)
        options = ["-O", "^has_journal", "-E", "lazy_itable_init=0"]
        run("mkfs.ext4", "-q", "-F", *options, str(image))
    nbdkit = ["--filter=rate", "file", f"file={image}", f"rate={RATE * 8}M"]
    with device(disk, nbdkit), mounted(disk, root):
        yield root
