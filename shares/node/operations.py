# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a program asks of a node, as a FUSE session hands it on, and the file API for programs
without FUSE.

Names are bytes without "/" and NUL. Whatever fails raises OSError with the errno that the program
gets. Calls come from many threads at once. The root's file id is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from shares.protocol import FileId

ROOT = FileId(1)

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
"""Modes of fallocate(2)."""

EVERYTHING = FileId(0)
"""No file's id: what home calls back when it calls back all that a node was told."""


@dataclass(frozen=True)
class Attributes:
    """As stat(2) has them; times in nanoseconds since 1970; size in bytes; blocks of 512 bytes:
    the room at home.

    valid: seconds for which the kernel may answer from this without asking again; what is
    changed by others before that is taken from the kernel by the node
    """

    file: FileId
    mode: int
    links: int
    uid: int
    gid: int
    size: int
    accessed: int
    modified: int
    changed: int
    blocks: int = 0
    valid: float = 0.0


@dataclass(frozen=True)
class Changes:
    """What setattr(2)s change; None: as it is. Times in nanoseconds, -1: now."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    accessed: int | None = None
    modified: int | None = None


@dataclass(frozen=True)
class DirEntry:
    """A name in a folder. valid: seconds for which the kernel may keep the name."""

    name: bytes
    attributes: Attributes
    valid: float = 0.0


class Window(Protocol):
    """Where a session reads and writes an open file without asking: shares.fuse.Window, which
    says what each of these does."""

    @property
    def whole(self) -> bool: ...
    @property
    def exact(self) -> bool: ...
    @property
    def written(self) -> bool: ...
    @property
    def paged(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def writes(self) -> int: ...
    def grant(self, first: int, count: int = 1, *, read: bool = True, writes: int = 0) -> None: ...
    def grant_whole(self, *, write: bool) -> None: ...
    def revoke(self, first: int, count: int = 1, *, read: bool) -> None: ...
    def revoke_all(self, *, read: bool = True) -> None: ...
    def resize(self, size: int) -> None: ...
    def unsure(self) -> None: ...
    def mark_in(self, fd: int) -> None: ...
    def generation(self, generation: int) -> None: ...
    def until(self, seconds: float) -> None: ...
    def allow(self, *, writes: float, fresh: float) -> None: ...
    def take_written(self) -> bool: ...
    def take_paged(self) -> bool: ...
    def take_modified(self) -> int: ...
    def take_counts(self, first: int, count: int) -> list[int]: ...
    def take_dirty(self) -> list[tuple[int, int]]: ...
    def take_used(self) -> list[tuple[int, int]]: ...


@dataclass(frozen=True)
class Handle:
    """An open file. number: file id and flags of the open in one, so that another node can go on
    with it.

    window: where reads and writes are answered without asking, or None
    keep_cache: whether what the kernel has cached of the file is still the latest
    direct: whether the kernel must not cache
    """

    number: int
    window: Window | None = None
    keep_cache: bool = False
    direct: bool = False


FLOCK = 1 << 64
"""Added to the owner of a flock(2) lock where all kinds are together: locks of flock(2) and of
fcntl(2) are never in each other's way."""


class LockKind(Enum):
    """As fcntl(2) and flock(2) have them."""

    READ = 0
    WRITE = 1
    UNLOCK = 2


@dataclass(frozen=True)
class FileSystemUsage:
    """As statvfs(3) has it, in blocks of `block` bytes."""

    block: int
    blocks: int
    free: int
    available: int
    files: int
    files_free: int


class Operations(Protocol):
    """A tree of files. A FUSE session calls nothing else."""

    def lookup(self, parent: FileId, name: bytes) -> DirEntry: ...
    def forget(self, file: FileId, count: int) -> None: ...
    def attributes(self, file: FileId, handle: int | None) -> Attributes: ...
    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes: ...
    def read_link(self, file: FileId) -> bytes: ...
    def make_folder(
        self, parent: FileId, name: bytes, mode: int, uid: int, gid: int
    ) -> DirEntry: ...
    def make_link(
        self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int
    ) -> DirEntry: ...
    def link(self, file: FileId, parent: FileId, name: bytes) -> DirEntry: ...
    def unlink(self, parent: FileId, name: bytes) -> None: ...
    def remove_folder(self, parent: FileId, name: bytes) -> None: ...
    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> None: ...

    def open(self, file: FileId, flags: int) -> Handle: ...
    def create(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle]: ...
    def read(self, handle: int, offset: int, size: int) -> bytes: ...
    def write(self, handle: int, offset: int, data: bytes) -> int: ...
    def read_pages(self, handle: int, offset: int, size: int) -> bytes:
        """As read, for the kernel to keep as long as a program has the file mapped."""
        ...

    def write_pages(self, handle: int, offset: int, data: bytes) -> int:
        """What programs have stored in a mapping, by any of their handles that writes. Never makes
        the file longer: what is behind the end is dropped."""
        ...

    def allocate(self, handle: int, mode: int, offset: int, length: int) -> None:
        """fallocate(2). Raises EOPNOTSUPP for a mode that moves content."""
        ...

    def seek(self, handle: int, offset: int, whence: int) -> int:
        """lseek(2) with SEEK_DATA or SEEK_HOLE."""
        ...

    def flush(self, handle: int, lock_owner: int) -> None: ...
    def sync(self, handle: int, data_only: bool) -> None: ...
    def release(self, handle: int, lock_owner: int) -> None: ...
    def entries(self, folder: FileId) -> list[DirEntry]:
        """All names of a folder but "." and ".."; a session keeps the list for one opendir."""
        ...

    def sync_folder(self, folder: FileId) -> None:
        """Returns when its names are durable."""
        ...

    def usage(self, file: FileId) -> FileSystemUsage: ...
    def get_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        """The first lock in the way: start, end (inclusive), kind, pid; None where there is
        none."""
        ...

    def set_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None: ...
    def set_file_lock(self, handle: int, owner: int, kind: LockKind, wait: bool) -> None:
        """flock(2)."""
        ...


class MarkOperations(Protocol):
    """What a tree may have besides. A session answers ENOTSUP for one that has it not."""

    def set_mark(self, file: FileId, name: bytes, value: bytes | None) -> None:
        """setxattr(2); None: removexattr(2). Raises ENOTSUP for a name that says nothing."""
        ...
