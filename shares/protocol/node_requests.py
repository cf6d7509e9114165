# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node asks home for about one file, and what the reply makes of its blocks."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from shares.protocol.messages import Acquire, Blocks, Fetch, FileId, Ownership, runs
from shares.protocol.node_blocks import Block
from shares.protocol.node_files import NodeFile


def copies(file: FileId, known: NodeFile, lacking: Iterable[int]) -> list[Fetch]:
    """Of blocks that cannot be read. Those that are owned, or on their way, are not asked for."""
    asked = []
    for first, count in runs([n for n in lacking if not _expected(known.blocks[n])]):
        run = range(first, first + count)
        for number in run:
            known.blocks[number].fetching = True
        versions = tuple(known.blocks[number].version for number in run)
        asked.append(Fetch(file, first, count, versions, known.relaxation > 0))
    return asked


def _expected(block: Block) -> bool:
    return block.fetching or block.owning or block.logging > 0 or block.owned


def ownership(
    file: FileId, known: NodeFile, numbers: range, whole: range, now: float
) -> list[Fetch | Acquire]:
    """Of blocks that cannot be written; and of others that are going to be written soon."""
    asked: list[Fetch | Acquire] = []
    for entirely in (False, True):
        lacking = [
            number
            for number in numbers
            if (number in whole) == entirely
            and not known.blocks[number].owned
            and not known.blocks[number].owning
        ]
        asked += _own(file, known, lacking, entirely)
    return asked


def _own(file: FileId, known: NodeFile, numbers: list[int], whole: bool) -> list[Acquire]:
    asked = []
    for first, count in runs(numbers):
        run = range(first, first + count)
        for number in run:
            known.blocks[number].owning = True
        versions = tuple(known.blocks[number].version for number in run)
        asked.append(Acquire(file, first, count, versions, whole))
    return asked


def copied(known: NodeFile, reply: Blocks, sent: float) -> list[int]:
    """Copies came; of which blocks the content is to be stored. sent: when they were asked for."""
    known.expected = False
    stored: list[int] = []
    words = zip(reply.numbers, reply.versions, reply.lent, strict=True)
    for number, version, lent in words:
        block = known.blocks[number]
        block.fetching = False
        if block.owned:
            continue
        fresh = number in reply.fresh
        stored += [number] if fresh else []
        block.came(version, fresh)
        block.valid = True
        block.shared = not known.native
        block.expires = sent + known.relaxation if lent else inf
    return stored


def granted(known: NodeFile, request: Acquire, reply: Ownership, now: float) -> list[int]:
    """The node is the owner; of which blocks the content is to be stored."""
    for number in reply.numbers:
        known.blocks[number].owning = False
    return _owned(known, reply, now, hollow=request.whole)


def given(known: NodeFile, message: Ownership, now: float) -> list[int]:
    """The same, of blocks that the node has not asked for, or has asked for since."""
    return _owned(known, message, now, hollow=False)


def _owned(known: NodeFile, reply: Ownership, now: float, *, hollow: bool) -> list[int]:
    known.expected = False
    stored: list[int] = []
    for place, number in enumerate(reply.numbers):
        block = known.blocks[number]
        if block.owned:
            continue
        block.grant = reply.grant
        early = block.pushed and not reply.used[place]
        fresh = number in reply.fresh
        stored += [number] if fresh else []
        block.came(reply.versions[place], fresh)
        block.valid, block.shared, block.expires = True, False, inf
        block.wanted = reply.shared[place]
        block.hollow = hollow
        if early:
            # Too early: it goes on counting, until somebody asks.
            block.threshold, block.relearns = None, True
            known.policy.early(reply.file, number, block, now)
        else:
            if block.pushed:
                known.policy.used(reply.file, number, block, now)
            block.overwritten, block.untouched = 0, True
        block.pushed = False
    return stored


def failed(known: NodeFile, request: Fetch | Acquire) -> None:
    for number in request.numbers:
        if isinstance(request, Acquire):
            known.blocks[number].owning = False
        else:
            known.blocks[number].fetching = False
