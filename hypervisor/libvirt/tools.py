# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The programs that libvirt runs, where the users of domains get at them.

Satchel itself may lie in somebody's private folder. Libvirt asks each program what its QEMU can do
when it sees it first, and again when it was written anew; so one that is right is left alone.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypervisor.libvirt import emulator
from hypervisor.qemu import launch
from satchel.paths import cache_dir

PACKAGED = Path("/usr/bin/satchel-emulator")
"""The emulator of packages: AppArmor's profile of libvirt's daemon lets it run programs of
this folder."""

_SOURCES = {"emulator": Path(emulator.__file__), "launch.py": Path(launch.__file__)}


def installed(folder: Path) -> Path:
    """Make them be in `folder`, as they are in this version; the path of the emulator."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for name, source in _SOURCES.items():
        target, content = folder / name, source.read_bytes()
        if not target.is_file() or target.read_bytes() != content:
            new = folder / f".{name}"
            new.write_bytes(content)
            new.chmod(0o755)
            new.replace(target)
    return folder / "emulator"


def session_emulator() -> Path:
    """The path of the emulator for a user's libvirt, which runs it as that user."""
    with contextlib.suppress(OSError):
        if _code(PACKAGED) == _code(_SOURCES["emulator"]):
            return PACKAGED
    folder = cache_dir() / "libvirt"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return installed(folder)


def _code(program: Path) -> bytes:
    """The program without its first line, which packaging may rewrite."""
    return program.read_bytes().partition(b"\n")[2]
