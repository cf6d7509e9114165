# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The folder of a running replica, and what is done about one whose owner died.

QEMU, nbdkit and nbdfuse outlive the program that started them. So each replica has a folder of its
own in which all three leave a pid file, and its owner holds a lock on the file `owner` in it for
as long as the replica is. A folder whose lock nobody holds is left over. A machine that still runs
in it can be taken over; else it is cleared, and the replica starts again from a checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from hypervisor import CONSOLE_LOG
from sandbox import clear_groups
from satchel.files import NotRegular, open_regular
from satchel.process import Process

logger = logging.getLogger(__name__)

OWNER = "owner"

CONSOLE_BYTES = 64 << 10
"""How much of a console is read, and kept, at once."""

_END_SECONDS = 10.0


class RunFolder:
    """A private folder that this process owns until `remove`, or until it ends."""

    def __init__(self, path: Path, *, left: bool = False) -> None:
        """Make it, with its parents; or, where it was `left` by an owner that died, take it over.
        Raises OSError; FileExistsError where something is, BlockingIOError while its owner lives.
        """
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.parent, fcntl.LOCK_EX):
            if not left:
                path.mkdir(mode=0o700)
            flags = os.O_RDWR | os.O_CLOEXEC | (0 if left else os.O_CREAT)
            self._lock = os.open(path / OWNER, flags, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock)
                raise
        self.path = path

    def disown(self) -> None:
        """Let go of it as it is: `sweep` may clear it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove(self, keep: Path | None = None) -> None:
        """Remove it with all that is in it, and disown it. Harmless the second time. keep: a folder
        that gets the end of the guest's console."""
        if self._lock >= 0:
            if keep:
                with contextlib.suppress(OSError):
                    (keep / CONSOLE_LOG).write_bytes(read_console(self.path)[0])
            shutil.rmtree(self.path, ignore_errors=True)
            self.disown()


def read_console(folder: Path, after: int = 0) -> tuple[bytes, int]:
    """Return the console in a folder after that offset, its last CONSOLE_BYTES at most, and the
    offset of its end. A console that has begun anew is read from its beginning."""
    try:
        fd = open_regular(folder / CONSOLE_LOG, os.O_RDONLY)
    except (OSError, NotRegular):
        return b"", 0
    with os.fdopen(fd, "rb") as file:
        end = os.fstat(fd).st_size
        file.seek(max(after if after <= end else 0, end - CONSOLE_BYTES))
        said = file.read(CONSOLE_BYTES)
        return said, file.tell()


def sweep(run_dir: Path) -> int:
    """End what replicas in folders below `run_dir` left behind whose owner has died.

    Their processes are killed, their mounts detached, their folders and control groups removed; how
    many replicas those were. A living owner's replicas are not touched, whichever program it is.
    Neither is a process that only has the number which a pid file names: its arguments must name
    the folder.
    """
    if not run_dir.is_dir():
        return 0
    with _locked(run_dir, fcntl.LOCK_EX):
        folders = sorted(path for path in run_dir.iterdir() if path.is_dir())
        count = sum(_sweep_one(folder) for folder in folders)
    if count:
        clear_groups()
    return count


def _sweep_one(folder: Path) -> bool:
    try:
        owned = _locked(folder / OWNER, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with owned:
            _clear(folder)
    except FileNotFoundError:
        _clear(folder)
    except BlockingIOError:
        return False
    logger.warning("cleared %s, which a program that died had left", folder)
    return True


def _clear(folder: Path) -> None:
    named = [Process.named(path) for path in folder.glob("*.pid")]
    processes = [process for process in named if process and _is_of(folder, process)]
    for process in processes:
        process.signal(signal.SIGKILL)
    for process in processes:
        if not process.ended(_END_SECONDS):
            logger.error("a process of %s does not end: %s", folder, process.report())
    for mountpoint in _mounts_below(folder):
        command = ["fusermount3", "-q", "-u", "-z", str(mountpoint)]
        subprocess.run(command, check=False, timeout=_END_SECONDS)
    if not _mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _is_of(folder: Path, process: Process) -> bool:
    """Whether its arguments name something in that folder."""
    return any(f"{path}/" in word for path in _spellings(folder) for word in process.command)


def _mounts_below(folder: Path) -> list[Path]:
    below = tuple(f"{path}/" for path in _spellings(folder))
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    points = [re.sub(r"\\(\d{3})", _unescape, line.split()[4]) for line in lines]
    return [Path(point) for point in points if point.startswith(below)]


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))


def _spellings(folder: Path) -> set[Path]:
    return {folder.absolute(), folder.resolve()}


@contextlib.contextmanager
def _locked(path: Path, operation: int) -> Iterator[None]:
    """Hold a lock on an existing file or folder. Raises OSError, BlockingIOError if it is taken."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
