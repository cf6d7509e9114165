# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Shares as folders of this machine's: a node of shares.node behind a session of shares.fuse.

- mountpoint: the folder at which a share is seen
- key: a short word for a mountpoint, for names of files about it

- journal: what a mount keeps on this machine's disk until home has it

Modules: mounted (one share at one mountpoint), id_mapping (whose files are, where users have other
numbers at home), background (how a program serves it), journals (what mounts have left).
"""

from shares.mount.background import Ready, run_until_signal, serve_here, serve_in_background
from shares.mount.journals import HomeIsBehind, Journals, waits
from shares.mount.mounted import MountedShare, mount_key

__all__ = [
    "HomeIsBehind",
    "Journals",
    "MountedShare",
    "Ready",
    "mount_key",
    "run_until_signal",
    "serve_here",
    "serve_in_background",
    "waits",
]
