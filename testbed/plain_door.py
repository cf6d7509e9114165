# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A door to whatever listens in one folder, for what needs a link and no daemon.

    Sshd.start(folder, door=plain_door(sockets))

A stream leads to the socket of its name there, and what is offered is in the folder `offered`
below it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wire import open_door


def plain_door(folder: Path) -> list[str]:
    """The command that is such a door. folder: of the sockets"""
    return [sys.executable, str(Path(__file__).resolve()), str(folder)]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    open_door(lambda name: place / name, lambda: place / "offered")
