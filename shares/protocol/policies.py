# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When an owner gives content before it is asked for: the one decision in which policies differ.

    write-invalidate  never: who reads asks for it
    write-update      after each write
    delayed-update    when a block was overwritten as often as it was the last time before the
                      content was used elsewhere (Paiker et al., Section 3.3.2)
    optimal           what another node reads before the next write; the future is told

A policy is one node's and one share's; it is asked under the lock that guards the node's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from math import inf
from typing import Protocol

from shares.protocol.messages import FileId
from shares.protocol.node_blocks import Block


class Decision(Enum):
    """What becomes of a block that was just written. LATER: it is asked about again when it has not
    been written for QUIET seconds."""

    KEEP = 0
    PUSH = 1
    PUSH_TO_EVERYONE = 2
    LATER = 3


ALONG = 16
"""Blocks that go along with one that is asked for, at most."""

QUIET = 0.1
"""Seconds. Longer than the pauses within what a program writes in one go, shorter than it takes
somebody to look at it elsewhere."""


class Policy(Protocol):
    """Told of what happens to blocks that this node owns. now: seconds, on the node's clock.

    declines: whether a node that has not read the last updates of a block wants no more of them.
    along: whether who asks for a block gets the others of the file with it that were written here
    and that others had
    """

    name: str
    declines: bool
    along: bool

    def together(self, file: FileId, number: int, now: float) -> Iterable[int]:
        """This node is about to ask for the ownership of a block. Which others to ask for with it,
        where they are here already."""
        ...

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        """The block was written by this node, its owner. The decision about it."""
        ...

    def quiet(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        """What it had decided LATER about was not written since, for QUIET seconds."""
        ...

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        """Another node opens the file, which this one used alone, and wrote this block of. Whether
        home is to have the content ahead of the open's answer."""
        ...

    def unasked(self, block: Block) -> float:
        """How often the block may be written before `wrote` has to be asked: it would be KEEP, and
        need not know of each of these writes at once."""
        ...

    def asked(self, file: FileId, number: int, block: Block, now: float) -> None:
        """Another node wanted the block before it was pushed."""
        ...

    def used(self, file: FileId, number: int, block: Block, now: float) -> None:
        """The block is going to be written here; others have read what was last pushed of it."""
        ...

    def early(self, file: FileId, number: int, block: Block, now: float) -> None:
        """The block is going to be written here, and what was last pushed of it nobody has read."""
        ...


class _Unmoved:
    """Learns nothing beyond what is in the block."""

    declines = True
    along = False

    def together(self, file: FileId, number: int, now: float) -> Iterable[int]:
        return ()

    def quiet(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.KEEP

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return False

    def unasked(self, block: Block) -> float:
        return 0

    def asked(self, file: FileId, number: int, block: Block, now: float) -> None:
        pass

    def used(self, file: FileId, number: int, block: Block, now: float) -> None:
        pass

    def early(self, file: FileId, number: int, block: Block, now: float) -> None:
        pass


class WriteInvalidate(_Unmoved):
    """Never pushes."""

    name = "write-invalidate"

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.KEEP

    def unasked(self, block: Block) -> float:
        return inf


class WriteUpdate(_Unmoved):
    """Pushes what others have a use for after each write."""

    name = "write-update"
    declines = False

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.PUSH if block.wanted else Decision.KEEP

    def unasked(self, block: Block) -> float:
        return 0 if block.wanted else inf


AHEAD = 128
"""Blocks of a file, from its beginning on, that go home ahead of who opens it: who opens a file is
going to use it. The rest is asked for as it is read."""


class DelayedUpdate(_Unmoved):
    """Pushes when the counter of overwrites reaches the threshold. Content that was written while
    nobody else had the file open has neither; it goes home when somebody opens it."""

    name = "delayed-update"

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        if block.wanted and block.threshold is not None and block.overwritten >= block.threshold:
            return Decision.PUSH
        return Decision.KEEP

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return number < AHEAD

    def unasked(self, block: Block) -> float:
        if not block.wanted or block.threshold is None:
            return inf
        # The first write of an owner does not count.
        return max(0, block.threshold - block.overwritten - (not block.untouched))


Future = Callable[[FileId, int], bool]
"""Whether another node is going to read the block before anybody writes it again."""


class Optimal(_Unmoved):
    """Is told the future, and so pushes exactly what is going to be read elsewhere, once."""

    name = "optimal"

    def __init__(self, elsewhere: Future) -> None:
        self._elsewhere = elsewhere

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.PUSH_TO_EVERYONE if self._elsewhere(file, number) else Decision.KEEP

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return self._elsewhere(file, number)


POLICIES: dict[str, Callable[[], Policy]] = {
    WriteInvalidate.name: WriteInvalidate,
    WriteUpdate.name: WriteUpdate,
    DelayedUpdate.name: DelayedUpdate,
}
"""Those that a share can have, by name."""
