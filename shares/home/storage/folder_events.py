# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel reports changes by other programs in a share's folders (inotify(7)).

It also reports home's own changes. Home announces its changes of names before it makes them, and
their events are left out. `FileVersions` recognises home's changes of content.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntFlag

from shares.home.storage.system_calls import last_error
from shares.protocol import FileId

log = logging.getLogger(__name__)

ANNOUNCED_SECONDS = 5.0
"""How long the event of an announced change may take. Some changes cause none."""

GATHERED_SECONDS = 0.02
"""Events of one file that come within this time are one."""

_EVENT = struct.Struct("iIII")
_READ = 1 << 16
_ONLYDIR = 0x01000000
_OVERFLOW, _IGNORED = 0x4000, 0x8000


class Kind(IntFlag):
    """The kind of a change in a folder."""

    MODIFIED = 0x2
    STATUS = 0x4
    CLOSED = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATED = 0x100
    DELETED = 0x200


NAMES = Kind.MOVED_FROM | Kind.MOVED_TO | Kind.CREATED | Kind.DELETED

_libc = ctypes.CDLL(None, use_errno=True)
_libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]


@dataclass(frozen=True)
class FolderEvent:
    """named: the name may mean another file; else content or attributes were changed"""

    folder: FileId
    name: bytes
    named: bool


class FolderEvents:
    """The watched folders of one share. Thread-safe; one thread at a time calls `wait`."""

    def __init__(self) -> None:
        """No folder is watched yet. A kernel that refuses is logged, and then none ever is."""
        self._lock = threading.Lock()
        self._watches: dict[int, FileId] = {}
        self._folders: dict[FileId, int] = {}
        self._announced: OrderedDict[tuple[FileId, bytes, int], list[float]] = OrderedDict()
        self._refused = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._queue = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._queue < 0:
            self._refuse(last_error(b""))

    def close(self) -> None:
        """Release the kernel's queue. No other call follows."""
        with self._lock:
            os.close(self._wake)
            if self._queue >= 0:
                os.close(self._queue)

    def wake(self) -> None:
        """Have `wait` return."""
        os.eventfd_write(self._wake, 1)

    def watch(self, folder: FileId, descriptor: int) -> None:
        """Report changes in that folder from now on. descriptor: of the folder, also by O_PATH."""
        with self._lock:
            if folder in self._folders or self._queue < 0:
                return
            path = b"/proc/self/fd/%d" % descriptor
            mask = int(NAMES | Kind.MODIFIED | Kind.STATUS | Kind.CLOSED) | _ONLYDIR
            number = _libc.inotify_add_watch(self._queue, path, mask)
            if number < 0:
                self._refuse(last_error(b""))
                return
            self._watches[number], self._folders[folder] = folder, number

    def watches(self, folder: FileId) -> bool:
        """Return whether changes in that folder are reported."""
        with self._lock:
            return folder in self._folders

    @contextmanager
    def announced(self, *changes: tuple[FileId, bytes, Kind]) -> Iterator[None]:
        """Leave out the events of these changes, which home makes within the block. If the block
        raises, home has made none of them."""
        now = time.monotonic()
        with self._lock:
            made = [(folder, name, int(kind)) for folder, name, kind in changes]
            made = [key for key in made if key[0] in self._folders]
            for key in made:
                self._announced.setdefault(key, []).append(now)
            while self._announced:
                oldest = next(iter(self._announced))
                if now - self._announced[oldest][-1] < ANNOUNCED_SECONDS:
                    break
                del self._announced[oldest]
        try:
            yield
        except BaseException:
            with self._lock:
                for key in made:
                    self._take(key)
            raise

    def wait(self, seconds: float) -> list[FolderEvent] | None:
        """Return the events that came, each once; at the latest after that time or `wake`. None:
        the kernel has lost some."""
        poll = select.poll()
        for queue in (self._queue, self._wake):
            if queue >= 0:
                poll.register(queue, select.POLLIN)
        ready = {queue for queue, _ in poll.poll(seconds * 1000)}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if self._queue not in ready:
            return []
        time.sleep(GATHERED_SECONDS)
        found: dict[FolderEvent, None] = {}
        lost = False
        while data := self._read():
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                at += _EVENT.size + length
                lost = lost or bool(mask & _OVERFLOW)
                event = self._event(number, mask, name)
                if event is not None:
                    found[event] = None
        if lost:
            with self._lock:
                self._announced.clear()
        return None if lost else list(found)

    def _read(self) -> bytes:
        try:
            return os.read(self._queue, _READ)
        except BlockingIOError:
            return b""

    def _event(self, number: int, mask: int, name: bytes) -> FolderEvent | None:
        with self._lock:
            folder = self._watches.get(number)
            if folder is not None and mask & _IGNORED:  # it was removed
                del self._watches[number]
                self._folders.pop(folder, None)
            if folder is None or not name:
                return None
            kind = mask & int(NAMES)
            if kind and self._take((folder, name, kind)):
                return None
            return FolderEvent(folder, name, bool(kind))

    def _take(self, key: tuple[FileId, bytes, int]) -> bool:
        """With the lock. Return whether the change was announced, which counts once."""
        moments = self._announced.get(key)
        if not moments:
            return False
        moment = moments.pop(0)
        if not moments:
            del self._announced[key]
        return time.monotonic() - moment < ANNOUNCED_SECONDS

    def _refuse(self, error: OSError) -> None:
        if not self._refused:
            log.warning(
                "home cannot watch all folders of a share for changes by other programs: %s;"
                " nodes ask more often instead; raise fs.inotify.max_user_watches",
                error,
            )
        self._refused = True
