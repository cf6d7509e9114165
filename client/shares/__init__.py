# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares of home's on this client: folders of it, and what there is to say about them.

- way: the local socket that leads to where nodes join home's shares, over OpenSSH

Modules: way, mounts (their control sockets, and their journals).
"""

from client.shares.mounts import (
    control,
    journals,
    left_behind,
    mount_row,
    mount_rows,
    mounts,
    serve_mount,
    tell_mounts,
)
from client.shares.way import ShareWay, parking, share_way

__all__ = [
    "ShareWay",
    "control",
    "journals",
    "left_behind",
    "mount_row",
    "mount_rows",
    "mounts",
    "parking",
    "serve_mount",
    "share_way",
    "tell_mounts",
]
