# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where a node keeps the content of blocks: one sparse file for each file of the share.

What can be had from home again is bounded, and the least recently used of it goes first. What the
node alone has (blocks that it owns and has written, native files that are open) is kept, whatever
it takes.
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from shares.node.extent import BLOCK
from shares.protocol import FileId

KEEP_SIZE, PUNCH_HOLE = 1, 2
MEMORY_SHARE = 32
BATCH = 64
OPEN_FILES = 256


class Buffer:
    """Content by file and block. Not thread-safe: its node's lock guards it.

    folder: is made, and emptied of what an earlier buffer left; nobody else uses it
    limit:  bytes of what home has as well; by default the machine's memory / 32. As an attribute
            it is in blocks
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.limit = (limit if limit is not None else memory() // MEMORY_SHARE) // BLOCK
        self._files: OrderedDict[FileId, int] = OrderedDict()
        self._recent: OrderedDict[tuple[FileId, int], None] = OrderedDict()
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
            gone = [key for key in self._recent if key[0] == file and key[1] >= first]
            for key in gone:
                del self._recent[key]
            return
        place = ctypes.c_int64(first * BLOCK), ctypes.c_int64(count * BLOCK)
        if self._libc.fallocate(descriptor, KEEP_SIZE | PUNCH_HOLE, *place):
            # Not every file system has holes; zeros are as true, and take room.
            for block in range(first, first + count):
                self.write(file, block * BLOCK, bytes(BLOCK))
        for block in range(first, first + count):
            self._recent.pop((file, block), None)

    def shrink(self, file: FileId, size: int, most: int) -> bool:
        """Have zeros from `size` on, but give back `most` bytes at once; whether there is more."""
        descriptor = self.descriptor(file)
        there = os.fstat(descriptor).st_size
        if there > size:
            os.ftruncate(descriptor, max(size, there - most))
        return there > size + most

    def forget(self, file: FileId) -> None:
        """Nothing of the file is here any more."""
        if file in self._files:
            os.close(self._files.pop(file))
        (self._folder / f"{file:016x}").unlink(missing_ok=True)
        for key in [key for key in self._recent if key[0] == file]:
            del self._recent[key]

    def used(self, file: FileId, blocks: range) -> None:
        """These have content that home has as well, and were used just now."""
        for block in blocks:
            key = (file, block)
            self._recent[key] = None
            self._recent.move_to_end(key)

    def keep(self, file: FileId, blocks: range) -> None:
        """These are the node's alone from now on, and stay."""
        for block in blocks:
            self._recent.pop((file, block), None)

    def surplus(self) -> Iterator[tuple[FileId, int]]:
        """What has to go, the least recently used first; in batches, so that a full buffer is not
        at its limit with each block. Who takes one drops it."""
        if len(self._recent) > self.limit:
            excess = len(self._recent) - self.limit + min(BATCH, self.limit // 8)
            for key, _ in zip(list(self._recent), range(excess), strict=False):
                yield key

    @property
    def full(self) -> bool:
        """Whether there is a surplus."""
        return len(self._recent) > self.limit

    @property
    def blocks(self) -> int:
        """How many are here that home has as well."""
        return len(self._recent)


def memory() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
