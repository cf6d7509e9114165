# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node and home say to each other about blocks.

A block of a file is 4096 bytes; the last one of a file is as long as the file reaches into it.
Number -1 is the block of the file's attributes. A message is about a run of blocks, `count` from
`first` on. `fresh` are the numbers of the blocks whose content is in `data`, one after the other,
each padded to 4096 bytes with zeros. The machines make and read messages without data; who acts
puts the content in (`filled`) and takes it out (`content`).

    node to home, a request          its reply
    Fetch    want to read            Blocks
    Acquire  want to write           Ownership
    Push     here is my content      Ack: home has it, the readers are told
    Flush    home shall have it too  Ack
    Release  have it no more         Ack, or RefusalReply: home went on without this node
    LogWrite part of a block         Ack, when durable at home, or RefusalReply (policy `sync`; else
                                     nobody waits for it)

    home to node, a request          its reply
    Invalidate  forget your copy     InvalidateReply, when no read is answered from it any more
    Recall      give me yours        RecallReply
    Update      a newer content      UpdateReply
    Ownership   yours, unasked       UpdateReply
    Engage      not yours alone      EngageReply
    NativeGrant yours alone          Ack

Order is what all of this rests on. A connection is FIFO in both directions, replies and requests
in one stream, and both ends act in the order of arrival: a node handles a reply (machine, content,
the access that waited for it) before it answers a request that came after that reply, and home
sends in the order in which its directory said so. A node answers what home asks from the state
that it is in, whatever it has asked itself meanwhile, and never waits for home in order to answer.

A version counts how often content of a block came home. So who owns a block at version v has v or
something newer; what it gives of a block that it wrote is v + 1 for both ends. 0 is no version:
the node has nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NewType, TypeVar

NodeId = NewType("NodeId", int)

HOME = NodeId(0)

FileId = NewType("FileId", int)
"""64 bits, given by home, never given twice; the inode number at every node."""

ATTRIBUTES = -1
"""The number of the block that holds a file's attributes."""

BLOCK = 4096

LONGEST = 1024
"""Blocks that one message may be about."""


UNCUT = 1 << 62
"""No file has such a block."""


class Keep(Enum):
    """What a node that is asked still has of the block. STALE: what it has, for as long as the
    relaxation allows. LENT: with relaxation, it may stay the owner of what it is writing."""

    NOTHING = 0
    COPY = 1
    STALE = 2
    LENT = 3


@dataclass(frozen=True)
class Message:
    """About a run of blocks of one file. Instances are values; any thread may have one."""

    file: FileId
    first: int
    count: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Carrier(Message):
    """A message with content."""

    fresh: tuple[int, ...] = ()
    data: bytes = b""


@dataclass(frozen=True)
class Fetch(Message):
    """Copies to read. versions: what the node has of each, 0 for nothing: what it has already is
    not sent again. relaxed: whether copies that are lent will do."""

    versions: tuple[int, ...]
    relaxed: bool = False


@dataclass(frozen=True)
class Blocks(Carrier):
    """Copies that are the latest; those that are not fresh are as the node said that it has them.
    They may be used until they are invalidated. lent: of each, whether its owner writes on: then it
    may be used for the relaxation since the Fetch was sent, and nobody says when it grows old."""

    versions: tuple[int, ...] = ()
    lent: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Acquire(Message):
    """To be the owner of all of them at once. versions: as in Fetch. whole: the numbers of those of
    which every byte is going to be overwritten by the access that waits for this, so no content of
    them is sent to the node."""

    versions: tuple[int, ...]
    whole: range = range(0)


@dataclass(frozen=True)
class Ownership(Carrier):
    """The node is the owner. shared: of each block, whether others want it, so that a push may be
    worth it. used: of each, whether any of them read what this node last pushed. grant: the number
    under which the node writes them; home gives none twice. Unasked, to who has had the file cut:
    where that ends it is going to be written next."""

    versions: tuple[int, ...] = ()
    shared: tuple[bool, ...] = ()
    used: tuple[bool, ...] = ()
    grant: int = 0


@dataclass(frozen=True)
class Push(Carrier):
    """The owner's content, before somebody asks. After it the blocks are shared. everyone: for all
    that have the file open, and not only for those that had the blocks before."""

    everyone: bool = False


