# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares as folders of this machine's: a node of overlay.shares behind a session of overlay.fuse.

- mountpoint: the folder at which a share is seen
- key: a short word for a mountpoint, for names of files about it

Modules: mounted (one share at one mountpoint), background (how a program serves it).
"""

from overlay.mounts.background import Ready, run_until_signal, serve_here, serve_in_background
from overlay.mounts.mounted import MountedShare, mount_key

__all__ = [
    "MountedShare",
    "Ready",
    "mount_key",
    "run_until_signal",
    "serve_here",
    "serve_in_background",
]
