# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whether something was changed while somebody looked at it, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from shares.protocol import FileId

LIMIT = 4096
"""Files whose last change is known one by one."""


class Marks:
    """Counts changes of files and folders. Not thread-safe."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._count = self._floor = 0
        self._changes: OrderedDict[FileId, int] = OrderedDict()

    @property
    def now(self) -> int:
        """To be taken before the look."""
        return self._count

    def changed(self, files: Iterable[FileId]) -> None:
        self._count += 1
        for file in files:
            self._changes[file] = self._count
            self._changes.move_to_end(file)
        while len(self._changes) > self._limit:
            self._floor = self._changes.popitem(last=False)[1]

    def changed_all(self) -> None:
        self._count += 1
        self._floor = self._count
        self._changes.clear()

    def steady(self, mark: int, file: FileId) -> bool:
        """Whether the file was not changed since the mark. May be false without a cause."""
        return self._changes.get(file, self._floor) <= mark