@dataclass(frozen=True)
class Flush(Carrier):
    """The owner's content, for home to have (fsync). The node goes on as the owner."""


@dataclass(frozen=True)
class Release(Carrier):
    """Blocks that the node owned and has no more. fresh: those that it wrote; the others are as
    home has them. Only owned blocks are released; copies are forgotten without a message. grant:
    under which they were written; after a lost connection this tells home whether somebody else
    has written them since."""

    grant: int = 0


@dataclass(frozen=True)
class LogWrite(Message):
    """What was written to a block of the owner's: `data` at `offset` in it. For the write log.
    count is 1."""

    offset: int
    data: bytes

    @property
    def size(self) -> int:
        """Bytes that were written."""
        return len(self.data)


@dataclass(frozen=True)
class Ack(Message):
    """What was asked for has happened."""


@dataclass(frozen=True)
class RefusalReply(Message):
    """Home took these blocks from the node meanwhile (its lease was over), and others have used
    them since. What the node has of them is not the share's content."""

    refused: tuple[int, ...]


@dataclass(frozen=True)
class Invalidate(Message):
    """Somebody else is going to write. keep: NOTHING, or STALE: then nobody waits for the answer,
    and the copy may be used on within the relaxation."""

    keep: Keep = Keep.NOTHING

    @property
    def waited_for(self) -> bool:
        """Whether the write waits for the answer."""
        return self.keep is Keep.NOTHING


@dataclass(frozen=True)
class InvalidateReply(Message):
    """used: of each block, whether it was read since it came."""

    used: tuple[bool, ...]


@dataclass(frozen=True)
class Recall(Message):
    """Somebody else wants the content. use: whether it is going to be read there, and not only
    overwritten; of block -1, whether the size is."""

    keep: Keep
    use: bool = True

    @property
    def waited_for(self) -> bool:
        """As of Invalidate: always."""
        return True


@dataclass(frozen=True)
class RecallReply(Carrier):
    """The owner's content. fresh: the blocks that it wrote; home has the others already. kept: of
    each, whether the node stays its owner; asked for with LENT alone."""

    kept: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Update(Carrier):
    """Content that was pushed; all of the run is fresh."""

    versions: tuple[int, ...] = ()


@dataclass(frozen=True)
class UpdateReply(Message):
    """kept: of each block, whether the node has it now."""

    kept: tuple[bool, ...]


@dataclass(frozen=True)
class Engage(Message):
    """Others use the file as well: blocks have owners from now on. About the file; first and count
    are 0. cut: from this block on the file is going to be cut off, so nothing there is wanted, and
    nothing is named. grant: the one that ends with this, under which the node has what it names;
    that of the open whose answer this has overtaken, perhaps."""

    cut: int = UNCUT
    grant: int = 0


@dataclass(frozen=True)
class EngageReply(Message):
    """Runs (first, count) of the blocks that the node wrote and owns, and of those that it has a
    copy of."""

    owned: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class NativeGrant(Message):
    """The node is the only one that has the file open. About the file; first and count are 0.
    grant: as in Ownership, for all of its blocks."""

    grant: int = 0


C = TypeVar("C", bound=Carrier)


def filled(message: C, block: Callable[[FileId, int], bytes]) -> C:
    """The message with the content of its fresh blocks. block: gives at most 4096 bytes."""
    return replace(
        message,
        data=b"".join(block(message.file, number).ljust(BLOCK, b"\0") for number in message.fresh),
    )


def content(message: Carrier) -> Iterator[tuple[int, bytes]]:
    """Numbers of the fresh blocks, and their 4096 bytes. Raises ValueError where the data is not as
    long as that, or a number is not of the run."""
    if len(message.data) != BLOCK * len(message.fresh):
        raise ValueError(f"{len(message.fresh)} blocks in {len(message.data)} bytes")
    if any(number not in message.numbers for number in message.fresh):
        raise ValueError("content of a block that the message is not about")
    for place, number in enumerate(message.fresh):
        yield number, message.data[place * BLOCK : (place + 1) * BLOCK]


def runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as runs (first, count), none longer than a message may be."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][0] + found[-1][1] == number and found[-1][1] < LONGEST:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found
