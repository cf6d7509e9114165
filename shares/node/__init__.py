# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of a share that acts: it keeps copies of blocks, and answers programs from them.

- share: a folder of home's that nodes see as one tree
- hub: a node's connection to home
- extent: size and times of a file, the content of its block -1
- entry: a name in a folder, with the attributes of what it names

Modules, from below: hub (what a node asks of home), operations (what a program asks of a node),
codec (what both say to each other, as bytes), remote (a hub at the other end of a channel),
membership (how a node joins) and current_hub (home, over one membership after the other).

Content: extent, buffer, access, sending (what a node sends home), windows, copies, pages, relaxed,
known_files, eviction, requests (what it asks home for), admission (what home's answer to an open
makes of a file), write_back (when it sends), and content, which is made of these.

Names and files: names and marks (what a node remembers), made_ahead, uses (who uses the files that
are open), handles (their numbers), statics, opener, file_handles, latest_attributes, folders,
creation, and node, which is made of these. Around it: losses (whom home went on without),
foresight, files (the file API), member (a node that joins again), and journal and what is read of
it.
"""

from shares.node import codec, losses
from shares.node.admission import AHEAD_OF_OPEN
from shares.node.buffer import Buffer
from shares.node.codec import encode
from shares.node.extent import BLOCK, Extent
from shares.node.file_handles import IDLE_SECONDS, WRITTEN_SECONDS
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
from shares.node.member import Member, Parking
from shares.node.membership import Caller, Ends, Join, Joined, LeaseOver, Membership, await_reply
from shares.node.node import Node
from shares.node.offloading import Offloading, Switched
from shares.node.operations import (
    EVERYTHING,
    FLOCK,
    KEEP_SIZE,
    PUNCH_HOLE,
    ROOT,
    ZERO_RANGE,
    Attributes,
    Changes,
    Entry,
    Handle,
    LockKind,
    Operations,
    Usage,
)
from shares.node.remote import HomeLink, RemoteHub, answer_request
from shares.node.uses import IDLE_FILES

__all__ = [
    "AHEAD_OF_OPEN",
    "BLOCK",
    "EVERYTHING",
    "FLOCK",
    "IDLE_FILES",
    "IDLE_SECONDS",
    "IMMUTABLE",
    "KEEP_SIZE",
    "LOSSES_KEPT",
    "OPENED_AHEAD",
    "PRIVATE",
    "PUNCH_HOLE",
    "ROOT",
    "SUCCESSIONS",
    "WRITTEN_SECONDS",
    "ZERO_RANGE",
    "Attributes",
    "Buffer",
    "Caller",
    "Changes",
    "Ends",
    "Entry",
    "Extent",
    "Handle",
    "HomeLink",
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
    "Parking",
    "RawFile",
    "RemoteHub",
    "Restored",
    "Switched",
    "TakenOver",
    "Unmade",
    "Usage",
    "answer_request",
    "await_reply",
    "codec",
    "encode",
    "find",
    "losses",
    "open_file",
    "open_handle",
]
