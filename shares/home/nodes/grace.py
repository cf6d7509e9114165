# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""After a start of home: who had blocks when it ended brings them before anybody is served.

A node of which home had not said that it is lost may own blocks of which nobody else has the latest
content. It joins again, releases what it wrote, and only then asks for something. Until all such
nodes have done so, or their lease is over, everybody waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from shares.protocol import FileId, NodeId


class Grace:
    """Thread-safe, and for callers that have the share's lock."""

    def __init__(
        self,
        awaited: Iterable[NodeId],
        seconds: float,
        had: Mapping[FileId, Sequence[tuple[int, int, int]]],
    ) -> None:
        """awaited: nodes that were there when home ended; seconds: for how long; had: of which
        blocks home has the content, and under which grants that was written (`Grants`)"""
        self._lock = threading.Lock()
        self._awaited = set(awaited)
        self._until = time.monotonic() + seconds
        self._held: list[Callable[[], None]] = []
        self._had = had
        self._grants: dict[tuple[FileId, int], int] = {}
        self._over = threading.Event()
        if not self._awaited:
            self._over.set()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def awaits(self, node: NodeId) -> bool:
        """Whether what the node releases is the latest content, without having to be asked."""
        with self._lock:
            return not self.over and node in self._awaited

    def takes(self, file: FileId, number: int, grant: int) -> bool:
        """Whether nobody has brought the block under a later right to write it, and home had no
        such content."""
        with self._lock:
            latest = self._grants.get((file, number), 0)
            for first, count, had in self._had.get(file, ()):
                if first <= number < first + count or (not count and first <= number):
                    latest = max(latest, had)
            self._grants[file, number] = max(latest, grant)
            return grant >= latest

    def granted(self, file: FileId) -> int:
        """The latest grant under which home had content of the file; 0 for none."""
        with self._lock:
            return max((had for _, _, had in self._had.get(file, ())), default=0)

    def returned(self, node: NodeId) -> None:
        """The node asks for something else: it has released what it had."""
        with self._lock:
            self._awaited.discard(node)
        self.look()

    def hold(self, request: Callable[[], None]) -> bool:
        """Have the request done when the grace is over; False where it is."""
        with self._lock:
            if self.over:
                return False
            self._held.append(request)
            return True

    def wait(self) -> None:
        """Until it is over."""
        self._over.wait()

    def look(self) -> None:
        """End it if nobody is awaited any more, or its time is over. To be called now and then."""
        with self._lock:
            if self.over or (self._awaited and time.monotonic() < self._until):
                return
            self._over.set()
            held, self._held = self._held, []
        for request in held:
            request()

    def end(self) -> None:
        """Nobody is waited for any more."""
        with self._lock:
            self._awaited.clear()
        self.look()
