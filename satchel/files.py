# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Small files that are written once and never seen half-written; lock files; files that a stranger
may have put where ours belong; the mode of new files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from satchel.errors import IntegrityError


class NotRegular(IntegrityError):
    """A symbolic link, a FIFO or a device is at the path of a file of ours."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"cannot use {path}",
            why=f"it is {what}; Satchel makes regular files and real folders only",
            fix=f"remove it, if you did not mean it to be there: `rm {path}`",
        )


def write_durably(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace `path` with `data`: a reader sees the old or the new, a crash leaves one of them.

    mode: of the file, less the umask; 0o600 for what is secret. On return the new content is
    durable. Raises OSError and leaves the old file as it was.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)  # its mode would stay
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(temporary, flags, mode), "wb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def lines_of(path: Path) -> list[str]:
    """Of a text file; none of one that is not there. Raises OSError, UnicodeDecodeError."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def write_lines(path: Path, lines: Iterable[str], *, mode: int) -> None:
    """As `write_durably`, of a text file in a folder that is made, for its owner, where it is not
    there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_durably(path, "".join(f"{line}\n" for line in lines).encode(), mode=mode)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def claimed(lock: Path) -> Iterator[bool]:
    """Within this the lock file, which is made, is nobody else's; whether that is so: False where
    another process has it, or there is no such folder. The file stays. Raises other OSErrors."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = True
    except BlockingIOError:
        ours = False
    try:
        yield ours
    finally:
        os.close(descriptor)


def open_regular(path: Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a regular file, opened with these flags as os.open does; never waits.

    For paths in folders that a stranger may have written: a link would lead out of the folder, and
    a FIFO would keep its opener for ever. Raises NotRegular and OSError.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegular(path, "a symbolic link") from error
        if error.errno == errno.ENXIO:
            raise NotRegular(path, "a FIFO or a socket") from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(path, "no regular file")
    return descriptor


def require_real_folder(path: Path) -> None:
    """Raises NotRegular where a symbolic link, or what is no folder, has that name. One that is
    not there is right. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise NotRegular(path, "a symbolic link")
        if not stat.S_ISDIR(mode):
            raise NotRegular(path, "no folder")


def by_age(paths: Iterable[Path]) -> list[Path]:
    """Return them with the oldest first, by their modification time. A time that is still to come
    is the oldest: the clock was ahead. Raises OSError."""
    times = {path: path.lstat().st_mtime for path in paths}
    now = time.time()
    return sorted(times, key=lambda path: times[path] if times[path] <= now else 0.0)


def new_mode() -> int:
    """Of a file that this process makes, by its umask. os.umask can only tell that by changing it,
    which other threads would see."""
    with open("/proc/self/status", encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith("Umask:"):
                return 0o666 & ~int(line.split()[1], 8)
    return 0o644
