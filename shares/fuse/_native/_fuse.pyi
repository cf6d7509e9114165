# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
# The extension, by hand: what shares/fuse/binding.cc defines.

from typing import ClassVar

from shares.node.operations import Operations

class Window:
    """Where a session reads and writes an open file without asking: a file, and per block of 4096
    bytes whether it may be read, and how often it may be written before Python is asked.

    One window serves all opens of a file (Handle.window), at once or one after another, in any
    number of sessions. Blocks are where they are in the share's file: block n at n * 4096. A read
    or write is answered here only if every block of it may be; reads end at `size`, writes beyond
    it are asked, and so are those of a file opened with O_APPEND. With the whole file granted,
    what blocks may is not looked at, and writes may make it longer.

    Thread-safe. What revokes waits for answers under way, which themselves wait only for the file
    system below.
    """

    UNLIMITED: ClassVar[int]

    def __init__(self, fd: int, size: int) -> None:
        """`fd`, which is duplicated, is open for what will be granted, without O_APPEND. `size` is
        the share's file's, in bytes; the file behind `fd` may be shorter, with nothing there."""

    def grant(self, first: int, count: int = 1, *, read: bool = True, writes: int = 0) -> None:
        """Adds to what may be done with blocks. After `writes` writes of a block the next is
        asked; granting any begins to count anew, except of blocks that may be written already:
        these keep count and limit. ValueError beyond 32 TiB."""

    def grant_whole(self, *, write: bool) -> None:
        """All of the file is read here, and written if `write`, until revoke_all."""

    def revoke(self, first: int, count: int = 1, *, read: bool) -> None:
        """Takes away writing, and reading if `read`. Returns when no answer that began before is
        under way; what the kernel has cached is for Session.invalidate, afterwards."""

    def revoke_all(self, *, read: bool = True) -> None:
        """The same of the whole file's grant, and of every block."""

    def resize(self, size: int) -> None:
        """The share's file has this size, and ends there. Returns when no answer by the old one is
        under way."""

    def unsure(self) -> None:
        """The file may be longer by now: reads beyond its size are asked until the next resize.
        Returns as resize."""

    def mark_in(self, fd: int) -> None:
        """From now on each write notes in that file, which is duplicated, which blocks it was
        about, and the file's size where it made that longer: docs/formats/mount-journal.md."""

    def generation(self, generation: int) -> None:
        """What is marked from now on is marked with that number."""

    def until(self, seconds: float) -> None:
        """All rights end at that time of CLOCK_BOOTTIME, unless this is called again; inf, as at
        first: they do not."""

    def allow(self, *, writes: float, fresh: float) -> None:
        """After so many writes, or where more blocks than `fresh` would become dirty, the next
        write is asked. At first there is no limit."""

    def counts(self, first: int, count: int) -> list[int]:
        """Writes that were answered here since they were last granted or taken, per block."""

    def take_counts(self, first: int, count: int) -> list[int]:
        """The same, and they begin at 0. What may still be written is counted from there."""

    def take_dirty(self) -> list[tuple[int, int]]:
        """Blocks that were written here since the last call: first and number of each run. The
        bytes of an answer that is under way may be in the file before its block is dirty, never
        after."""

    def take_written(self) -> bool:
        """Whether something was written here since the last call. What was is in the other takes
        then, or will be with the next True."""

    def take_paged(self) -> bool:
        """`paged`, which is false then."""

    def take_modified(self) -> int:
        """`modified`, which is 0 then."""

    def take_used(self) -> list[tuple[int, int]]:
        """Blocks that were read or written here since the last call."""

    @property
    def whole(self) -> bool: ...
    @property
    def exact(self) -> bool:
        """Whether the file ends at `size`: not after `unsure`."""

    @property
    def written(self) -> bool:
        """What take_written would say."""

    @property
    def paged(self) -> bool:
        """Whether the kernel was given pages to keep, because a program has mapped the file."""

    @property
    def size(self) -> int:
        """Grows with writes to a whole file."""

    @property
    def modified(self) -> int:
        """When it was last written here, in nanoseconds since 1970; 0: never."""

    @property
    def reads(self) -> int:
        """Requests that were answered here."""

    @property
    def writes(self) -> int: ...

class NativeSession:
    @staticmethod
    def mounted(operations: Operations, fd: int, threads: int) -> NativeSession: ...
    @staticmethod
    def relayed(
        operations: Operations, fd: int, init: bytes, notified: bool, threads: int
    ) -> NativeSession: ...
    def run(self) -> None: ...
    def stop(self) -> None: ...
    def invalidate(self, file: int, offset: int, length: int) -> None: ...
    def invalidate_entry(self, parent: int, name: bytes) -> None: ...
    def attach(self, handle: int, window: Window) -> None: ...
    def drain(self, seconds: float) -> bool: ...
    def resume(self) -> None: ...
    @property
    def init(self) -> bytes: ...
    @property
    def maps_shared(self) -> bool: ...
    @property
    def refused(self) -> int: ...
