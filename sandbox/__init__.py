# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cell around each machine: whoever breaks QEMU from inside a guest finds an empty room.

- cell: a room of one replica, in which its QEMU, nbdkit and nbdfuse run: namespaces, a root that
  holds what they need, a user of their own, no capabilities, filters, limits
- helper: nbdkit or nbdfuse, beside the machine itself
- part: machine or helpers, each with limits of its own
- plan: what a cell is made of

Modules: cells (whether there are any), room (one of them), groups (what it may take), access (what
its user may read), enter (becomes a program inside), stage (becomes bubblewrap as another user),
confine (a process of ours confines itself),
build (a cell for building an image).
docs/sandbox.md tells what it keeps out.
"""

from sandbox.build import build_cell
from sandbox.cells import CellImpossible, Cells, Setting, lacking, left, let_cells_read
from sandbox.confine import ConfinementImpossible, confine, require_confinement
from sandbox.groups import EVERYBODY
from sandbox.groups import clear as clear_groups
from sandbox.room import Cell, CellFailed, CellMounts

__all__ = [
    "EVERYBODY",
    "Cell",
    "CellFailed",
    "CellImpossible",
    "CellMounts",
    "Cells",
    "ConfinementImpossible",
    "Setting",
    "build_cell",
    "clear_groups",
    "confine",
    "lacking",
    "left",
    "let_cells_read",
    "require_confinement",
]
