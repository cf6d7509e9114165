# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How far home is behind of what was written here."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterable
from typing import Any

from shares.protocol import BLOCK, Ack, FileId, LogWrite, Message, NodeMachine, RefusalReply

LAG_BYTES = 16 << 20
"""What a node has written and home neither has nor has logged, with the log policy `async`; of a
native file, for each file. Who writes waits then."""

CONFIRMED_BYTES = 1 << 20
"""After so many bytes of logged writes home is asked to confirm."""

HOT = 5
"""Blocks of a file that its status names."""

Replies = list[Message | OSError]
"""Empty until the reply to a request, or why there is none, has come."""


def settle(logs: Iterable[tuple[LogWrite, Replies]], pending: list[Replies]) -> None:
    """What became of writes that home's log had not confirmed when a membership was over.
    pending: of the releases with which the node has brought to the next one what it had."""
    arrived = [reply for replies in pending for reply in replies]
    refused = {(r.file, n) for r in arrived if isinstance(r, RefusalReply) for n in r.refused}
    brought = all(pending) and not any(isinstance(reply, OSError) for reply in arrived)
    for message, replies in logs:
        about = (message.file, message.first, message.count)
        if not brought:
            replies.append(OSError(errno.EIO, "home is not reached"))
        elif (message.file, message.first) in refused:
            replies.append(RefusalReply(*about, (message.first,)))
        else:
            replies.append(Ack(*about))


def file_status(machine: NodeMachine, file: FileId, now: float, sent: float) -> dict[str, Any]:
    """What there is to say of a file's blocks here. sent: since when home has not answered what it
    was sent; inf: it has."""
    numbered = [(n, machine.block(file, n)) for n in machine.numbers(file) if n >= 0]
    _, seconds = machine.behind(file, now)
    behind = sum(block.dirty or block.given > 0 for _, block in numbered)
    hot = sorted(numbered, key=lambda item: -item[1].overwritten)[:HOT]
    return {
        "file": file,
        "native": machine.native(file),
        "valid": sum(block.valid for _, block in numbered),
        "owned": sum(block.owned for _, block in numbered),
        "home_is_behind_blocks": behind,
        "home_is_behind_bytes": behind * BLOCK,
        "home_is_behind_seconds": max(seconds, now - sent) if behind else 0.0,
        "hot": [
            {"block": n, "overwritten": b.overwritten, "threshold": b.threshold}
            for n, b in hot
            if b.overwritten
        ],
    }


def traffic_status(messages: Counter[str], sizes: Counter[str]) -> dict[str, dict[str, int]]:
    """By kind of message."""
    return {k: {"messages": messages[k], "bytes": sizes[k]} for k in sorted(messages)}
