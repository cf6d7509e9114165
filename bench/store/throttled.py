# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk of a rate that is chosen: an ext4 on a loop device whose file is in memory.

The kernel lets the writes of one control group through at that rate (blkio of version 1, or io of
version 2), which costs no processor. Version 1 counts what is written past the page cache or by a
sync of the program itself.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.device import run
from satchel.errors import UnavailableError

_MEMORY = Path("/dev/shm")
_GROUPS = Path("/sys/fs/cgroup")
_SIZE = 12 << 30
"""Room for three times the content, below which imports compress all."""


@dataclass(frozen=True)
class Disk:
    """root: where it is mounted. limit: takes MB/s, 0 for none. group: whom the limit is for."""

    root: Path
    limit: Callable[[int], None]
    group: Path


@contextlib.contextmanager
def throttled_disk() -> Iterator[Disk]:
    """Raises UnavailableError where the kernel has no control group for it."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY)))
        image, root = folder / "image", folder / "mount"
        with image.open("wb") as file:
            file.truncate(_SIZE)
        root.mkdir()
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
        loop = run("losetup", "--find", "--show", str(image))
        stack.callback(run, "losetup", "--detach", loop)
        run("mount", "-o", "discard", loop, str(root))
        stack.callback(run, "umount", str(root))
        number = (
            Path("/sys/class/block", Path(loop).name, "dev").read_text(encoding="ascii").strip()
        )
        group, limit = stack.enter_context(_group(f"satchel-bench-{os.getpid()}", number))
        yield Disk(root, limit, group)


@contextlib.contextmanager
def _group(name: str, device: str) -> Iterator[tuple[Path, Callable[[int], None]]]:
    first = (_GROUPS / "blkio").is_dir()
    group = _GROUPS / "blkio" / name if first else _GROUPS / name
    group.mkdir()
    file = group / ("blkio.throttle.write_bps_device" if first else "io.max")

    def limit(rate: int) -> None:
        if first:
            file.write_text(f"{device} {rate * 10**6}", encoding="ascii")
        else:
            file.write_text(f"{device} wbps={rate * 10**6 or 'max'}", encoding="ascii")

    try:
        if not file.exists():
            raise UnavailableError("there is no control group that limits a disk's rate")
        yield group, limit
    finally:
        group.rmdir()
