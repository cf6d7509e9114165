# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One open file, and what programs want of it: accesses that go on when what they lack has come.

An access is told to `advance` with the lock of its content held, again whenever something came. It
is done when that returned no needs.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

from shares.node import clock
from shares.node.extent import LARGEST, Extent
from shares.node.operations import Attributes, Window
from shares.protocol import ATTRIBUTES, BLOCK, FileId, Message, Rounds

AHEAD_FIRST = 4
AHEAD_LIMIT = 128
"""Blocks that are fetched ahead of who reads in order: at first, and at most."""


@dataclass
class Demand:
    """The accesses of programs to a file.

    waiting: accesses that lack something. pinned: the access that must not lose block -1 until
    `pinned_until`. next, ahead: the block at which a reader in order continues, and the number of
    blocks that are fetched ahead of it
    """

    waiting: list[FileAccess] = field(default_factory=list)
    pinned: FileAccess | None = None
    pinned_until: float = 0.0
    next: int = 0
    ahead: int = 0


@dataclass
class SessionAccess:
    """The reads and writes that sessions do without asking the node.

    window: their way to do so. writes, size: the writes that were taken from the window, and the
    size that it was given or that was taken. complete: all of a native file is here; verify: the
    time of the next look at that
    """

    window: Window | None = None
    writes: int = 0
    size: int = 0
    complete: bool = False
    verify: float = 0.0

    def withdraw(self, blocks: range, *, read: bool) -> None:
        """Let nobody write, or read, these blocks without asking after the return. The caller takes
        what was written before it grants anything."""
        window = self.window
        if window is None:
            return
        first = max(blocks.start, 0)
        if window.whole:
            window.revoke_all()
        elif blocks.stop > first:
            window.revoke(first, blocks.stop - first, read=read)
        if ATTRIBUTES in blocks:
            window.unsure()

    def withdraw_all(self) -> None:
        """Do the same for everything."""
        if self.window is not None:
            self.window.revoke_all()
            self.window.unsure()

    def withdraw_whole(self) -> None:
        """Do the same if the window is a whole file's, before a program changes the file."""
        if self.window is not None and self.window.whole:
            self.window.revoke_all()

    def resize(self, window: Window, size: int) -> None:
        window.resize(size)
        self.size = size


@dataclass
class KernelPages:
    """The file's pages in the kernel: see `pages`.

    there: the kernel may have some. dropping: messages that wait until it has dropped some.
    cutting: programs of this node that set the file's size now
    """

    there: bool = False
    dropping: int = 0
    cutting: int = 0


@dataclass
class Rest:
    """The file after its last program.

    kept: it is native and stays so until another node opens it. closed: home was told so, and the
    content waits for the next open, here or elsewhere. spoken: how often home was told that it is
    written no more; answered: the last of these that home has answered
    """

    kept: bool = False
    closed: bool = False
    spoken: int = 0
    answered: int = 0


@dataclass
class OpenFile:
    """A file at a node, besides the machine's blocks and the buffer's content.

    attributes: what block -1 lacks; None: ask again. extent: the content of block -1 here;
    extent_came: it came with the open of a native file, and is the latest while that lasts.
    touched: the time of a write without ownership of block -1, in nanoseconds, that `modified` is
    to get; 0: none. behind: bytes written natively, or by sessions, since the last flush. sized:
    the size that home had last. refused: why home has not made a file that this node made ahead
    """

    file: FileId
    attributes: Attributes | None
    extent: Extent
    log: str
    extent_came: bool = False
    touched: int = 0
    behind: int = 0
    sized: int = field(init=False)
    refused: OSError | None = None
    demand: Demand = field(default_factory=Demand)
    session: SessionAccess = field(default_factory=SessionAccess)
    pages: KernelPages = field(default_factory=KernelPages)
    rest: Rest = field(default_factory=Rest)

    def __post_init__(self) -> None:
        self.sized = self.extent.size

    def resized(self) -> None:
        """Tell the window that the extent is the latest, and another. That of a whole file knows
        better."""
        window = self.session.window
        if window is None or window.whole or window.size == self.extent.size:
            return
        if self.log == "sync":
            window.unsure()  # nobody is to see the new size before it is logged
        else:
            self.session.resize(window, self.extent.size)

    def require(self) -> None:
        """Raise why home has not made it."""
        if self.refused is not None:
            raise OSError(*self.refused.args)


@dataclass(frozen=True)
class MissingBlocks:
    """Blocks that an access lacks. whole: those of which every byte is going to be written."""

    first: int
    count: int
    writes: bool
    whole: range = range(0)


class ContentView(Protocol):
    """What an access may ask of the content it is of. All of it with the lock held."""

    def readable(self, file: OpenFile, number: int) -> bool: ...
    def writable(self, file: OpenFile, number: int, *, whole: bool = False) -> bool: ...
    def get(self, file: OpenFile, offset: int, size: int) -> bytes: ...
    def put(self, file: OpenFile, offset: int, data: bytes, before: int, after: int) -> None:
        """Into blocks that are writable, with so many zeros before and after it: the machine is
        told, and what follows is posted."""
        ...

    def put_extent(self, file: OpenFile, extent: Extent, *, logged: bool) -> None:
        """Into block -1, which is writable. logged: by the policy, as what put writes is."""
        ...

    def reach(self, file: OpenFile, size: int) -> None:
        """Raise OSError: EFBIG if no file here can be so long."""
        ...

    def ahead_limit(self) -> int:
        """Blocks that may be fetched before somebody wants them."""
        ...

    def time(self) -> int:
        """Nanoseconds since 1970."""
        ...


