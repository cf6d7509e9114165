# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What may be done with blocks before the machine is asked again.

Who was given rights tells the machine later what was done: `did_read`, `did_write`. It
takes them back before the machine is told anything else about the blocks, and uses none of them
after `NodeMachine.until`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from shares.protocol.messages import FileId
from shares.protocol.node_blocks import Block
from shares.protocol.policies import PushPolicy


@dataclass(frozen=True)
class Rights:
    """Of each block of a run: to be read, and to be written so often; inf: without an end."""

    first: int
    count: int
    reads: bool
    writes: float


def rights(
    file: FileId,
    blocks: Mapping[int, Block],
    numbers: Iterable[int],
    policy: PushPolicy,
    native: bool,
    relaxed: bool,
) -> list[Rights]:
    """Runs of those of the blocks that there are rights to. numbers: ascending. relaxed: the share
    is, so nothing is pushed; and a copy that was invalidated is no matter of rights any more."""
    found: list[Rights] = []
    for number in numbers:
        block = blocks.get(number)
        if block is None or not block.valid or block.logging or block.hollow:
            continue
        owned = not block.shared
        reads = owned or not relaxed or block.expires == inf
        writes: float = 0
        if (native or owned) and not (block.fetching or block.owning):
            writes = inf if native or relaxed else policy.unasked(file, block)
        last = found[-1] if found else None
        if last and (last.first + last.count, last.reads, last.writes) == (number, reads, writes):
            found[-1] = Rights(last.first, last.count + 1, reads, writes)
        elif reads or writes:
            found.append(Rights(number, 1, reads, writes))
    return found
