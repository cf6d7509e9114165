# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""System calls of the file system that the standard library has no function for."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

_AT_EMPTY_PATH = 0x1000
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_ALL = 0xFFF
_STATX_BTIME = 0x800
_STATX = struct.Struct("=IIQIIIHxxQQQQ" + "qIxxxx" * 4 + "IIII")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.statx.argtypes = [
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_void_p,
]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.renameat2.argtypes = [
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_uint,
]


@dataclass(frozen=True)
class FileStatus:
    """As statx(2) has it. Times in nanoseconds since 1970.

    birth: when the inode was made; 0 where the file system does not keep that
    """

    device: tuple[int, int]
    inode: int
    birth: int
    mode: int
    links: int
    uid: int
    gid: int
    size: int
    blocks: int
    accessed: int
    modified: int
    changed: int


def status(folder: int, name: bytes = b"") -> FileStatus:
    """Of a name in an open folder, or of the open file itself. Links are not followed.

    Raises OSError.
    """
    buffer = ctypes.create_string_buffer(256)
    flags = _AT_SYMLINK_NOFOLLOW | (0 if name else _AT_EMPTY_PATH)
    if _libc.statx(folder, name, flags, _STATX_ALL, buffer) != 0:
        raise last_error(name)
    (
        mask,
        _,
        _,
        links,
        uid,
        gid,
        mode,
        inode,
        size,
        blocks,
        _,
        accessed,
        accessed_part,
        birth,
        birth_part,
        changed,
        changed_part,
        modified,
        modified_part,
        _,
        _,
        major,
        minor,
    ) = _STATX.unpack_from(buffer)
    return FileStatus(
        device=(major, minor),
        inode=inode,
        birth=birth * 10**9 + birth_part if mask & _STATX_BTIME else 0,
        mode=mode,
        links=links,
        uid=uid,
        gid=gid,
        size=size,
        blocks=blocks,
        accessed=accessed * 10**9 + accessed_part,
        modified=modified * 10**9 + modified_part,
        changed=changed * 10**9 + changed_part,
    )


def rename(folder: int, name: bytes, new_folder: int, new_name: bytes, flags: int) -> None:
    """renameat2(2). Raises OSError."""
    if _libc.renameat2(folder, name, new_folder, new_name, flags) != 0:
        raise last_error(new_name)


def allocate(path: str, mode: int, offset: int, length: int) -> None:
    """fallocate(2), of the file of that path. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if _libc.fallocate(descriptor, mode, offset, length) != 0:
            raise last_error(b"")
    finally:
        os.close(descriptor)


def seek(path: str, offset: int, whence: int) -> int:
    """lseek(2) with SEEK_DATA or SEEK_HOLE, of the file of that path. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(descriptor, offset, whence)
    finally:
        os.close(descriptor)


def fd_path(descriptor: int) -> str:
    """A path of an open file, also of one that was opened with O_PATH, and of a link itself."""
    return f"/proc/self/fd/{descriptor}"


def open_content(path: str) -> int:
    """Open a regular file to read, and to write where that is allowed. Raises OSError."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EROFS, errno.EPERM, errno.ETXTBSY):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def read_only(descriptor: int) -> bool:
    """Whether the descriptor is one that only reads."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def as_owner(path: str, act: Callable[[str], T]) -> T:
    """Return `act(path)`. If this user owns the regular file and its mode denies it, allow the
    owner to read and write it meanwhile. A program at a node may have just made the file, or have
    opened it earlier. Raises OSError."""
    try:
        return act(path)
    except PermissionError:
        now = Path(path).stat()
        mode = stat.S_IMODE(now.st_mode)
        if not stat.S_ISREG(now.st_mode) or now.st_uid != os.geteuid() or mode & 0o600 == 0o600:
            raise
        Path(path).chmod(mode | 0o600)
        try:
            return act(path)
        finally:
            Path(path).chmod(mode)


def last_error(name: bytes) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), *([name] if name else []))
