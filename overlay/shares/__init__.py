# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of a share that acts: it keeps copies of blocks, and answers programs from them.

- share: a folder of home's that nodes see as one tree
- hub: a node's connection to home
- entry: a name in a folder, with the attributes of what it names

Modules: hub (what a node asks of home), operations (what a program asks of a node).
"""

from overlay.shares.hub import Hub, Opened
from overlay.shares.operations import (
    Attributes,
    Changes,
    Entry,
    Handle,
    LockKind,
    Operations,
    Usage,
)

__all__ = [
    "Attributes",
    "Changes",
    "Entry",
    "Handle",
    "Hub",
    "LockKind",
    "Opened",
    "Operations",
    "Usage",
]
