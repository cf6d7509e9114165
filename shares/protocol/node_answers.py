# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node answers about one file, where that is about nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import inf

from shares.protocol.messages import (
    Engage,
    EngageReply,
    FileId,
    Invalidate,
    InvalidateReply,
    Keep,
    Recall,
    RecallReply,
    Release,
    Update,
    UpdateReply,
    runs,
)
from shares.protocol.node_files import NodeFile

PATIENCE = 2
"""Updates in a row that may go unread before a node declines one."""


def invalidate(known: NodeFile | None, message: Invalidate, heard: float) -> InvalidateReply:
    """heard: since when the node knows of home that its copies were the latest."""
    used = dict.fromkeys(message.numbers, False)
    for number, block in known.about(message) if known else ():
        assert known is not None
        used[number] = block.valid and block.used
        if block.updated and not block.used:
            block.unread += 1
        if message.keep is Keep.STALE and known.relaxation:
            block.expires = min(block.expires, heard + known.relaxation)
            continue
        if block.owned:
            # Home has cut the file: what was written here is gone, and no version names it.
            block.version = 0
        block.valid, block.shared, block.dirty, block.updated = False, True, False, False
    return InvalidateReply(message.file, message.first, message.count, tuple(used.values()))


def recall(
    known: NodeFile | None,
    message: Recall,
    now: float,
    leased: float,
    heard: float,
    given: Callable[[FileId, int], None],
) -> RecallReply:
    """leased: until when the node has its lease; heard: as for `invalidate`; given: is told of each
    block whose content home is going to have."""
    fresh = []
    kept = dict.fromkeys(message.numbers, False)
    for number, block in known.about(message) if known else ():
        assert known is not None
        if message.keep is Keep.LENT and known.relaxation and block.lends:
            fresh.append(number)
            kept[number] = True
            given(message.file, number)
            continue
        owned = block.owned
        if owned:
            if block.dirty:
                fresh.append(number)
            if message.use and not block.untouched:
                block.threshold, block.relearns = block.overwritten, False
                known.policy.asked(message.file, number, block, now)
            given(message.file, number)
        if message.keep is Keep.STALE and known.relaxation:
            # An owner has the latest as long as its lease goes on.
            latest = min(now, leased) if owned else heard
            block.expires = min(block.expires, latest + known.relaxation)
        elif message.keep not in {Keep.COPY, Keep.LENT}:
            block.valid = False
        block.shared = True
        block.pushed = False
    about = (message.file, message.first, message.count)
    return RecallReply(*about, tuple(fresh), kept=tuple(kept.values()))


def update(known: NodeFile | None, message: Update) -> UpdateReply:
    """Takes what the node has a use for, and declines the rest."""
    kept = []
    for number, version in zip(message.numbers, message.versions, strict=True):
        if known is None or known.native:
            kept.append(False)
            continue
        block = known.blocks[number]
        # A request under way makes home count this node among the sharers: it may not decline.
        patient = block.unread < PATIENCE or not known.policy.declines
        wants = (patient and not known.expected) or block.fetching + block.owning > 0
        kept.append(wants)
        if wants:
            block.came(version, True)
            block.valid, block.shared, block.updated, block.expires = True, True, True, inf
            block.dirty = False
    return UpdateReply(message.file, message.first, message.count, tuple(kept))


def engage(known: NodeFile | None, message: Engage) -> EngageReply:
    """The file is not the node's alone any more."""
    if known is None:
        return EngageReply(message.file, 0, 0, (), ())
    known.native, known.grant = False, message.grant
    known.cut(message.cut)
    owned: list[int] = []
    copies: list[int] = []
    for number, block in sorted(known.blocks.items()):
        if not block.valid:
            continue
        block.shared = not block.dirty
        block.wanted = False
        if block.dirty:
            block.grant = known.grant
        if not block.dirty and not known.opened:
            block.valid = False
            continue
        (owned if block.dirty else copies).append(number)
    return EngageReply(message.file, 0, 0, tuple(runs(owned)), tuple(runs(copies)))


def releases(
    file: FileId, known: NodeFile, going: list[tuple[int, bool]], written: bool
) -> list[Release]:
    """By the grant under which they were written. going: numbers, and whether each was written."""
    numbers: defaultdict[int, list[int]] = defaultdict(list)
    for number, dirty in going:
        if dirty == written:
            numbers[known.blocks[number].grant].append(number)
    return [
        Release(
            file,
            first,
            count,
            tuple(range(first, first + count)) if written else (),
            b"",
            grant,
        )
        for grant, found in sorted(numbers.items())
        for first, count in runs(found)
    ]
