# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of a share that acts: it keeps copies of blocks, and answers programs from them.

- share: a folder of home's that nodes see as one tree
- hub: a node's connection to home
- extent: size and times of a file, the content of its block -1
- entry: a name in a folder, with the attributes of what it names

Rooms, from above. `.importlinter` holds imports to this order:

- offloader: a task went to another node, or came back
- files: the file API; member: a node that joins again; recovery: what a mount has left gets home
- node: what programs ask, answered from copies and by home
- opened: files and folders as programs have them open
- content: the blocks of open files; names: names and attributes that are remembered
- journal: what was written and home has not confirmed
- hub: home, as a node reaches it
- extent: block -1 of a file
- operations: what programs ask of a node; clock: that of leases
"""

from shares.node.content.buffer import Buffer
from shares.node.content.file_table import AHEAD_OF_OPEN
from shares.node.extent import BLOCK, Extent
from shares.node.files import RawFile, find, open_file, open_handle
from shares.node.hub import codec, losses
from shares.node.hub.calls import Call, HomeLink, Wait
from shares.node.hub.codec import encode
from shares.node.hub.hub import (
    IMMUTABLE,
    OPENED_AHEAD,
    PRIVATE,
    SUCCESSIONS,
    Hub,
    LeaseGrant,
    NewEntry,
    Notices,
    OpenReply,
    OwnFolder,
    PendingCreate,
    RemovedEntry,
)
from shares.node.hub.losses import LOSSES_KEPT, Losses, NodeLoss, RestoreReport
from shares.node.hub.membership import (
    Caller,
    ConversationOwner,
    JoinReply,
    JoinRequest,
    LeaseOver,
    Membership,
    await_reply,
)
from shares.node.journal.conflicts import conflict_name
from shares.node.member import Member, ParkingPolicy
from shares.node.names.marks import Marks
from shares.node.node import Node
from shares.node.offloader import Offloader, OffloadReport
from shares.node.opened.file_handles import IDLE_SECONDS, WRITTEN_SECONDS
from shares.node.opened.uses import IDLE_FILES
from shares.node.operations import (
    EVERYTHING,
    FLOCK,
    KEEP_SIZE,
    PUNCH_HOLE,
    ROOT,
    ZERO_RANGE,
    Attributes,
    Changes,
    DirEntry,
    FileSystemUsage,
    Handle,
    LockKind,
    Operations,
)

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
    "Call",
    "Caller",
    "Changes",
    "ConversationOwner",
    "DirEntry",
    "Extent",
    "FileSystemUsage",
    "Handle",
    "HomeLink",
    "Hub",
    "JoinReply",
    "JoinRequest",
    "LeaseGrant",
    "LeaseOver",
    "LockKind",
    "Losses",
    "Marks",
    "Member",
    "Membership",
    "NewEntry",
    "Node",
    "NodeLoss",
    "Notices",
    "OffloadReport",
    "Offloader",
    "OpenReply",
    "Operations",
    "OwnFolder",
    "ParkingPolicy",
    "PendingCreate",
    "RawFile",
    "RemovedEntry",
    "RestoreReport",
    "Wait",
    "await_reply",
    "codec",
    "conflict_name",
    "encode",
    "find",
    "losses",
    "open_file",
    "open_handle",
]
