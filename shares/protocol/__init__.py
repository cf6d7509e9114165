# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The coherence protocol of shares, as pure state machines: no IO, no threads, no clock.

- node: who holds copies of blocks; 0 is home
- owner: the one node that has the latest content of a block and may write it without asking
- sharer: a node with a copy that is the latest
- reader: a node that had a copy when the owner began to write; a push goes to it
- version: counts how often content of a block came home

Both sides:  messages, policies (when to push), predicted (one that learns)
A node:      node (its machine), files and state (what it knows of a file and of a block), requests
             (what it asks home for), answers (to what home asks), rights (what may be done before
             the machine is asked)
Home:        directory (its machine), records (what it knows), questions (whom a request makes it
             ask), replies (what the records become by them), actions (what it wants to be done),
             effects (the loop that has them done)
docs/shares.md tells the whole.
"""

from shares.protocol.actions import (
    Action,
    Append,
    Ask,
    Opened,
    Replay,
    Reply,
    Store,
    Taken,
    Token,
)
from shares.protocol.directory import (
    Directory,
)
from shares.protocol.effects import Effects, answer_of_home, perform
from shares.protocol.messages import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    LONGEST,
    UNCUT,
    Blocks,
    Carrier,
    Done,
    Engage,
    Engaged,
    Fetch,
    FileId,
    Flush,
    Granted,
    Invalidate,
    Invalidated,
    Keep,
    Log,
    Message,
    Native,
    NodeId,
    Own,
    Push,
    Recall,
    Recalled,
    Refused,
    Release,
    Update,
    Updated,
    content,
    filled,
    runs,
)
from shares.protocol.node import (
    Node,
)
from shares.protocol.policies import (
    POLICIES,
    Decision,
    DelayedUpdate,
    Future,
    Optimal,
    Policy,
    WriteInvalidate,
    WriteUpdate,
)
from shares.protocol.predicted import Predicted
from shares.protocol.records import Record
from shares.protocol.rights import Rights
from shares.protocol.state import (
    Block,
)

__all__ = [
    "ATTRIBUTES",
    "BLOCK",
    "HOME",
    "LONGEST",
    "POLICIES",
    "UNCUT",
    "Action",
    "Append",
    "Ask",
    "Block",
    "Blocks",
    "Carrier",
    "Decision",
    "DelayedUpdate",
    "Directory",
    "Done",
    "Effects",
    "Engage",
    "Engaged",
    "Fetch",
    "FileId",
    "Flush",
    "Future",
    "Granted",
    "Invalidate",
    "Invalidated",
    "Keep",
    "Log",
    "Message",
    "Native",
    "Node",
    "NodeId",
    "Opened",
    "Optimal",
    "Own",
    "Policy",
    "Predicted",
    "Push",
    "Recall",
    "Recalled",
    "Record",
    "Refused",
    "Release",
    "Replay",
    "Reply",
    "Rights",
    "Store",
    "Taken",
    "Token",
    "Update",
    "Updated",
    "WriteInvalidate",
    "WriteUpdate",
    "answer_of_home",
    "content",
    "filled",
    "perform",
    "runs",
]
