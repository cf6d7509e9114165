# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whom a request makes home ask, and what a node may say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf

from shares.protocol.home_records import (
    NOBODY,
    BlockRecord,
    FileRecord,
    OpenRequest,
    ReclaimRequest,
    Request,
)
from shares.protocol.messages import (
    ATTRIBUTES,
    HOME,
    LONGEST,
    UNCUT,
    Ack,
    Acquire,
    Carrier,
    Engage,
    EngageReply,
    Fetch,
    FileId,
    Invalidate,
    Keep,
    Message,
    NodeId,
    Recall,
    Release,
    runs,
)


def needed(known: FileRecord, request: Request) -> list[tuple[NodeId, Message]]:
    """Nothing, where the request can be answered from what home has."""
    if known.native not in {None, request.node}:
        assert known.native is not None
        wants, cut = request.wants, UNCUT
        if isinstance(wants, ReclaimRequest) and wants.kept == inf:
            cut = wants.discard
        return [(known.native, Engage(request.file, 0, 0, cut, known.grant))]
    if known.native is not None or isinstance(request.wants, OpenRequest):
        return []
    found: defaultdict[tuple[NodeId, Message], list[int]] = defaultdict(list)
    for number, record in _about(known, request):
        for node, kind in questions(known, request, number, record):
            found[node, kind].append(number)
    messages: list[tuple[NodeId, Message]] = []
    for (node, kind), numbers in found.items():
        for first, count in runs(sorted(numbers)):
            if isinstance(kind, Recall):
                recall = Recall(request.file, first, count, kind.keep, kind.use)
                messages.append((node, recall))
            else:
                messages.append((node, Invalidate(request.file, first, count)))
    return messages


def reads_clean(known: FileRecord, request: Request) -> bool:
    """Whether it reads what another node has natively, and home has all that this one wrote."""
    reads = isinstance(request.wants, Fetch | OpenRequest)
    return reads and known.native not in {None, request.node, *known.writing}


def awaits_engaged(known: FileRecord, request: Request) -> bool:
    """Whether it has to wait for the node that is engaging: who writes does, as that node has
    copies, and so does its own open, which would overtake Engage."""
    if known.engaging is None or isinstance(request.wants, Fetch):
        return False
    return not isinstance(request.wants, OpenRequest) or request.node == known.engaging


def _about(known: FileRecord, request: Request) -> Iterable[tuple[int, BlockRecord]]:
    if isinstance(request.wants, Fetch | Acquire):
        return [(number, known.record(number)) for number in request.wants.numbers]
    assert isinstance(request.wants, ReclaimRequest)
    return [
        (number, record)
        for number, record in known.blocks.items()
        if request.wants.takes(number)
        and number < max(0, request.end)
        and (record.owner != HOME or record.sharers)
    ]


def questions(
    known: FileRecord, request: Request, number: int, record: BlockRecord
) -> Iterable[tuple[NodeId, Message]]:
    """Who has to be asked what about one block, in messages that are about no block."""
    file, wants = request.file, request.wants
    owner = record.owner if record.owner not in {HOME, request.node} else None
    if number in request.lent:
        return
    if isinstance(wants, Fetch):
        if owner is not None:
            lent = known.relaxation > 0 and wants.relaxed
            yield owner, Recall(file, 0, 0, Keep.LENT if lent else Keep.COPY)
        return
    if isinstance(wants, Acquire):
        # With relaxation the other copies are told when the request is granted (`outdated`).
        keep = Keep.STALE if known.relaxation else Keep.NOTHING
        sharers = NOBODY if known.relaxation else record.sharers - {request.node}
        use = number not in wants.whole
    else:
        assert isinstance(wants, ReclaimRequest)
        keep, use = Keep.NOTHING, number == ATTRIBUTES and not wants.cuts
        sharers = record.sharers & {wants.by} if known.relaxation else record.sharers
    if owner is not None and isinstance(wants, ReclaimRequest) and wants.discards(number):
        yield owner, Invalidate(file, 0, 0)
    elif owner is not None:
        yield owner, Recall(file, 0, 0, keep, use)
    for node in sorted(sharers):
        yield node, Invalidate(file, 0, 0)


def outdated(
    known: FileRecord, node: NodeId, file: FileId, numbers: Iterable[int]
) -> list[tuple[NodeId, Message]]:
    """With relaxation: who has copies is told that they grow old from now on, but for the node that
    changes them. Nobody waits for that, and nobody counts as a sharer any more. It is before home's
    next answer to each of them, which is what the bound rests on. numbers: ascending."""
    if not known.relaxation or known.native is not None:
        return []
    found: defaultdict[NodeId, list[int]] = defaultdict(list)
    for number in numbers:
        record = known.record(number)
        for sharer in record.sharers - {node}:
            found[sharer].append(number)
        record.readers |= record.sharers
        record.sharers = NOBODY
    return [
        (sharer, Invalidate(file, first, count, Keep.STALE))
        for sharer, stale in sorted(found.items())
        for first, count in runs(stale)
    ]


def claims(known: FileRecord, node: NodeId, message: Carrier) -> tuple[list[int], list[int]]:
    """Of which blocks the node may say what their content is; and of which it may not. What is
    released may have been written before the node was taken for lost: there its grant decides."""
    taken, refused = [], []
    for number in message.numbers:
        record = known.blocks.get(number)
        owner = record.owner if record is not None else HOME
        if isinstance(message, Release):
            right = number not in message.fresh or known.takes(number, message.grant)
        else:
            right = node in {known.native, owner}
        if right:
            taken.append(number)
        elif number in message.fresh:
            refused.append(number)
    return taken, refused


def check(message: Message) -> None:
    whole = isinstance(message, EngageReply | Ack) and message.count == 0
    if not whole and (message.first < -1 or not 0 < message.count <= LONGEST):
        raise ValueError(f"a run of {message.count} blocks from {message.first} on")
    if isinstance(message, Carrier) and any(n not in message.numbers for n in message.fresh):
        raise ValueError("content of a block that the message is not about")


def part(message: Carrier, fresh: tuple[int, ...]) -> Carrier:
    """The message with the content of these blocks only."""
    if fresh == message.fresh:
        return message
    size = len(message.data) // max(len(message.fresh), 1)
    data = b"".join(
        message.data[place * size : (place + 1) * size]
        for place, number in enumerate(message.fresh)
        if number in fresh
    )
    return type(message)(message.file, message.first, message.count, fresh, data)
