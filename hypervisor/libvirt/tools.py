# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The programs that libvirt runs, where the users of domains get at them.

Satchel itself may lie in somebody's private folder. Libvirt asks each program what its QEMU can do
when it sees it first, and again when it was written anew; so one that is right is left alone.
"""

from __future__ import annotations

from pathlib import Path

from hypervisor.libvirt import emulator
from hypervisor.qemu import launch

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
