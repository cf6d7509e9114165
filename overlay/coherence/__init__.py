# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The coherence protocol of shares, as pure state machines: no IO, no threads, no clock.

- node: who holds copies of blocks; 0 is home
- owner: the one node that has the latest content of a block and may write it without asking
- sharer: a node with a copy that is the latest
- reader: a node that had a copy when the owner began to write; a push goes to it
- version: of a block's content; grows with each change of owner and with each push

Modules: messages (what nodes and home say to each other). docs/shares.md tells the whole.
"""

from overlay.coherence.messages import (
    ATTRIBUTES,
    HOME,
    Blocks,
    Done,
    Fetch,
    FileId,
    Granted,
    Invalidate,
    Log,
    Message,
    NodeId,
    Own,
    Push,
    Recall,
    Recalled,
    Release,
    Update,
)

__all__ = [
    "ATTRIBUTES",
    "HOME",
    "Blocks",
    "Done",
    "Fetch",
    "FileId",
    "Granted",
    "Invalidate",
    "Log",
    "Message",
    "NodeId",
    "Own",
    "Push",
    "Recall",
    "Recalled",
    "Release",
    "Update",
]
