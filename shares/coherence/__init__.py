# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The coherence protocol of shares, as pure state machines: no IO, no threads, no clock.

- node: who holds copies of blocks; 0 is home
- owner: the one node that has the latest content of a block and may write it without asking
- sharer: a node with a copy that is the latest
- reader: a node that had a copy when the owner began to write; a push goes to it
- version: counts how often content of a block came home

Modules: messages (what nodes and home say to each other), node (the machine of a node), answers
(what it answers about one file), state (what it knows of a block), policies (when to push),
directory (home's machine), actions (what it wants to be done), records (what it knows), questions
(whom a request makes it ask), rights (what may be done before a node's machine is asked).
docs/shares.md tells the whole.
"""

from shares.coherence.actions import (
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
from shares.coherence.directory import (
    Directory,
)
from shares.coherence.messages import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    LONGEST,
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
from shares.coherence.node import (
    Node,
)
from shares.coherence.policies import (
    POLICIES,
    Decision,
    DelayedUpdate,
    Future,
    Optimal,
    Policy,
    WriteInvalidate,
    WriteUpdate,
)
from shares.coherence.predicted import Predicted
from shares.coherence.records import Record
from shares.coherence.rights import Rights
from shares.coherence.state import (
    Block,
)

__all__ = [
    "ATTRIBUTES",
    "BLOCK",
    "HOME",
    "LONGEST",
    "POLICIES",
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
    "content",
    "filled",
    "runs",
]
