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
             node_requests (what it asks home for), node_rounds (how an access asks until it has
             all), node_answers (to what home asks), node_rights (what may be done before the
             machine is asked)
Home:        home_machine; home_records (what it knows), home_questions (whom a request makes it
             ask), home_transitions (what the records become by the answers), home_actions (what it
             wants to be done), home_effects (the loop that has them done)
docs/shares.md tells the whole.
"""

from shares.protocol.home_actions import (
    Action,
    Append,
    Ask,
    FinishOpen,
    FinishReclaim,
    Replay,
    Reply,
    StoreContent,
    Token,
)
from shares.protocol.home_effects import Effects, answer_of_home, perform
from shares.protocol.home_machine import (
    HomeMachine,
)
from shares.protocol.home_records import BlockRecord
from shares.protocol.messages import (
    ATTRIBUTES,
    BLOCK,
    HOME,
    LONGEST,
    UNCUT,
    Ack,
    Acquire,
    Blocks,
    Carrier,
    Engage,
    EngageReply,
    Fetch,
    FileId,
    Flush,
    Invalidate,
    InvalidateReply,
    Keep,
    LogWrite,
    Message,
    NativeGrant,
    NodeId,
    Ownership,
    Push,
    Recall,
    RecallReply,
    RefusalReply,
    Release,
    Update,
    UpdateReply,
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
from shares.protocol.node_rounds import Rounds
from shares.protocol.policies import (
    POLICIES,
    Decision,
    DelayedUpdate,
    Future,
    Optimal,
    PushPolicy,
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
    "Ack",
    "Acquire",
    "Action",
    "Append",
    "Ask",
    "Block",
    "BlockRecord",
    "Blocks",
    "Carrier",
    "Decision",
    "DelayedUpdate",
    "Effects",
    "Engage",
    "EngageReply",
    "Fetch",
    "FileId",
    "FinishOpen",
    "FinishReclaim",
    "Flush",
    "Future",
    "HomeMachine",
    "Invalidate",
    "InvalidateReply",
    "Keep",
    "LogWrite",
    "Message",
    "NativeGrant",
    "NodeId",
    "NodeMachine",
    "Optimal",
    "Ownership",
    "Push",
    "PushPolicy",
    "Recall",
    "RecallReply",
    "RefusalReply",
    "Release",
    "Replay",
    "Reply",
    "Rights",
    "Rounds",
    "StoreContent",
    "Token",
    "Update",
    "UpdateReply",
    "WriteInvalidate",
    "WriteUpdate",
    "answer_of_home",
    "content",
    "filled",
    "perform",
    "runs",
]
