# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What programs of the simulator do to blocks, whose content is a short value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from shares.node.content.lag import Replies
from shares.protocol import ATTRIBUTES, FileId, Rounds

Place = tuple[FileId, int]
VALUE = 12
"""Bytes of a block's content here."""

NOTHING = bytes(VALUE)


@dataclass(eq=False)
class Access:
    """What a program does: blocks of one file, read or written, block by block.

    whole: numbers of the blocks that are overwritten entirely. values: of the blocks read so far.
    failed: nobody knows whether it happened. logs: replies of home's log, without which it has not
    happened. guessed: other blocks were asked for before block -1 came. rounds: of its requests.
    since, asked: when it began, by the world's clock and by the node's
    """

    file: FileId
    numbers: list[int]
    value: bytes | None
    whole: range
    done: Callable[[Access], None]
    began: float
    left: list[int] = field(default_factory=list)
    logs: list[Replies] = field(default_factory=list)
    values: dict[int, bytes] = field(default_factory=dict)
    failed: bool = False
    guessed: bool = False
    since: float = 0.0
    asked: float = 0.0
    rounds: Rounds = field(default_factory=Rounds)

    @property
    def joint(self) -> bool:
        """Whether all of its blocks are read, or written, in one."""
        return len(self.numbers) > 1

    @property
    def longer(self) -> bool:
        """Whether it makes the file longer: block -1 is written with the others, or none is."""
        return self.writes and self.joint and ATTRIBUTES in self.numbers

    @property
    def writes(self) -> bool:
        return self.value is not None


@dataclass(eq=False)
class Cut:
    """What a program has home do to block -1, and to those behind a cut: each of them has `value`
    after it. To the machines that is what a truncation is, whichever way the size changes.

    first: the first block that home changes; UNCUT for a change of times alone. kept: that block,
    if a part of it stays: home has to see what it is. saw: what it was. end: the block behind the
    last one, where that is not the end of the file: home makes a hole. happened: at home
    """

    value: bytes
    first: int
    blocks: int
    kept: int | None = None
    end: float = inf
    before: bytes | None = None
    happened: bool = False

    @property
    def discard(self) -> int:
        """From here on what others have is not wanted."""
        return self.first if self.kept is None else self.first + 1

    @property
    def numbers(self) -> list[int]:
        """Of the blocks that are changed."""
        end = min(self.end, self.blocks)
        return [ATTRIBUTES, *(n for n in range(self.blocks) if self.first <= n < end)]

    def saw(self, value: bytes) -> None:
        self.before = value
