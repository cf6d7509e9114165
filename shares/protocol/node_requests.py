# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node asks home for about one file, and what the reply makes of its blocks."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from shares.protocol.messages import Acquire, Blocks, Fetch, FileId, Ownership, runs
from shares.protocol.node_blocks import Block
from shares.protocol.node_files import NodeFile


def copies(file: FileId, known: NodeFile, lacking: Iterable[int], *, together: bool) -> list[Fetch]:
    """Return the requests for blocks that cannot be read. Those that are owned, or on their way,
    are not asked for, unless all are wanted together."""
    asked = []
    wanted = [
        number
        for number in lacking
        if not (known.blocks[number].owned if together else _expected(known.blocks[number]))
    ]
    for first, count in runs(wanted):
        run = range(first, first + count)
        for number in run:
            known.blocks[number].fetching += 1
        versions = _versions(known, run)
        asked.append(Fetch(file, first, count, versions, known.relaxation > 0))
    return asked


def _expected(block: Block) -> bool:
    return block.fetching > 0 or block.owning > 0 or block.logging > 0 or block.owned


def _versions(known: NodeFile, run: range) -> tuple[int, ...]:
    """A block without content has a version only by name."""
    blocks = [known.blocks[number] for number in run]
    return tuple(0 if block.hollow else block.version for block in blocks)


def ownership(
    file: FileId, known: NodeFile, numbers: range, whole: range, *, together: bool
) -> list[Fetch | Acquire]:
    """Return the requests for blocks that cannot be written, and for others that are going to be
    written soon. Edges and blocks that are overwritten entirely are in one request: of two nodes
    that asked for them apart, each could take from the other what that one still waited with."""
    lacking = [
        number
        for number in numbers
        if together or not (known.blocks[number].owned or known.blocks[number].owning)
    ]
    asked: list[Fetch | Acquire] = []
    for first, count in runs(lacking):
        run = range(first, first + count)
        for number in run:
            known.blocks[number].owning += 1
        entirely = range(max(first, whole.start), min(run.stop, whole.stop))
        asked.append(Acquire(file, first, count, _versions(known, run), entirely or range(0)))
    return asked


def copied(known: NodeFile, reply: Blocks, sent: float) -> list[int]:
    """Copies came; of which blocks the content is to be stored. sent: when they were asked for."""
    known.expected = False
    stored: list[int] = []
    words = zip(reply.numbers, reply.versions, reply.lent, strict=True)
    for number, version, lent in words:
        block = known.blocks[number]
        block.fetching = max(0, block.fetching - 1)
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
        known.blocks[number].owning = max(0, known.blocks[number].owning - 1)
    return _owned(known, reply, now, request.whole)


def given(known: NodeFile, message: Ownership, now: float) -> list[int]:
    """The same, of blocks that the node has not asked for, or has asked for since."""
    return _owned(known, message, now, range(0))


def _owned(known: NodeFile, reply: Ownership, now: float, whole: range) -> list[int]:
    known.expected = False
    stored: list[int] = []
    for place, number in enumerate(reply.numbers):
        block = known.blocks[number]
        hollow = number in whole
        if block.owned and (hollow or not block.hollow):
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
        block = known.blocks[number]
        if isinstance(request, Acquire):
            block.owning = max(0, block.owning - 1)
        else:
            block.fetching = max(0, block.fetching - 1)
