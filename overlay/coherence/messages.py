# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node and home say to each other about blocks.

A block of a file is 4096 bytes; the last one of a file is as long as the file reaches into it.
Number -1
is the block of the file's attributes. A message is about a run of blocks, `count` from `first` on;
per block it
has `versions` in that order, and `data` is the blocks' content, one after the other, each padded
to 4096
bytes with zeros.

    node to home, a request        its reply
    Fetch    want to read          Blocks
    Own      want to write         Granted
    Push     here is my content    Done, when the readers have it or have lost their copies
    Log      part of a block       Done, when it is durable at home (policy `sync`); else none
    Release  have it no more       Done

    home to node, a request        its reply
    Invalidate  forget your copy   Done, when no read is answered from it any more
    Recall      give me yours      Recalled
    Update      a newer content    Done

Messages of one connection arrive in the order in which they were sent. A node answers what home
asks
from the state that it is in, whatever it has asked itself meanwhile; home takes up one conflicting
request after the
other, so what a node asked with an old version is answered by what is true then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

NodeId = NewType("NodeId", int)

HOME = NodeId(0)

FileId = NewType("FileId", int)
"""64 bits, given by home, never given twice; the inode number at every node."""

ATTRIBUTES = -1
"""The number of the block that holds a file's attributes."""


@dataclass(frozen=True)
class Message:
    """About a run of blocks of one file. Instances are values; any thread may have one."""

    file: FileId
    first: int
    count: int


@dataclass(frozen=True)
class Fetch(Message):
    """Copies to read. versions: what the node has of each, 0 for nothing: what it has already is
    not sent again."""

    versions: tuple[int, ...]


@dataclass(frozen=True)
class Blocks(Message):
    """Copies that are the latest. fresh: numbers of the blocks whose content is in `data`; the
    others are as
    the node has them. expires: seconds for which they may be used unasked; None: until they are
    invalidated."""

    versions: tuple[int, ...]
    fresh: tuple[int, ...]
    expires: float | None
    data: bytes


@dataclass(frozen=True)
class Own(Message):
    """To be the owner. versions: as in Fetch. whole: every byte is going to be overwritten, so
    nobody need send any content."""

    versions: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Granted(Message):
    """The node is the owner. shared: of each block, whether somebody had a copy before, so that a
    push may be worth it."""

    versions: tuple[int, ...]
    fresh: tuple[int, ...]
    shared: tuple[bool, ...]
    data: bytes


@dataclass(frozen=True)
class Push(Message):
    """The owner's content, before somebody asks. After it the blocks are shared."""

    versions: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Log(Message):
    """What was written to a block of the owner's: `data` at `offset` in it. For the write log."""

    version: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Release(Message):
    """The node gives its copies up. data: of those that it owned, `dirty` by number; home is the
    owner then."""

    versions: tuple[int, ...]
    dirty: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Done(Message):
    """What was asked for has happened."""


@dataclass(frozen=True)
class Invalidate(Message):
    """Somebody else is going to write."""


@dataclass(frozen=True)
class Recall(Message):
    """Somebody else wants the content. keep: whether the node may keep a copy to read."""

    keep: bool


@dataclass(frozen=True)
class Recalled(Message):
    """The owner's content. fresh: the blocks that it owned and gives; it had no others."""

    versions: tuple[int, ...]
    fresh: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Update(Message):
    """Content that was pushed. A node that has no use for it says Done all the same."""

    versions: tuple[int, ...]
    data: bytes