class FileAccess(ABC):
    """Of one file. error: what the program gets in place of a result. logs: replies of home's log,
    without which it has not happened. pages: for the kernel, of a file that is mapped. began: on
    the node's clock.

    rounds: of its requests. The access that holds block -1 is `Demand.pinned`
    """

    def __init__(self, file: OpenFile, *, pages: bool = False) -> None:
        self.file = file
        self.began = clock.now()
        self.pages = pages
        self.rounds = Rounds()
        self.done = False
        self.error: OSError | None = None
        self.logs: list[list[Message | OSError]] = []

    @property
    def blocks(self) -> range:
        """Those whose content it is about."""
        return range(0)

    def pin(self) -> None:
        """Hold block -1, if no older access does."""
        self.file.demand.pinned = self.file.demand.pinned or self

    @abstractmethod
    def advance(self, blocks: ContentView) -> list[MissingBlocks]:
        """Do what can be done now; what is still lacking."""


class StatAccess(FileAccess):
    """Size and times."""

    def advance(self, blocks: ContentView) -> list[MissingBlocks]:
        if self.file.touched:
            if not blocks.writable(self.file, ATTRIBUTES):
                return [MissingBlocks(ATTRIBUTES, 1, writes=True)]
            touch(self.file, blocks)
        elif not blocks.readable(self.file, ATTRIBUTES):
            return [MissingBlocks(ATTRIBUTES, 1, writes=False)]
        self.result = self.file.extent
        return []


class SetExtent(FileAccess):
    """A greater size, or times. Nothing else that block -1 has is changed."""

    def __init__(
        self,
        file: OpenFile,
        size: int | None = None,
        accessed: int | None = None,
        modified: int | None = None,
    ) -> None:
        super().__init__(file)
        self._size, self._accessed, self._modified = size, accessed, modified

    def advance(self, blocks: ContentView) -> list[MissingBlocks]:
        if not blocks.writable(self.file, ATTRIBUTES):
            return [MissingBlocks(ATTRIBUTES, 1, writes=True)]
        old, now = self.file.extent, blocks.time()
        grows = self._size is not None and self._size > old.size
        if self._size is not None:
            blocks.reach(self.file, self._size)
        modified = self._modified if self._modified is not None else now if grows else old.modified
        extent = Extent(
            max(old.size, self._size or 0),
            old.accessed if self._accessed is None else self._accessed,
            modified,
            now,
        )
        self.file.touched = 0
        blocks.put_extent(self.file, extent, logged=True)
        self.result = extent
        return []


