# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When an owner gives content before it is asked for: the one decision in which policies differ.

    write-invalidate  never: who reads asks for it
    write-update      after each write
    delayed-update    when a block was overwritten as often as it, or one beside it, was the last
                      time before the content was used elsewhere (Paiker et al., Section 3.3.2)
    optimal           what another node reads before the next write; the future is told

A policy is one node's and one share's; it is asked under the lock that guards the node's machine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Protocol

from shares.protocol.messages import FileId
from shares.protocol.node_blocks import Block


class Decision(Enum):
    """What an owner does with a block that was just written."""

    KEEP = 0
    PUSH = 1
    PUSH_TO_EVERYONE = 2


class PushPolicy(Protocol):
    """Told of what happens to blocks that this node owns. now: seconds, on the node's clock.

    declines: whether a node that has not read the last updates of a block wants no more of them
    """

    name: str
    declines: bool

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        """The block was written by this node, its owner. The decision about it."""
        ...

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        """Another node opens the file, which this one used alone, and wrote this block of. Whether
        home is to have the content ahead of the open's answer."""
        ...

    def unasked(self, file: FileId, block: Block) -> float:
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


class _StaticLearner:
    """Learns nothing beyond what is in the block."""

    declines = True

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return False

    def unasked(self, file: FileId, block: Block) -> float:
        return 0

    def asked(self, file: FileId, number: int, block: Block, now: float) -> None:
        pass

    def used(self, file: FileId, number: int, block: Block, now: float) -> None:
        pass

    def early(self, file: FileId, number: int, block: Block, now: float) -> None:
        pass


class WriteInvalidate(_StaticLearner):
    """Never pushes."""

    name = "write-invalidate"

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.KEEP

    def unasked(self, file: FileId, block: Block) -> float:
        return inf


class WriteUpdate(_StaticLearner):
    """Pushes what others have a use for after each write."""

    name = "write-update"
    declines = False

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.PUSH if block.wanted else Decision.KEEP

    def unasked(self, file: FileId, block: Block) -> float:
        return 0 if block.wanted else inf


AHEAD = 128
"""Blocks of a file, from its beginning on, that go home ahead of who opens it: who opens a file is
going to use it. The rest is asked for as it is read."""


FILES = 4096
"""Files whose last threshold is remembered; the one that was learnt first goes first."""


class DelayedUpdate(_StaticLearner):
    """Pushes when the counter of overwrites reaches the threshold. A block that has none yet goes
    by the one that was learnt last in its file, and else in any file; who had no copy before gets
    it as well, if it has the file open. The same is asked when a native file is opened elsewhere;
    there what has no threshold goes home too, but only from the beginning of the file."""

    name = "delayed-update"

    def __init__(self, files: int = FILES) -> None:
        self._limit = files
        self._files: OrderedDict[FileId, int] = OrderedDict()
        self._last: int | None = None

    def threshold(self, file: FileId, block: Block) -> int | None:
        """None: nothing was learnt, or it was wrong for this block."""
        if block.threshold is not None or block.relearns:
            return block.threshold
        return self._files.get(file, self._last)

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.PUSH_TO_EVERYONE if self._due(file, block) else Decision.KEEP

    def _due(self, file: FileId, block: Block) -> bool:
        threshold = self.threshold(file, block)
        return threshold is not None and block.overwritten >= threshold

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return number < AHEAD or self._due(file, block)

    def unasked(self, file: FileId, block: Block) -> float:
        threshold = self.threshold(file, block)
        if threshold is None:
            return inf
        # The first write of an owner does not count.
        return max(0, threshold - block.overwritten - (not block.untouched))

    def asked(self, file: FileId, number: int, block: Block, now: float) -> None:
        if block.threshold is None:
            return
        self._last = block.threshold
        self._files[file] = block.threshold
        self._files.move_to_end(file)
        if len(self._files) > self._limit:
            self._files.popitem(last=False)


Future = Callable[[FileId, int], bool]
"""Whether another node is going to read the block before anybody writes it again."""


class Optimal(_StaticLearner):
    """Is told the future, and so pushes exactly what is going to be read elsewhere, once."""

    name = "optimal"

    def __init__(self, elsewhere: Future) -> None:
        self._elsewhere = elsewhere

    def wrote(self, file: FileId, number: int, block: Block, now: float) -> Decision:
        return Decision.PUSH_TO_EVERYONE if self._elsewhere(file, number) else Decision.KEEP

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return self._elsewhere(file, number)


POLICIES: dict[str, Callable[[], PushPolicy]] = {
    WriteInvalidate.name: WriteInvalidate,
    WriteUpdate.name: WriteUpdate,
    DelayedUpdate.name: DelayedUpdate,
}
"""Those that a share can have, by name."""
