# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of a share that acts: it keeps copies of blocks, and answers programs from them.

- share: a folder of home's that nodes see as one tree
- hub: a node's connection to home
- extent: size and times of a file, the content of its block -1
- entry: a name in a folder, with the attributes of what it names

Modules: hub (what a node asks of home), operations (what a program asks of a node), extent, codec
(what both say to each other, as bytes), remote (a hub at the other end of a channel), buffer,
membership (how a node joins), names and marks (what a node remembers), naming and statics (what it
answers by that), creating and made_ahead (files that it makes), access, sending (what a node sends
home), settling (when it does), opening (what home's answer to an open makes of a file), handles and
uses (who uses the files that are open), content and node (the node that acts), losses (whom home
went on without), files (the file API), member (a node that joins again).
"""

from shares.node import codec, losses
from shares.node.buffer import Buffer
from shares.node.codec import encode
from shares.node.extent import BLOCK, Extent
from shares.node.files import RawFile, find, open_file, open_handle
from shares.node.hub import (
    IMMUTABLE,
    OPENED_AHEAD,
    PRIVATE,
    SUCCESSIONS,
    Hub,
    Lease,
    Made,
    Making,
    Opened,
    OwnFolder,
    Unmade,
)
from shares.node.losses import LOSSES_KEPT, Losses, Restored, TakenOver
from shares.node.marks import Marks
from shares.node.member import Member
from shares.node.membership import Caller, Ends, Join, Joined, LeaseOver, Membership
from shares.node.node import IDLE_SECONDS, WRITTEN_SECONDS, Node
from shares.node.offloading import Offloading, Switched
from shares.node.opening import AHEAD_OF_OPEN
from shares.node.operations import (
    EVERYTHING,
    FLOCK,
    ROOT,
    Attributes,
    Changes,
    Entry,
    Handle,
    LockKind,
    Operations,
    Usage,
)
from shares.node.remote import RemoteHub, Uplink, answer_request
from shares.node.uses import IDLE_FILES

__all__ = [
    "AHEAD_OF_OPEN",
    "BLOCK",
    "EVERYTHING",
    "FLOCK",
    "IDLE_FILES",
    "IDLE_SECONDS",
    "IMMUTABLE",
    "LOSSES_KEPT",
    "OPENED_AHEAD",
    "PRIVATE",
    "ROOT",
    "SUCCESSIONS",
    "WRITTEN_SECONDS",
    "Attributes",
    "Buffer",
    "Caller",
    "Changes",
    "Ends",
    "Entry",
    "Extent",
    "Handle",
    "Hub",
    "Join",
    "Joined",
    "Lease",
    "LeaseOver",
    "LockKind",
    "Losses",
    "Made",
    "Making",
    "Marks",
    "Member",
    "Membership",
    "Node",
    "Offloading",
    "Opened",
    "Operations",
    "OwnFolder",
    "RawFile",
    "RemoteHub",
    "Restored",
    "Switched",
    "TakenOver",
    "Unmade",
    "Uplink",
    "Usage",
    "answer_request",
    "codec",
    "encode",
    "find",
    "losses",
    "open_file",
    "open_handle",
]