class TruncateAccess(FileAccess):
    """A smaller size, of a native file, without a word to home: what was behind it is overwritten
    with zeros, as by a write, so that home and who has copies learn that it is no more. done_here:
    whether that could be."""

    done_here = False

    def __init__(self, file: OpenFile, size: int) -> None:
        super().__init__(file)
        self._size = size

    def advance(self, blocks: ContentView) -> list[MissingBlocks]:
        file, size, old = self.file, self._size, self.file.extent
        begins_whole = size % BLOCK == 0 or blocks.writable(file, size // BLOCK)
        if not blocks.writable(file, ATTRIBUTES) or not begins_whole or old.size <= size:
            return []
        blocks.put(file, size, bytes(old.size - size), 0, -old.size % BLOCK)
        now = blocks.time()
        file.touched = 0
        blocks.put_extent(file, Extent(size, old.accessed, now, now), logged=True)
        self.done_here = True
        return []


class ReadAccess(FileAccess):
    """As many bytes as there are at that offset, and what is to be fetched ahead."""

    def __init__(self, file: OpenFile, offset: int, size: int, *, pages: bool = False) -> None:
        super().__init__(file, pages=pages)
        self._offset, self._size = offset, size
        self.result = b""

    @property
    def blocks(self) -> range:
        return range(*span(self._offset, self._size))

    def advance(self, blocks: ContentView) -> list[MissingBlocks]:
        needs = []
        if not blocks.readable(self.file, ATTRIBUTES):
            needs.append(MissingBlocks(ATTRIBUTES, 1, writes=False))
        # Where the size is not known, what was is a good guess of what to ask for meanwhile.
        size = max(0, min(self._size, self.file.extent.size - self._offset))
        first, end = span(self._offset, size)
        if self.rounds.together and needs:
            return needs
        if not all(blocks.readable(self.file, number) for number in range(first, end)):
            stop = end if self.rounds.together else self._ahead(blocks, first, end)
            needs.append(MissingBlocks(first, stop - first, writes=False))
        if needs:
            if self.rounds.together:
                self.pin()
            return needs
        self.result = blocks.get(self.file, self._offset, size) if size else b""
        self._note(first, end)
        return []

    def _ahead(self, blocks: ContentView, first: int, end: int) -> int:
        demand = self.file.demand
        if demand.next - 1 <= first <= demand.next and demand.ahead:
            blocks_of_file = -(-self.file.extent.size // BLOCK)
            ahead = min(demand.ahead, blocks.ahead_limit())
            end = max(end, min(end + ahead, blocks_of_file))
        return end

    def _note(self, first: int, end: int) -> None:
        """Fetch more ahead of reads in order, and nothing ahead of others."""
        demand = self.file.demand
        if demand.next - 1 <= first <= demand.next:
            demand.ahead = min(AHEAD_LIMIT, max(AHEAD_FIRST, demand.ahead * 2))
        else:
            demand.ahead = 0
        demand.next = end


class WriteAccess(FileAccess):
    """All of it, at the offset or, where that is None, at the end of the file, in one. Of pages
    what is in the file."""

    def __init__(
        self, file: OpenFile, offset: int | None, data: bytes, *, pages: bool = False
    ) -> None:
        super().__init__(file, pages=pages)
        self.result = 0
        self._appends = offset is None
        self._guessed = False
        self._offset, self._data = offset or 0, data

    @property
    def blocks(self) -> range:
        return range(0) if self._appends else range(*span(self._offset, len(self._data)))

    def advance(self, blocks: ContentView) -> list[MissingBlocks]:
        file = self.file
        if not self._data:
            return []
        offset = file.extent.size if self._appends else self._offset
        longer = self._appends or offset + len(self._data) > file.extent.size
        longer = longer and not self.pages
        sized = blocks.readable(file, ATTRIBUTES) or blocks.writable(file, ATTRIBUTES)
        if not sized or (longer and not blocks.writable(file, ATTRIBUTES)):
            return [MissingBlocks(ATTRIBUTES, 1, writes=longer), *self._guess(blocks, offset)]
        if self.pages:
            self._data = self._data[: max(0, file.extent.size - offset)]
        if not self._data:
            return []
        if offset + len(self._data) > LARGEST:
            self.error = OSError(errno.EFBIG, "a file cannot be that long")
            return []
        needs = self._lacking(blocks, offset)
        if needs:
            if longer or self.rounds.together:
                self.pin()
            return needs
        self._write(blocks, offset, longer)
        return []

    def _guess(self, blocks: ContentView, offset: int) -> list[MissingBlocks]:
        """What else to ask for while the size is not known: by the size that was; once, because
        what is granted to be overwritten goes back if it is not written then."""
        if self._guessed or self.rounds.together or offset + len(self._data) > LARGEST:
            return []
        self._guessed = True
        return self._lacking(blocks, offset)

    def _lacking(self, blocks: ContentView, offset: int) -> list[MissingBlocks]:
        file, data = self.file, self._data
        first, end = span(offset, len(data))
        whole = self._whole(offset)
        lacking = [
            number
            for number in range(first, end)
            if not blocks.writable(file, number, whole=number in whole)
        ]
        if not lacking:
            return []
        if not self.rounds.together:
            first, end = lacking[0], lacking[-1] + 1
        return [MissingBlocks(first, end - first, writes=True, whole=whole)]

    def _whole(self, offset: int) -> range:
        """Blocks of which every byte is written, or of which the file has none yet."""
        end_of_file = -(-self.file.extent.size // BLOCK)
        first, end = span(offset, len(self._data))
        from_block = min(-(-offset // BLOCK), max(first, end_of_file))
        to_block = (offset + len(self._data)) // BLOCK
        if end - 1 >= end_of_file:
            to_block = end
        return range(from_block, max(from_block, to_block))

    def _write(self, blocks: ContentView, offset: int, longer: bool) -> None:
        file, data = self.file, self._data
        end_of_file = -(-file.extent.size // BLOCK)
        first, end = span(offset, len(data))
        # Nothing is in the file yet of blocks behind its end, so what is not written is zeros.
        before = offset - first * BLOCK if first >= end_of_file else 0
        after = end * BLOCK - offset - len(data) if end > end_of_file else 0
        blocks.put(file, offset, data, before, after)
        now = blocks.time()
        if longer:
            old = file.extent
            file.touched = 0
            extent = Extent(max(old.size, offset + len(data)), old.accessed, now, now)
            blocks.put_extent(file, extent, logged=True)
        elif blocks.writable(file, ATTRIBUTES):
            file.touched = now
            touch(file, blocks)
        else:
            file.touched = now
        self.result = len(data)


def touch(file: OpenFile, blocks: ContentView) -> None:
    """Have the time of the last write here in block -1, which is writable."""
    old, when = file.extent, file.touched
    file.touched = 0
    modified, changed = max(old.modified, when), max(old.changed, when)
    blocks.put_extent(file, Extent(old.size, old.accessed, modified, changed), logged=False)


def span(offset: int, size: int) -> tuple[int, int]:
    """The first block of so many bytes at that offset, and the one after the last."""
    first = offset // BLOCK
    return first, -(-(offset + size) // BLOCK) if size else first
