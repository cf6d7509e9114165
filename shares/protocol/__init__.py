# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The coherence protocol of shares, as pure state machines: no IO, no threads, no clock.

- node: who holds copies of blocks; 0 is home
- owner: the one node that has the latest content of a block and may write it without asking
- sharer: a node with a copy that is the latest
- reader: a node that had a copy when the owner began to write; a push goes to it
- version: counts how often content of a block came home

Both sides:  messages, policies (when to push)
A node:      node_machine; node_files and node_blocks (what it knows of a file and of a block),
             node_requests (what it asks home for), node_answers (to what home asks), node_rights
             (what may be done before the machine is asked)
Home:        home_machine; home_records (what it knows), home_questions (whom a request makes it
             ask), home_transitions (what the records become by the answers), home_actions (what it
             wants to be done), home_effects (the loop that has them done)
docs/shares.md tells the whole.
"""

from shares.protocol.home_actions import (
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
from shares.protocol.home_effects import Effects, answer_of_home, perform
from shares.protocol.home_machine import (
    HomeMachine,
)
from shares.protocol.home_records import Record
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
from shares.protocol.node_blocks import (
    Block,
)
from shares.protocol.node_machine import (
    NodeMachine,
)
from shares.protocol.node_rights import Rights
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
    "Done",
    "Effects",
    "Engage",
    "Engaged",
    "Fetch",
    "FileId",
    "Flush",
    "Future",
    "Granted",
    "HomeMachine",
    "Invalidate",
    "Invalidated",
    "Keep",
    "Log",
    "Message",
    "Native",
    "NodeId",
    "NodeMachine",
    "Opened",
    "Optimal",
    "Own",
    "Policy",
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
