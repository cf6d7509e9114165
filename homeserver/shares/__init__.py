# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The shares of a home server: which there are, on disk, and the socket at which nodes join them.
What home does for a share is in shares.home.

Modules: registry (which shares there are), shares (all of them, and their socket).
"""

from homeserver.shares.registry import ShareDamaged, ShareRegistry
from homeserver.shares.shares import Shares

__all__ = [
    "ShareDamaged",
    "ShareRegistry",
    "Shares",
]
