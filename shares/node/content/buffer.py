# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a node keeps the content of blocks: one sparse file for each file of the share.

What can be had from home again is bounded. What of it goes first is decided as for the chunks of a
surrogate, by three queues (CAFIO; `caching.three_queues`): what nobody has read yet, then what was
read once, and last what is read again and again. What the node alone has (blocks that it owns and
has written, native files that are open) is kept, whatever it takes.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict, defaultdict
from collections.abc import Container, Iterable
from pathlib import Path

from caching import Key, MakePolicy, ThreeQueues
from shares.node.extent import BLOCK
from shares.protocol import FileId

KEEP_SIZE, PUNCH_HOLE = 1, 2
MEMORY_SHARE = 32
BATCH = 64
OPEN_FILES = 256
EXTENTS = 4096
"""Pieces of a file that are given back at once, at most."""


class Buffer:
    """Content by file and block. Not thread-safe: its node's lock guards it.

    folder: is made, and emptied of what an earlier buffer left; nobody else uses it
    limit:  bytes of what home has as well; by default the machine's memory / 32. As an attribute
            it is in blocks
    make:   what decides which of them go
    """

    def __init__(
        self, folder: Path, limit: int | None = None, make: MakePolicy = ThreeQueues
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.limit = (limit if limit is not None else memory() // MEMORY_SHARE) // BLOCK
        self._files: OrderedDict[FileId, int] = OrderedDict()
        self._policy = make(max(1, self.limit))
        self._here: defaultdict[FileId, set[int]] = defaultdict(set)
        self._count = 0
        self._latest: tuple[FileId, range] | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        for old in folder.iterdir():
            old.unlink()

    def close(self, *, keep: bool = False) -> None:
        """Let go of every file, and remove them. keep: they stay, for who reads the journal."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
        if keep:
            return
        for path in self._folder.iterdir():
            path.unlink()

    def descriptor(self, file: FileId) -> int:
        """The open sparse file, for reading and writing; the buffer closes it, at the earliest
        when OPEN_FILES others were asked for."""
        if file in self._files:
            self._files.move_to_end(file)
            return self._files[file]
        path = self._folder / f"{file:016x}"
        self._files[file] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if len(self._files) > OPEN_FILES:
            _, oldest = self._files.popitem(last=False)
            os.close(oldest)
        return self._files[file]

    def read(self, file: FileId, offset: int, size: int) -> bytes:
        """As many bytes; zeros where nothing was written."""
        return os.pread(self.descriptor(file), size, offset).ljust(size, b"\0")

    def write(self, file: FileId, offset: int, data: bytes | memoryview) -> None:
        """All of it."""
        descriptor, at = self.descriptor(file), 0
        view = memoryview(data)
        while at < len(view):
            at += os.pwrite(descriptor, view[at:], offset + at)

    def drop(self, file: FileId, first: int, count: int | None = None) -> None:
        """Have zeros there; count: all to the end."""
        descriptor = self.descriptor(file)
        if count is None:
            os.ftruncate(descriptor, min(first * BLOCK, os.fstat(descriptor).st_size))
            self._leave(file, [number for number in self._here[file] if number >= first])
            return
        if not self._punch(descriptor, first * BLOCK, count * BLOCK):
            # Not every file system has holes; zeros are as true, and take room.
            for block in range(first, first + count):
                self.write(file, block * BLOCK, bytes(BLOCK))
        self._leave(file, range(first, first + count))

    def room(self, file: FileId) -> int:
        """Bytes that the file takes here."""
        return os.fstat(self.descriptor(file)).st_blocks * 512

    def reach(self, file: FileId, size: int) -> None:
        """Have zeros up to `size`. Raises OSError: EFBIG if this file system has no such file."""
        descriptor = self.descriptor(file)
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)

    def shrink(self, file: FileId, size: int, most: int) -> bool:
        """Have zeros from `size` on, but give back `most` bytes at once; whether there is more.
        Holes cost nothing."""
        descriptor = self.descriptor(file)
        start, end, given = _content(descriptor, size), size, 0
        for _ in range(EXTENTS):
            if start is None or given == most:
                break
            end = min(os.lseek(descriptor, start, os.SEEK_HOLE), start + most - given)
            given += end - start
            start = _content(descriptor, end)
        there = os.fstat(descriptor).st_size
        if start is None:
            if there > size:
                os.ftruncate(descriptor, size)
            return False
        if not self._punch(descriptor, size, end - size):
            os.ftruncate(descriptor, max(size, there - most))
        return True

    def _punch(self, descriptor: int, offset: int, length: int) -> bool:
        """Make a hole; whether the file system can."""
        place = ctypes.c_int64(offset), ctypes.c_int64(length)
        return bool(self._libc.fallocate(descriptor, KEEP_SIZE | PUNCH_HOLE, *place) == 0)

    def forget(self, file: FileId) -> None:
        """Nothing of the file is here any more."""
        if file in self._files:
            os.close(self._files.pop(file))
        (self._folder / f"{file:016x}").unlink(missing_ok=True)
        self._leave(file, list(self._here[file]))

    def brought(self, file: FileId, blocks: range) -> None:
        """These have content that home has as well, and no program has read it yet."""
        for number in blocks:
            self._policy.brought((file, number))
            self._enter(file, number)

    def used(self, file: FileId, blocks: range) -> None:
        """These have content that home has as well, and were used just now. A program that goes
        through the same blocks in several calls, one right after the other, uses them once."""
        if self._latest == (file, blocks):
            return
        self._latest = file, blocks
        for number in blocks:
            self._policy.touched((file, number))
            self._enter(file, number)

    def keep(self, file: FileId, blocks: range) -> None:
        """These are the node's alone from now on, and stay."""
        self._leave(file, blocks)

    def surplus(self, pinned: Container[Key] = ()) -> dict[FileId, list[int]]:
        """What has to go, by file, as the policy says; in batches, so that a full buffer is not at
        its limit with each block. Whoever takes them drops them, or says that one is `brought` all
        the same. pinned: what does not go."""
        if not self.full:
            return {}
        excess = self._count - self.limit + min(BATCH, self.limit // 8)
        found: list[tuple[FileId, int]] = self._policy.victims(excess, pinned)  # type: ignore[assignment]
        surplus: defaultdict[FileId, list[int]] = defaultdict(list)
        for file, number in found:
            self._here[file].discard(number)
            surplus[file].append(number)
        self._count -= len(found)
        return surplus

    @property
    def full(self) -> bool:
        """Whether there is a surplus."""
        return self._count > self.limit

    @property
    def blocks(self) -> int:
        """How many are here that home has as well."""
        return self._count

    def _enter(self, file: FileId, number: int) -> None:
        if number not in self._here[file]:
            self._here[file].add(number)
            self._count += 1

    def _leave(self, file: FileId, numbers: Iterable[int]) -> None:
        """They are not what home has as well, any more."""
        here = self._here[file]
        for number in here.intersection(numbers):
            self._policy.removed((file, number))
            here.discard(number)
            self._count -= 1
        if not here:
            del self._here[file]
        self._latest = None


def _content(descriptor: int, offset: int) -> int | None:
    """Return where content begins at or after `offset`; None after the last."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError:
        return None


def memory() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
