# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""QEMU of the next Debian on this one: it runs with that Debian's libraries, on this kernel.

`scripts/debian-13` makes the system that it is taken from. What asks for QEMU by its name finds it
where its folder comes first in PATH.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from satchel.errors import UnavailableError

ROOT = Path(__file__).parents[1]
SYSTEM = ROOT / "build" / "debian-13"
BINARY = "qemu-system-x86_64"

_PROGRAM = """\
#!/bin/sh
# {system}'s QEMU, with its loader and its libraries.
export QEMU_MODULE_DIR={system}/usr/lib/x86_64-linux-gnu/qemu
exec {system}/lib64/ld-linux-x86-64.so.2 --argv0 {binary} \\
  --library-path {system}/usr/lib/x86_64-linux-gnu {system}/usr/bin/{binary} \\
  -L {system}/usr/share/qemu -L {system}/usr/share/seabios "$@"
"""


def folder() -> Path:
    """The folder of that QEMU; the first time it is got from Debian, which takes minutes.

    Needs root and mmdebstrap. Raises UnavailableError where it cannot be had.
    """
    if not (SYSTEM / "usr" / "bin" / BINARY).exists():
        done = subprocess.run(
            [ROOT / "scripts" / "debian-13", "true"],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise UnavailableError(
                "the next Debian's QEMU cannot be had", why=(done.stdout + done.stderr)[-2000:]
            )
    program = SYSTEM / "satchel-qemu" / BINARY
    if not program.exists():
        program.parent.mkdir(exist_ok=True)
        made = program.with_name(".new")
        made.write_text(_PROGRAM.format(system=SYSTEM, binary=BINARY))
        made.chmod(0o755)
        made.rename(program)
    return program.parent
