# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which names a node knows, until home says that another node changed them.

Home answers a change only when every node has been told, so what is here is true. Answers come on
other threads than what home tells: `mark` is taken before home is asked, and what came since is
not kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from shares.coherence import FileId
from shares.nodes.operations import Entry

LIMIT = 65536

Key = tuple[FileId, bytes]


class Names:
    """Files by folder and name; None for names that are not there. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, FileId | None] = OrderedDict()
        self._lock = threading.Lock()
        self._changes = 0

    def mark(self) -> int:
        with self._lock:
            return self._changes

    def find(self, folder: FileId, name: bytes) -> tuple[bool, FileId | None]:
        """Whether it is known, and what it names."""
        with self._lock:
            key = (folder, name)
            if key not in self._known:
                return False, None
            self._known.move_to_end(key)
            return True, self._known[key]

    def learn(self, mark: int, folder: FileId, name: bytes, entry: Entry | None) -> None:
        """Home has answered what was asked after that mark."""
        with self._lock:
            if mark == self._changes:
                self._known[folder, name] = entry.attributes.file if entry else None
                if len(self._known) > LIMIT:
                    self._known.popitem(last=False)

    def drop(self, folder: FileId, name: bytes) -> None:
        """It is going to name something else, or does already."""
        with self._lock:
            self._changes += 1
            self._known.pop((folder, name), None)

    def gone(self, file: FileId) -> None:
        """Home knows no such file any more: what names it here is to be looked up again."""
        with self._lock:
            self._changes += 1
            for key in [key for key, known in self._known.items() if known == file]:
                del self._known[key]

    def clear(self) -> None:
        with self._lock:
            self._changes += 1
            self._known.clear()
