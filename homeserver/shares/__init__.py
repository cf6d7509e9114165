# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The shares of a home server: which there are, on disk, and the socket at which nodes join them.
What home does for a share is in shares.home.

Modules: shelf (which shares there are), shares (all of them, and their socket).
"""

from homeserver.shares.shares import Shares
from homeserver.shares.shelf import ShareDamaged, ShareShelf

__all__ = [
    "ShareDamaged",
    "ShareShelf",
    "Shares",
]
