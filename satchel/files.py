# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Small files that are written once and never seen half-written; lock files; the mode of new
files."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Replace `path` with `data`: a reader sees the old or the new, a crash leaves one of them.

    On return the new content is durable. Raises OSError and leaves the old file as it was.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def claimed(lock: Path) -> Iterator[bool]:
    """Within this the lock file, which is made, is nobody else's; whether that is so: False where
    another process has it, or there is no such folder. The file stays. Raises other OSErrors."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = True
    except BlockingIOError:
        ours = False
    try:
        yield ours
    finally:
        os.close(descriptor)


def new_mode() -> int:
    """Of a file that this process makes, by its umask. os.umask can only tell that by changing it,
    which other threads would see."""
    with open("/proc/self/status", encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("Umask:"):
                return 0o666 & ~int(line.split()[1], 8)
    return 0o644
