# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The places at which the kernel of a mount knows folders.

The kernel has one entry for a folder. If another node moves the folder, the kernel finds it at its
new place and moves the entry. It cannot do so while a program renames between two folders: the
program gets ESTALE. So the kernel drops the old entry before it hears of the new place.

The kernel drops an entry only when no request about the folder that has it is under way. Such a
request may be the rename that asks. So entries are dropped on threads of their own, and a lookup
waits for DROP_SECONDS at most. After ESTALE the kernel ends the request and looks up once more,
first the folders on the way. The lookup of the one that has the old entry waits until that is gone.
"""

from __future__ import annotations

import logging
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress

from shares.node.operations import DirEntry
from shares.protocol import FileId

log = logging.getLogger(__name__)

LIMIT = 65536
"""Folders that are remembered; the one that was seen longest ago is forgotten first."""

DROP_SECONDS = 0.1
ON_THE_WAY_SECONDS = 2.0
THREADS = 4

Drop = Callable[[int, bytes], None]
"""Session.invalidate_entry: folder and name."""

Place = tuple[FileId, bytes]


class KernelFolders:
    """Thread-safe. Does nothing until `serve`."""

    def __init__(self) -> None:
        self._drop: Drop | None = None
        self._lock = threading.Lock()
        self._places: OrderedDict[FileId, Place] = OrderedDict()
        self._dropping: dict[FileId, tuple[FileId, Future[None]]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="entries")

    def serve(self, drop: Drop) -> None:
        """Begin, for a kernel that drops entries by `drop`. `drop` may block until a request is
        answered, and raises OSError if the kernel is gone."""
        self._drop = drop

    def close(self) -> None:
        """Stop. The kernel is gone."""
        self._drop = None
        self._threads.shutdown(wait=False, cancel_futures=True)

    def found(self, parent: FileId, entry: DirEntry) -> None:
        """Note that the kernel is about to hear of this entry. Wait until it has dropped an old
        one of the same folder."""
        if self._drop is None or not stat.S_ISDIR(entry.attributes.mode):
            return
        file = entry.attributes.file
        self._note(file, (parent, entry.name))
        with self._lock:
            pending = list(self._dropping.items())
        for moved, (old_parent, dropping) in pending:
            if file in (moved, old_parent):
                with suppress(TimeoutError, CancelledError):
                    dropping.result(DROP_SECONDS if file == moved else ON_THE_WAY_SECONDS)

    def listed(self, parent: FileId, entries: list[DirEntry]) -> None:
        """Note that the kernel is about to hear of these. A listing does not need the entries, so
        it does not wait."""
        if self._drop is not None:
            for entry in entries:
                if stat.S_ISDIR(entry.attributes.mode):
                    self._note(entry.attributes.file, (parent, entry.name))

    def moved(self, file: FileId | None, parent: FileId, name: bytes) -> None:
        """Note that a program here has moved the folder: the kernel moves the entry by itself."""
        with self._lock:
            if file is not None and file in self._places:
                self._places[file] = parent, name

    def _note(self, file: FileId, place: Place) -> None:
        with self._lock:
            old = self._places.get(file)
            self._places[file] = place
            self._places.move_to_end(file)
            if len(self._places) > LIMIT:
                self._places.popitem(last=False)
            if old is None or old == place or old[0] == place[0] or self._drop is None:
                return  # within one folder the kernel moves its entry at any time
            with suppress(RuntimeError):  # the mount ends
                dropping = self._threads.submit(self._forget, self._drop, file, old)
                self._dropping[file] = old[0], dropping

    def _forget(self, drop: Drop, file: FileId, place: Place) -> None:
        try:
            drop(*place)
        except OSError as error:
            log.debug("the kernel keeps the name %r: %s", place[1], error)
        finally:
            with self._lock:
                self._dropping.pop(file, None)
