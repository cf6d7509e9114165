# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cap of the doors of one identity, and of all doors of a host.

Each door is a process of about 14 MiB. It takes a byte of a file by a lock of fcntl(2), which the
kernel gives back when the process ends, however that happens.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

from satchel.errors import CapacityError

DOOR_BYTES = 14 << 20

MEMORY_PART = 2
"""All doors of a host together may take one part in so many of its memory."""


class TooManyDoors(CapacityError):
    """A key has as many links as it may have, or all keys of a host have."""


def take_door_place(folder: Path, identity: str, most: int, setting: str) -> None:
    """Count this process as a door of `identity` until it ends. folder: of the locks, made with
    mode 0700 if it is missing. setting: the name of the one that `most` is from. Raises
    TooManyDoors, OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    if not _take(folder / name, most):
        raise TooManyDoors(
            f"this key has no more than {most} links here",
            why=f"{most} are open ({setting})",
            fix="end some, or ask the operator of this host for more",
        )
    if not _take(folder / "all", most_doors()):
        raise TooManyDoors(
            f"this host has no more than {most_doors()} links",
            why="their doors would take too much of its memory",
            fix="try again later, or use another host",
        )


def most_doors() -> int:
    """Return the cap of all keys together. It follows from the memory of this host."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(16, memory // MEMORY_PART // DOOR_BYTES)


def _take(path: Path, most: int) -> bool:
    """Whether one of the first `most` bytes was free. It stays taken as long as this process."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for number in range(most):
        try:
            fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError:
            continue
        return True
    os.close(held)
    return False
