# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which files programs have open: each holds a lock of flock(2) on an empty file that stands in for
it. A descriptor that is inherited or duplicated keeps the lock, and a program that is killed loses
it, so nobody has to count."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from shares.protocol import FileId

GRACE_SECONDS = 2.0
"""Between home's answer to an open, and the lock."""


class StandIns:
    """Thread-safe. folder: is made; what an earlier process of the node left there stays, as
    programs may have it open still."""

    def __init__(self, folder: Path, unused: Callable[[FileId], None]) -> None:
        """unused: no program has the file open any more; it opens none itself."""
        self.folder = folder
        self._unused = unused
        self._lock = threading.Lock()
        self._opened: dict[FileId, float] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        now = time.monotonic()
        for path in folder.iterdir():
            self._opened[FileId(int(path.name, 16))] = now

    def open(self, file: FileId) -> bool:
        """A program is about to lock it. Whether one had it open before."""
        with self._lock:
            before = file in self._opened
            self._opened[file] = time.monotonic()
            path = self._path(file)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            return before

    def look(self) -> None:
        """Find those that nobody holds any more."""
        now = time.monotonic()
        with self._lock:
            files = [file for file, since in self._opened.items() if now - since > GRACE_SECONDS]
        for file in files:
            self._drop(file, now)

    def held(self, file: FileId) -> bool:
        """Whether a program has it open."""
        try:
            descriptor = os.open(self._path(file), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)

    def any_held(self) -> bool:
        """Whether a program has any of them open."""
        with self._lock:
            files = list(self._opened)
        return any(self.held(file) for file in files)

    def _drop(self, file: FileId, now: float) -> None:
        with self._lock:
            if self._opened.get(file, now) > now - GRACE_SECONDS or self.held(file):
                return
            del self._opened[file]
            self._path(file).unlink(missing_ok=True)
            self._unused(file)

    def _path(self, file: FileId) -> Path:
        return self.folder / f"{file:016x}"
