# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node knows of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from shares.protocol.messages import ATTRIBUTES, Message
from shares.protocol.node_blocks import Block
from shares.protocol.overwrites import RELEARNT, learnt_of
from shares.protocol.policies import PushPolicy


class FileGrant(NamedTuple):
    """What home has said of all of a file: the last grant, and whether that has ended. The later of
    two is the greater one."""

    grant: int
    ended: bool


@dataclass(slots=True)
class NodeFile:
    """What a node knows of a file that it has open, or had natively. expected: home is being asked
    to open it and has answered nothing since: what it says was said, perhaps, before it heard that
    the file was closed here, and then it does not count what the node takes. held: an access holds
    block -1. since: the first write
    after all that was written here was last given to home at once, on the node's clock"""

    policy: PushPolicy
    native: bool
    relaxation: float
    grant: int = 0
    opened: bool = True
    expected: bool = False
    held: bool = False
    since: float = inf
    blocks: defaultdict[int, Block] = field(default_factory=lambda: defaultdict(Block))

    @property
    def told(self) -> FileGrant:
        return FileGrant(self.grant, not self.native)

    def granted(self, grant: int) -> None:
        """What was written before its grant was known was written under this one, and so is what
        comes before `open`: a window's writes are taken in between."""
        self.grant = self.grant or grant
        for block in self.blocks.values():
            block.grant = block.grant or grant

    def forget_old(self) -> None:
        """Before the file is native: its blocks may be written in part then, as the latest; and
        nobody tells any more whether what was pushed was read."""
        for block in self.blocks.values():
            block.pushed = False
            if block.expires < inf:
                block.valid, block.expires = False, inf

    def cut(self, first: int) -> None:
        """The file ends before that block: what is here from it on is no content of the file. What
        is asked for is still waited for."""
        kept = [number for number in self.blocks if number < first]
        if len(kept) == len(self.blocks):
            return
        for number, block in self.blocks.items():
            if number >= first and (block.fetching or block.owning or block.logging):
                block.valid, block.dirty, block.version, block.given = False, False, 0, 0
                kept.append(number)
        behind = {n: self.blocks[n] for n in self.blocks.keys() - set(kept) if n < first + RELEARNT}
        learnt = dict(learnt_of(behind))
        self.blocks = defaultdict(Block, {number: self.blocks[number] for number in kept} | learnt)

    @property
    def dirty(self) -> list[int]:
        """Blocks that were written here and that home has not, ascending."""
        return sorted(number for number, block in self.blocks.items() if block.dirty)

    def pushable(self, block: Block) -> bool:
        """A reply that is on its way would replace what was pushed by what home had before. With
        relaxation nothing is: readers have copies that grow old, and ask for later ones."""
        busy = block.hollow or block.fetching or block.owning
        return block.owned and not (self.relaxation or busy)

    def about(self, message: Message) -> Iterable[tuple[int, Block]]:
        """The blocks of the message's that anything is known of."""
        for number in message.numbers:
            if number in self.blocks:
                yield number, self.blocks[number]


def made(policy: PushPolicy) -> NodeFile:
    """A file that the node has made by itself: native, under a grant that is not known yet, and
    with a block -1 that home has not."""
    file = NodeFile(policy, True, 0.0)
    block = file.blocks[ATTRIBUTES]
    block.valid, block.shared, block.dirty, block.mine = True, False, True, True
    return file
