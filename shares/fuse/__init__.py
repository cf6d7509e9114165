# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""FUSE sessions: programs' calls on a mounted tree become calls of shares.node.Operations.

- session: answers the requests of one kernel, on as many threads as there are requests under way
- window: what of an open file a session reads and writes by itself, without Python
- whole: said of a window in which blocks are not looked at, because this node alone has the file
- relay: in a guest, what carries the messages of its /dev/fuse to a session outside

The session and its windows are C++ (libfuse 3, low level); what a tree is, is Python's. Modules:
session (mounting, life, invalidation); _native (the extension).
"""

from shares.fuse._native._fuse import Window
from shares.fuse.session import (
    NOTIFIED,
    FusermountMissing,
    MountFailed,
    MountSession,
    RelayedSession,
    SessionOptions,
    unmount_dead,
)

__all__ = [
    "NOTIFIED",
    "FusermountMissing",
    "MountFailed",
    "MountSession",
    "RelayedSession",
    "SessionOptions",
    "Window",
    "unmount_dead",
]
