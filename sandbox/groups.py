# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Control groups of one cell, of either version: what its machine and its helpers may take at most.

A cell has two: `machine` for QEMU, `helpers` for nbdkit and nbdfuse. They are apart, because memory
of the guest is given back by writing it through the helpers: they must not wait for that.

Version 1: each controller has a tree of its own; a cell's groups are below ours in each. Version 2:
a group that holds a process, as ours does, has none below it that are limited. They are beside ours
where that is SUBGROUP of what systemd delegated to us, else below the top, where we may write
there. Where none can be made a cell does without, and says so.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

ROOT = Path("/sys/fs/cgroup")
PARTS = ("machine", "helpers")
CONTROLLERS = ("memory", "cpu", "pids", "io")

CPU_PERIOD_US = 100_000
EVERYBODY = 100
"""The weight that Linux gives a group."""

SUBGROUP = "daemon"
"""Of a unit's group: where its daemon is, so that others may be beside it. See systemd's
DelegateSubgroup."""

REMOVE_SECONDS = 5.0

_VERSION_1 = {"memory": "memory", "cpu": "cpu", "pids": "pids", "io": "blkio"}


@dataclass(frozen=True)
class ResourceShare:
    """What one part may take. memory: bytes. processors: how many it may keep busy. tasks:
    processes and threads."""

    memory: int
    processors: float
    tasks: int


@dataclass(frozen=True)
class Groups:
    """folders: those of each part. controllers: what is limited."""

    folders: Mapping[str, Sequence[Path]]
    controllers: tuple[str, ...]

    def tasks(self, part: str) -> list[str]:
        """The files into which a process of that part writes itself."""
        return [str(folder / "cgroup.procs") for folder in self.folders.get(part, ())]

    def weigh(self, weight: int) -> None:
        """What it gets of processors and disk while others want them, by their weights: 1 to 1000,
        and EVERYBODY until this is called. Where the kernel has no such weight, nothing changes."""
        values = {
            "cpu.weight": weight,
            "cpu.shares": weight * 1024 // EVERYBODY,
            "io.weight": f"default {weight}",
            "blkio.weight": max(weight, 10),
            "blkio.bfq.weight": weight,
        }
        for folder in {folder.parent for folders in self.folders.values() for folder in folders}:
            for name, value in values.items():
                if (folder / name).exists():
                    with contextlib.suppress(OSError):
                        (folder / name).write_text(str(value))

    def remove(self) -> None:
        """Once its processes have ended. What cannot be removed stays, and that is logged."""
        remove([folder for folders in self.folders.values() for folder in folders])


def remove(folders: Sequence[Path]) -> None:
    """See Groups.remove."""
    deadline = time.monotonic() + REMOVE_SECONDS
    left = [folder for folder in folders if folder.exists()]
    while left:
        for folder in left:
            with contextlib.suppress(OSError):
                folder.rmdir()
        left = [folder for folder in left if folder.exists()]
        if left and time.monotonic() > deadline:
            logger.warning("control groups stay: %s", ", ".join(map(str, left)))
            return
        if left:
            time.sleep(0.01)
    for parent in {folder.parent for folder in folders}:
        with contextlib.suppress(OSError):
            if parent.name.startswith("satchel-"):
                parent.rmdir()


def make(name: str, shares: Mapping[str, ResourceShare]) -> Groups:
    """Groups `satchel-NAME/PART` with those limits, as many of them as this host lets us make."""
    folders: dict[str, list[Path]] = {part: [] for part in PARTS}
    limited = []
    for controller in CONTROLLERS:
        parent, unified = _parent(controller)
        if parent is None:
            continue
        for part in PARTS:
            folder = parent / f"satchel-{name}" / part
            if not _make(folder, controller, shares[part], unified):
                break
            if folder not in folders[part]:
                folders[part].append(folder)
        else:
            limited.append(controller)
    return Groups(folders, tuple(limited))


def available() -> tuple[str, ...]:
    """The controllers with which groups can be made here."""
    share = ResourceShare(1 << 30, 1.0, 64)
    groups = make(f"{secrets.token_hex(3)}-{os.getpid()}", dict.fromkeys(PARTS, share))
    groups.remove()
    return groups.controllers


