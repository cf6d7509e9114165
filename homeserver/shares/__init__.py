# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's part of the overlay: the tree that all nodes see, and who has what of it.

- session: one node, from its joining until its lease is over
- write log: what was written to blocks that another node owns
- own folder: one of which a single node knows anything

Modules: native (system calls), index (file ids), tree (names, attributes, content), locks,
writelog, rights (under which content was written), content (blocks and the log, as home has them),
grace (a start), session (a node), promises and own_folders (what nodes were told), naming and
makings (names, by home and ahead of it), share (the directory acts), homehub (what a node asks),
shelf (which shares there are), shares (all of them, and their socket), status.
"""

from homeserver.shares.detector import FaultDetector, LeaseDetector, Suspect
from homeserver.shares.index import ShareIndexDamaged
from homeserver.shares.share import Share
from homeserver.shares.shares import Shares
from homeserver.shares.shelf import PathRule, ShareDamaged, ShareRecord, ShareShelf, Terms
from homeserver.shares.tree import Tree
from homeserver.shares.writelog import Lag, WriteLog

__all__ = [
    "FaultDetector",
    "Lag",
    "LeaseDetector",
    "PathRule",
    "Share",
    "ShareDamaged",
    "ShareIndexDamaged",
    "ShareRecord",
    "ShareShelf",
    "Shares",
    "Suspect",
    "Terms",
    "Tree",
    "WriteLog",
]
