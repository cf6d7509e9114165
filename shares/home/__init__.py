# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's part of a share: the tree that all nodes see, and who has what of it.

- session: one node, from its joining until its lease is over
- channel: what home and a node say to each other, in both directions and in order
- write log: what was written to blocks that another node owns
- own folder: one of which a single node knows anything
- grant: the number of a right to write, under which content was written

Rooms, from above. `.importlinter` holds imports to this order:

- status; node_registry: how nodes join
- calls: home's answer to each call of a node
- share: a share, made of its parts
- directory: which node has what
- nodes: conversations and leases; storage: a share on home's disk
- terms: the owner's settings of a share
"""

from shares.home.node_registry import NodeRecord, NodeRegistry
from shares.home.nodes.channel import Arrived, Channel, Open, Reply
from shares.home.nodes.detector import LEASES, FaultDetector, LeaseDetector, Suspect
from shares.home.nodes.session import NodeSession
from shares.home.share import Share
from shares.home.status import share_status
from shares.home.storage import grants, write_log
from shares.home.storage.index import ShareIndexDamaged
from shares.home.storage.tree import Tree
from shares.home.storage.write_log import Lag, WriteLog
from shares.home.terms import PathRule, ShareRecord, Terms

__all__ = [
    "LEASES",
    "Arrived",
    "Channel",
    "FaultDetector",
    "Lag",
    "LeaseDetector",
    "NodeRecord",
    "NodeRegistry",
    "NodeSession",
    "Open",
    "PathRule",
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
