# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whether this host can make cells, whose user they are, and what they may take."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal, Protocol

from sandbox import groups
from sandbox.room import Cell, CellFailed, CellMounts, CellPlan
from satchel.confinement import HOST, Confinement
from satchel.errors import UnsupportedError

logger = logging.getLogger(__name__)

Setting = Literal["auto", "off"]

MEMORY_SPARE = 320 << 20
"""Bytes that a machine may take beside its guest's memory, and its helpers beside what they write:
QEMU's code translated from the guest's has 256 MiB of them at most."""

TASKS = {"machine": 160, "helpers": 384}
HELPER_PROCESSORS = 2.0
OVERHEAD_PROCESSORS = 1.0

_POOL = (0x70000000, 1 << 24)
"""The first of the users that cells get when we are root, and how many there are. Debian's policy
leaves these numbers to nobody."""

_PROGRAMS = ("qemu-system-x86_64", "nbdkit", "nbdfuse")


CELL_UMASK = 0o022
"""The strictest that lets a cell's user read what root makes."""

DRIVERS = ("qemu", "libvirt-session")
"""Those of which each machine is one process that a cell can hold."""


class CellSettings(Protocol):
    """What settings of a program say about cells."""

    @property
    def cell(self) -> Setting: ...

    @property
    def cell_off_as_root(self) -> bool: ...


class NamedDriver(Protocol):
    """A driver, as far as it matters here."""

    @property
    def name(self) -> str: ...


class CellImpossible(UnsupportedError):
    """This host cannot sandbox machines, and the operator allows none without a sandbox."""


class Cells:
    """Makes the cells of one program. Thread-safe.

    reason: why there are none; empty where there are.
    """

    def __init__(self, setting: Setting = "auto", *, root_may_do_without: bool = False) -> None:
        """Try it once. Raises CellImpossible for root without cells, unless it may do without."""
        self.reason = "they are turned off" if setting == "off" else lacking()
        if self.reason and os.geteuid() == 0 and not root_may_do_without:
            raise CellImpossible(
                "cannot run machines as root without a cell around each of them",
                why=self.reason,
                fix="install bubblewrap and allow user namespaces, start it as another user, or say"
                " cell-off-as-root = true where no stranger's machine runs",
            )
        if not self.reason:
            groups.clear()
        elif setting != "off":
            logger.warning("machines run without cells: %s", self.reason)

    @classmethod
    def of(cls, settings: CellSettings, driver: NamedDriver) -> Cells | None:
        """As settings say; None for a driver whose machines are no processes that cells can hold.
        Raises CellImpossible."""
        if driver.name not in DRIVERS:
            return None
        return cls(settings.cell, root_may_do_without=settings.cell_off_as_root)

    @functools.cached_property
    def text(self) -> str:
        """For people: whether there are cells, and what limits them."""
        if self.reason:
            return f"off: {self.reason}"
        limited = groups.available()
        if "memory" in limited:
            return f"on, limits of {', '.join(limited)} by control groups"
        rest = f"{', '.join(limited)} by control groups, " if limited else ""
        return f"on, limits of {rest}memory by rlimits alone: control groups cannot be written"

    def room(
        self,
        seen: CellMounts,
        *,
        memory: int,
        written: int = 0,
        processors: int,
        kvm: bool,
    ) -> Confinement:
        """A room for a machine; the host itself where there are no cells.

        memory: bytes of the guest. written: what its helpers may hold of what it writes to disks,
        where the folder is in memory. processors, kvm: what the machine has. Raises CellFailed,
        AccessError.
        """
        if self.reason:
            return HOST
        share = groups.ResourceShare
        shares = {
            "machine": share(
                memory + MEMORY_SPARE, processors + OVERHEAD_PROCESSORS, TASKS["machine"]
            ),
            "helpers": share(memory + written + MEMORY_SPARE, HELPER_PROCESSORS, TASKS["helpers"]),
        }
        device = Path("/dev/kvm")
        largest = max((path.stat().st_size for path in seen.volumes), default=0)
        return Cell.make(
            CellPlan(
                seen=dataclasses.replace(seen, readable=[*seen.readable, *programs()]),
                uid=_pooled() if os.geteuid() == 0 else None,
                devices=[device] if kvm and device.exists() else [],
                file_limit=largest + (1 << 20),
                shares=shares,
            )
        )


def let_cells_read(private: Path) -> None:
    """As root: let the users of cells read the files that this process makes from now on, where its
    umask would forbid it; `private`, the folder that they are in, is closed to all others then. A
    program calls it once, before it has threads."""
    if os.geteuid() != 0:
        return
    strict = os.umask(CELL_UMASK)
    if strict & ~CELL_UMASK == 0:
        os.umask(strict)
    elif private.is_dir():
        private.chmod(0o700)


def left(folder: Path) -> Confinement:
    """The room in which the machine of that folder runs, which an earlier process of ours made."""
    return Cell.adopt(folder) or HOST


def lacking() -> str:
    """What this host lacks for cells, one clause; empty if it makes one."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (apt install bubblewrap)"
    try:
        with tempfile.TemporaryDirectory(prefix="satchel-cell-") as name:
            folder = Path(name)
            share = groups.ResourceShare(1 << 30, 2, 64)
            uid = _pooled() if os.geteuid() == 0 else None
            plan = CellPlan(
                CellMounts(folder), uid, [], 1 << 20, dict.fromkeys(groups.PARTS, share)
            )
            cell = Cell.make(plan)
            try:
                done = cell.run(["/usr/bin/true"])
            finally:
                cell.end()
            return "" if done.returncode == 0 else f"a program in one ended: {done.stdout.strip()}"
    except (CellFailed, OSError) as error:
        return f"one cannot be made here ({error})"


def programs() -> list[Path]:
    """What a machine is started with and is not part of the system below /usr."""
    found = [shutil.which(name) for name in _PROGRAMS]
    paths = {Path(one).resolve() for one in found if one} | {Path(one) for one in found if one}
    paths |= {Path(sys.base_prefix).resolve(), Path(sys.executable)}
    return sorted(path for path in paths if not path.is_relative_to("/usr"))


def _pooled() -> int:
    """A user that nobody else is: one of so many that no two cells get the same."""
    first, count = _POOL
    ends = [0]
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, _, length = map(int, line.split())
        ends.append(inside + length)
    if max(ends) < first + count:  # in a container, which has fewer
        count = 1 << 12
        first = max(1, max(ends) - count)
    return first + secrets.randbelow(count)
