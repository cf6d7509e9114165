# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A process that makes calls of the system in a folder, one after the other, and says what each of
them gave: a value, or the name of an error.

It knows nothing of shares. It reads pickled calls from its standard input and writes pickled
outcomes to its standard output. File descriptors stand in numbered slots, so a call means the same
in two processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import pickle
import random
import stat
import sys
import time
from collections.abc import Callable
from typing import Any

ISLANDS = (0, 5 << 30, (9 << 30) - 8192)
"""Where files have content: a sparse file is compared around these offsets only."""

ISLAND_BYTES = 512 << 10
BEFORE_ISLAND = 64 << 10

NO_SLOT = "no descriptor in that slot"

Outcome = tuple[str, Any]
"""("ok", value) or ("error", the name of the errno)."""


def content(seed: str, size: int) -> bytes:
    """Bytes that tell of which write, and of which place in it, they are. None of them is zero."""
    return random.Random(seed).randbytes(size).replace(b"\0", b"\1")


class Player:
    """Makes calls below one folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._slots: dict[int, int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)

    def play(self, name: str, arguments: tuple[Any, ...]) -> Outcome:
        call: Callable[..., Any] = getattr(self, f"call_{name}")
        try:
            return "ok", call(*arguments)
        except OSError as error:
            return "error", errno.errorcode.get(error.errno or 0, str(error))

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _slot(self, slot: int) -> int:
        if slot not in self._slots:
            raise OSError(errno.EBADF, NO_SLOT)
        return self._slots[slot]

    # Descriptors.

    def call_open(self, slot: int, path: str, flags: int, mode: int) -> None:
        opened = os.open(self._path(path), flags | os.O_CLOEXEC, mode)
        with contextlib.suppress(OSError):
            self.call_close(slot)
        self._slots[slot] = opened

    def call_close(self, slot: int) -> None:
        descriptor = self._slot(slot)
        del self._slots[slot]
        os.close(descriptor)

    def call_pwrite(self, slot: int, offset: int, size: int, seed: str) -> int:
        return os.pwrite(self._slot(slot), content(seed, size), offset)

    def call_write(self, slot: int, size: int, seed: str) -> int:
        """At the descriptor's own offset, or at the end with O_APPEND. The offset afterwards is set
        to 0: after an append it is where the kernel believes the end to be (docs/shares.md)."""
        written = os.write(self._slot(slot), content(seed, size))
        os.lseek(self._slot(slot), 0, os.SEEK_SET)
        return written

    def call_pread(self, slot: int, offset: int, size: int) -> bytes:
        return os.pread(self._slot(slot), size, offset)

    def call_seek(self, slot: int, offset: int, whence: int) -> int:
        return os.lseek(self._slot(slot), offset, whence)

    def call_read(self, slot: int, size: int) -> bytes:
        return os.read(self._slot(slot), size)

    def call_ftruncate(self, slot: int, size: int) -> None:
        os.ftruncate(self._slot(slot), size)

    def call_fstat(self, slot: int) -> dict[str, Any]:
        return told(os.fstat(self._slot(slot)))

    def call_fsync(self, slot: int) -> None:
        os.fsync(self._slot(slot))

    def call_fallocate(self, slot: int, mode: int, offset: int, size: int) -> None:
        place = ctypes.c_int64(offset), ctypes.c_int64(size)
        if self._libc.fallocate(self._slot(slot), mode, *place):
            raise OSError(ctypes.get_errno(), "fallocate")

    def call_copy(self, source: int, start: int, target: int, offset: int, size: int) -> int:
        """copy_file_range(2), until all is copied that there is."""
        done = 0
        while done < size:
            about = (self._slot(source), self._slot(target), size - done, start + done)
            copied = os.copy_file_range(*about, offset + done)
            if not copied:
                break
            done += copied
        return done

    # Paths.

    def call_truncate(self, path: str, size: int) -> None:
        os.truncate(self._path(path), size)

    def call_stat(self, path: str) -> dict[str, Any]:
        return told(os.stat(self._path(path)))

    def call_lstat(self, path: str) -> dict[str, Any]:
        return told(os.lstat(self._path(path)))

    def call_content(self, path: str) -> bytes:
        """Opened, read and closed, as by a program that is started for it."""
        with open(self._path(path), "rb", buffering=0) as file:
            return file.read(ISLAND_BYTES) or b""

    def call_update(self, path: str, flags: int, offset: int, size: int, seed: str) -> int:
        """Opened, written and closed, as by a program that is started for it."""
        opened = os.open(self._path(path), os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
        try:
            return os.pwrite(opened, content(seed, size), offset)
        finally:
            os.close(opened)

    def call_replace(self, path: str, size: int, seed: str) -> None:
        """As editors save: a new file is renamed over the old one."""
        new = self._path(path) + ".new"
        with open(new, "wb", buffering=0) as file:
            file.write(content(seed, size))
        try:
            os.rename(new, self._path(path))
        except OSError:
            os.unlink(new)
            raise

    def call_rename(self, path: str, target: str) -> None:
        os.rename(self._path(path), self._path(target))

    def call_exchange(self, path: str, target: str, flags: int) -> None:
        """renameat2(2), with flags."""
        names = os.fsencode(self._path(path)), os.fsencode(self._path(target))
        here = -100
        if self._libc.renameat2(here, names[0], here, names[1], flags):
            raise OSError(ctypes.get_errno(), "renameat2")

    def call_link(self, path: str, target: str) -> None:
        os.link(self._path(path), self._path(target), follow_symlinks=False)

    def call_symlink(self, to: str, path: str) -> None:
        os.symlink(to, self._path(path))

    def call_readlink(self, path: str) -> str:
        return os.readlink(self._path(path))

    def call_unlink(self, path: str) -> None:
        os.unlink(self._path(path))

    def call_mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._path(path), mode)

    def call_rmdir(self, path: str) -> None:
        os.rmdir(self._path(path))

    def call_list(self, path: str) -> list[str]:
        return sorted(os.listdir(self._path(path)))

    def call_chmod(self, path: str, mode: int) -> None:
        os.chmod(self._path(path), mode)

    def call_utime(self, path: str, accessed: int, modified: int) -> None:
        os.utime(self._path(path), ns=(accessed, modified))

    # Not of a program.

    def call_begin(self, folder: str) -> None:
        """Programs' paths are below that folder of the root from now on; it is made if it is not
        there. What an earlier program has left open is closed."""
        for slot in list(self._slots):
            self.call_close(slot)
        self._root = folder
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)

    def call_pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def call_tree(self) -> dict[str, dict[str, Any]]:
        """All that is there, by path. Names of one file have the same number of a `group`."""
        found: dict[str, dict[str, Any]] = {}
        groups: dict[int, int] = {}
        for folder, folders, files in sorted(os.walk(self._root)):
            for name in sorted(folders + files):
                path = os.path.join(folder, name)
                now = os.lstat(path)
                about = told(now)
                about["group"] = groups.setdefault(now.st_ino, len(groups))
                if stat.S_ISLNK(now.st_mode):
                    about["target"] = os.readlink(path)
                elif stat.S_ISREG(now.st_mode):
                    about["content"] = islands(path)
                found[os.path.relpath(path, self._root)] = about
        return found


def told(now: os.stat_result) -> dict[str, Any]:
    """What of a file's attributes is compared. The size of a folder is each file system's own."""
    about: dict[str, Any] = {"mode": now.st_mode, "links": now.st_nlink}
    if not stat.S_ISDIR(now.st_mode):
        about["size"] = now.st_size
    if stat.S_ISREG(now.st_mode):
        about["modified"] = now.st_mtime_ns
    return about


def islands(path: str) -> dict[int, bytes]:
    """The bytes of a file around each of ISLANDS, by the offset where they begin."""
    found = {}
    with open(path, "rb", buffering=0) as file:
        for island in ISLANDS:
            start = max(0, island - BEFORE_ISLAND)
            size, parts = ISLAND_BYTES, []
            while size and (part := os.pread(file.fileno(), size, start + ISLAND_BYTES - size)):
                parts.append(part)
                size -= len(part)
            if parts:
                found[start] = b"".join(parts)
    return found


def main(root: str) -> None:
    os.umask(0)
    player = Player(root)
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(player.play(name, arguments), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