def clear() -> None:
    """Remove groups that a process left which died, and in which nothing runs."""
    parents = {parent for one in CONTROLLERS if (parent := _parent(one)[0])}
    for folder in (folder for parent in parents for folder in parent.glob("satchel-*-*")):
        number = folder.name.rpartition("-")[2]
        if number.isdecimal() and not Path("/proc", number).exists():
            for path in (*(folder / part for part in PARTS), folder):
                with contextlib.suppress(OSError):  # something runs in it: it is taken over
                    path.rmdir()


def _make(folder: Path, controller: str, share: ResourceShare, unified: bool) -> bool:
    try:
        folder.parent.mkdir(exist_ok=True)
        if unified:
            (folder.parent / "cgroup.subtree_control").write_text(f"+{controller}")
        folder.mkdir(exist_ok=True)
        values = _unified(controller, share) if unified else _version_1(controller, share)
        known = {name: value for name, value in values.items() if (folder / name).exists()}
        if not known:
            raise OSError(errno.ENOTSUP, "this kernel has no limit of that kind")
        for name, value in known.items():
            (folder / name).write_text(value)
    except OSError as error:
        logger.debug("no control group %s for %s: %s", folder, controller, error)
        for path in (folder, folder.parent):
            with contextlib.suppress(OSError):
                path.rmdir()
        return False
    return True


def _version_1(controller: str, share: ResourceShare) -> dict[str, str]:
    quota = str(int(share.processors * CPU_PERIOD_US))
    return {
        "memory": {"memory.limit_in_bytes": str(share.memory)},
        "cpu": {"cpu.cfs_period_us": str(CPU_PERIOD_US), "cpu.cfs_quota_us": quota},
        "pids": {"pids.max": str(share.tasks)},
        "io": {"blkio.weight": str(EVERYBODY), "blkio.bfq.weight": str(EVERYBODY)},
    }[controller]


def _unified(controller: str, share: ResourceShare) -> dict[str, str]:
    return {
        "memory": {"memory.max": str(share.memory), "memory.swap.max": "0"},
        "cpu": {"cpu.max": f"{int(share.processors * CPU_PERIOD_US)} {CPU_PERIOD_US}"},
        "pids": {"pids.max": str(share.tasks)},
        "io": {"io.weight": f"default {EVERYBODY}"},
    }[controller]


def _parent(controller: str) -> tuple[Path | None, bool]:
    """Below which folder groups of that controller are made, and whether that is version 2."""
    ours = _ours()
    mounts = _mounts()
    if (old := mounts.get(_VERSION_1[controller])) and _VERSION_1[controller] in ours:
        within = old / ours[_VERSION_1[controller]].lstrip("/")
        return (within if within.is_dir() else old), False
    top = mounts.get("")
    if top is None:
        return None, True
    own = top / ours.get("", "/").lstrip("/")
    for folder in (own.parent if own.name == SUBGROUP else own, top):
        if _enable(folder, controller):
            return folder, True
    return None, True


def _enable(folder: Path, controller: str) -> bool:
    """Whether groups in that folder can have that controller; it is turned on there.

    Not in a group that holds processes, unless it is the root of all. The kernel would turn on some
    controllers there all the same, and then let no process into any group below: systemd could not
    even run what reloads a unit.
    """
    try:
        if not os.access(folder, os.W_OK):
            return False
        if (folder / "cgroup.type").exists() and (folder / "cgroup.procs").read_text():
            return False
        if controller not in (folder / "cgroup.controllers").read_text().split():
            return False
        control = folder / "cgroup.subtree_control"
        if controller not in control.read_text().split():
            control.write_text(f"+{controller}")
    except OSError:
        return False
    return True


def _ours() -> dict[str, str]:
    """The group that this process is in, by controller; "" is version 2."""
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _mounts() -> dict[str, Path]:
    """Where each controller's tree is mounted; "" is version 2."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        place, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        point = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), place.split()[4])
        if kind == "cgroup2":
            found.setdefault("", Path(point))
        elif kind == "cgroup":
            for controller in options.split(" ")[-1].split(","):
                found.setdefault(controller, Path(point))
    return found
