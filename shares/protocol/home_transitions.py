# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home's records become by the replies to its questions.

Each raises ValueError for a reply that does not fit.
"""

from __future__ import annotations

from shares.protocol.home_actions import Action, StoreContent
from shares.protocol.home_questions import part
from shares.protocol.home_records import NOBODY, FileRecord, Request
from shares.protocol.messages import (
    HOME,
    LONGEST,
    EngageReply,
    InvalidateReply,
    Keep,
    NodeId,
    Ownership,
    Recall,
    RecallReply,
    Update,
    UpdateReply,
)


def invalidated(known: FileRecord, node: NodeId, message: InvalidateReply) -> None:
    if len(message.used) != message.count:
        raise ValueError("not one word on each block")
    for number, used in zip(message.numbers, message.used, strict=True):
        record = known.record(number)
        record.sharers -= {node}
        record.readers |= {node}
        if record.owner == node:
            record.owner = HOME
        if used and record.pusher not in {None, node}:
            record.used = True


def used_late(known: FileRecord, message: InvalidateReply) -> None:
    """Nobody waited for this: who pushed it learns it with its next grant."""
    for number, used in zip(message.numbers, message.used, strict=False):
        known.record(number).used_before = used


def recalled(
    known: FileRecord, node: NodeId, recall: Recall, request: Request | None, message: RecallReply
) -> list[Action]:
    """request: what it was asked for. The content that came is to be stored."""
    fresh = []
    if len(message.kept) != message.count:
        raise ValueError("not one word on each block")
    for number, kept in zip(message.numbers, message.kept, strict=True):
        record = known.record(number)
        if record.owner == node:
            if number in message.fresh:
                record.version += 1
                fresh.append(number)
            if kept and recall.keep is Keep.LENT:
                if request is not None:
                    request.lent.add(number)
                continue
            record.owner = HOME
            if recall.keep in {Keep.COPY, Keep.LENT}:
                record.sharers |= {node}
        if recall.keep not in {Keep.COPY, Keep.LENT}:
            record.sharers -= {node}
            record.readers |= {node}
    return [StoreContent(node, part(message, tuple(fresh)))] if fresh else []


def updated(
    known: FileRecord, node: NodeId, about: Update | Ownership, message: UpdateReply
) -> None:
    """What the node did not take it does not have."""
    if len(message.kept) != message.count:
        raise ValueError("not one word on each block")
    for number, kept in zip(message.numbers, message.kept, strict=True):
        if not kept:
            record = known.record(number)
            record.sharers -= {node}
            record.readers -= {node}
            given = isinstance(about, Ownership) and record.grant == about.grant
            if given and record.owner == node:
                record.owner = HOME


def engaged(known: FileRecord, node: NodeId, message: EngageReply) -> None:
    for first, count in (*message.owned, *message.copies):
        if first < -1 or not 0 < count <= LONGEST:
            raise ValueError(f"a run of {count} blocks from {first} on")
    copies = [n for first, count in message.copies for n in range(first, first + count)]
    if known.engaging == node:
        if message.owned:
            raise ValueError("blocks that were written without asking")
        known.engaging = None
        for number in copies:
            known.record(number).sharers |= {node}
        return
    known.native = None
    for record in known.blocks.values():
        record.owner = HOME
    for number in copies:
        known.record(number).sharers = frozenset({node})
    for first, count in message.owned:
        for number in range(first, first + count):
            record = known.record(number)
            record.owner, record.sharers = node, NOBODY
            record.granted(known.grant)
