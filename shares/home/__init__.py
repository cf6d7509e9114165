# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's part of a share: the tree that all nodes see, and who has what of it.

- session: one node, from its joining until its lease is over
- channel: what home and a node say to each other, in both directions and in order
- write log: what was written to blocks that another node owns
- own folder: one of which a single node knows anything
- grant: the number of a right to write, under which content was written

Modules: terms (what the owner says of a share), system_calls (that the standard library lacks),
index (file ids), tree (names, attributes, content), locks, write_log and group_commit (its answers,
when it is durable), grants (under which content was written), block_store (blocks and the log, as
home has them), grace (a start), marks (private and immutable files), detector (when a node is
lost), channel, session (a node), promises and own_folders (what nodes were told), coherence (the
directory acts), file_attributes, open_files, namespace (names), creations (files that nodes have
made ahead), share (all of these), calls (what home does for each call of a node), reception (how
nodes join), status.
"""

from shares.home import grants, write_log
from shares.home.channel import Arrived, Channel, Open, Reply
from shares.home.detector import LEASES, FaultDetector, LeaseDetector, Suspect
from shares.home.index import ShareIndexDamaged
from shares.home.reception import NodeRecord, Reception
from shares.home.session import NodeSession
from shares.home.share import Share
from shares.home.status import share_status
from shares.home.terms import PathRule, ShareRecord, Terms
from shares.home.tree import Tree
from shares.home.write_log import Lag, WriteLog

__all__ = [
    "LEASES",
    "Arrived",
    "Channel",
    "FaultDetector",
    "Lag",
    "LeaseDetector",
    "NodeRecord",
    "NodeSession",
    "Open",
    "PathRule",
    "Reception",
    "Reply",
    "Share",
    "ShareIndexDamaged",
    "ShareRecord",
    "Suspect",
    "Terms",
    "Tree",
    "WriteLog",
    "grants",
    "share_status",
    "write_log",
]
