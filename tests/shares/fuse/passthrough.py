# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A folder as a tree for a session: each call is the same call on the folder.

File ids are inode numbers there, the root's is 1. An id keeps a path that led to it last, so a
file that has no name any more is reached by its handles alone.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import threading
from pathlib import Path

from shares.fuse import Window
from shares.node import Attributes, Changes, DirEntry, FileSystemUsage, Handle, LockKind
from shares.node.operations import ROOT
from shares.protocol import FileId

_libc = ctypes.CDLL(None, use_errno=True)
_FLOCK = struct.Struct("hhqqi4x")
_TYPES = {
    LockKind.READ: fcntl.F_RDLCK,
    LockKind.WRITE: fcntl.F_WRLCK,
    LockKind.UNLOCK: fcntl.F_UNLCK,
}
_FLOCKS = {
    LockKind.READ: fcntl.LOCK_SH,
    LockKind.WRITE: fcntl.LOCK_EX,
    LockKind.UNLOCK: fcntl.LOCK_UN,
}
F_OFD_GETLK, F_OFD_SETLK = 36, 37
LAST = 2**63 - 1


class Passthrough:
    """Operations. Locks are those of open files below, one of them for each owner."""

    def __init__(self, root: Path, *, windows: bool = False) -> None:
        """windows: regular files are opened with their whole content granted"""
        self.root = root
        self.windows = windows
        self.asked: list[str] = []
        self.handles: dict[int, int] = {}
        self._mutex = threading.Lock()
        self._paths: dict[int, bytes] = {ROOT: os.fsencode(root)}
        self._next = 1
        self._locks: dict[tuple[int, int, str], int] = {}

    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        return self._entry(parent, name)

    def forget(self, file: FileId, count: int) -> None:
        self.asked.append("forget")

    def attributes(self, file: FileId, handle: int | None) -> Attributes:
        if handle in self.handles:
            return _attributes(os.fstat(self.handles[handle]), file)
        return _attributes(os.lstat(self._path(file)), file)

    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes:
        path = self.handles[handle] if handle in self.handles else self._path(file)
        if changes.mode is not None:
            os.chmod(path, changes.mode & 0o7777)
        if changes.uid is not None or changes.gid is not None:
            uid = -1 if changes.uid is None else changes.uid
            gid = -1 if changes.gid is None else changes.gid
            os.chown(path, uid, gid, follow_symlinks=isinstance(path, int))
        if changes.size is not None:
            os.truncate(path, changes.size)
        if changes.accessed is not None or changes.modified is not None:
            _set_times(path, changes)
        return self.attributes(file, handle)

    def read_link(self, file: FileId) -> bytes:
        return os.readlink(self._path(file))

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> DirEntry:
        os.mkdir(self._below(parent, name), mode)
        return self._owned(parent, name, uid, gid)

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> DirEntry:
        os.symlink(target, self._below(parent, name))
        return self._owned(parent, name, uid, gid)

    def link(self, file: FileId, parent: FileId, name: bytes) -> DirEntry:
        os.link(self._path(file), self._below(parent, name), follow_symlinks=False)
        return self._entry(parent, name)

    def unlink(self, parent: FileId, name: bytes) -> None:
        os.unlink(self._below(parent, name))

    def remove_folder(self, parent: FileId, name: bytes) -> None:
        os.rmdir(self._below(parent, name))

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> None:
        old, new = self._below(parent, name), self._below(new_parent, new_name)
        if _libc.renameat2(-100, old, -100, new, flags):
            raise OSError(ctypes.get_errno(), "renameat2")
        self._entry(new_parent, new_name)

    def open(self, file: FileId, flags: int) -> Handle:
        return self._handle(os.open(self._path(file), flags & ~os.O_NOFOLLOW & ~os.O_APPEND))

    def create(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle]:
        fd = os.open(self._below(parent, name), flags & ~os.O_APPEND | os.O_CREAT, mode)
        return self._owned(parent, name, uid, gid), self._handle(fd)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        self.asked.append("read")
        return os.pread(self.handles[handle], size, offset)

    def write(self, handle: int, offset: int, data: bytes) -> int:
        self.asked.append("write")
        return os.pwrite(self.handles[handle], data, offset)

    def read_pages(self, handle: int, offset: int, size: int) -> bytes:
        return self.read(handle, offset, size)

    def write_pages(self, handle: int, offset: int, data: bytes) -> int:
        size = os.fstat(self.handles[handle]).st_size
        self.write(handle, offset, data[: max(0, size - offset)])
        return len(data)

    def allocate(self, handle: int, mode: int, offset: int, length: int) -> None:
        self.asked.append("allocate")
        place = ctypes.c_int64(offset), ctypes.c_int64(length)
        if _libc.fallocate(self.handles[handle], mode, *place):
            raise OSError(ctypes.get_errno(), "fallocate")

    def seek(self, handle: int, offset: int, whence: int) -> int:
        return os.lseek(self.handles[handle], offset, whence)

    def flush(self, handle: int, lock_owner: int) -> None:
        self._forget_locks(handle, lock_owner, "posix")

    def sync(self, handle: int, data_only: bool) -> None:
        self.asked.append("sync")
        (os.fdatasync if data_only else os.fsync)(self.handles[handle])

    def sync_folder(self, folder: FileId) -> None:
        self.asked.append("sync_folder")

    def release(self, handle: int, lock_owner: int) -> None:
        self.asked.append("release")
        self._forget_locks(handle, lock_owner, "flock")
        with self._mutex:
            fd = self.handles.pop(handle)
        os.close(fd)

    def entries(self, folder: FileId) -> list[DirEntry]:
        return [self._entry(folder, name) for name in os.listdir(self._path(folder))]

    def usage(self, file: FileId) -> FileSystemUsage:
        found = os.statvfs(self.root)
        return FileSystemUsage(
            found.f_frsize,
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
        )

    def get_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        asked = _FLOCK.pack(_TYPES[kind], os.SEEK_SET, start, _length(start, end), 0)
        with self._mutex:
            fd = self._lock_file(handle, owner, "posix")
            got, _, at, size, _ = _FLOCK.unpack(fcntl.fcntl(fd, F_OFD_GETLK, asked))
        if got == fcntl.F_UNLCK:
            return None
        found = LockKind.READ if got == fcntl.F_RDLCK else LockKind.WRITE
        return at, at + size - 1 if size else LAST, found, 0

    def set_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        wanted = _FLOCK.pack(_TYPES[kind], os.SEEK_SET, start, _length(start, end), 0)
        with self._mutex:
            fcntl.fcntl(self._lock_file(handle, owner, "posix"), F_OFD_SETLK, wanted)

    def set_file_lock(self, handle: int, owner: int, kind: LockKind, wait: bool) -> None:
        with self._mutex:
            fd = self._lock_file(handle, owner, "flock")
            fcntl.flock(fd, _FLOCKS[kind] | fcntl.LOCK_NB)

    def _lock_file(self, handle: int, owner: int, family: str) -> int:
        """Good while the mutex is held: another thread's close forgets its locks."""
        key = os.fstat(self.handles[handle]).st_ino, owner, family
        if key not in self._locks:
            self._locks[key] = os.open(f"/proc/self/fd/{self.handles[handle]}", os.O_RDWR)
        return self._locks[key]

    def _forget_locks(self, handle: int, owner: int, family: str) -> None:
        inode = os.fstat(self.handles[handle]).st_ino
        with self._mutex:
            fd = self._locks.pop((inode, owner, family), None)
        if fd is not None:
            os.close(fd)

    def _path(self, file: FileId) -> bytes:
        with self._mutex:
            try:
                return self._paths[file]
            except KeyError:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE)) from None

    def _below(self, parent: FileId, name: bytes) -> bytes:
        return self._path(parent) + b"/" + name

    def _entry(self, parent: FileId, name: bytes) -> DirEntry:
        path = self._below(parent, name)
        found = os.lstat(path)
        with self._mutex:
            self._paths[found.st_ino] = path
        return DirEntry(name, _attributes(found, FileId(found.st_ino)))

    def _owned(self, parent: FileId, name: bytes, uid: int, gid: int) -> DirEntry:
        os.chown(self._below(parent, name), uid, gid, follow_symlinks=False)
        return self._entry(parent, name)

    def _handle(self, fd: int) -> Handle:
        window = None
        flags = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
        if self.windows and flags != os.O_WRONLY:
            window = Window(fd, os.fstat(fd).st_size)
            window.grant_whole(write=flags == os.O_RDWR)
        with self._mutex:
            number = self._next
            self._next += 1
            self.handles[number] = fd
        return Handle(number, window)


def _attributes(found: os.stat_result, file: FileId) -> Attributes:
    return Attributes(
        file,
        found.st_mode,
        found.st_nlink,
        found.st_uid,
        found.st_gid,
        found.st_size,
        found.st_atime_ns,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_blocks,
    )


def _length(start: int, end: int) -> int:
    return 0 if end == LAST else end - start + 1


def _set_times(path: bytes | int, changes: Changes) -> None:
    times = struct.pack("qqqq", *_timespec(changes.accessed), *_timespec(changes.modified))
    if isinstance(path, int):
        failed = _libc.futimens(path, times)
    else:
        failed = _libc.utimensat(-100, path, times, 0x100)  # AT_SYMLINK_NOFOLLOW
    if failed:
        raise OSError(ctypes.get_errno(), "utimensat")


def _timespec(time: int | None) -> tuple[int, int]:
    if time is None:
        return 0, (1 << 30) - 2  # UTIME_OMIT
    if time == -1:
        return 0, (1 << 30) - 1  # UTIME_NOW
    return divmod(time, 10**9)
