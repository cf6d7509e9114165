# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The order in which a source serves what is asked of it at once: the most urgent first."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
from collections.abc import Iterator

from wire.chunks import Priority, Provider, requested_priority


class PrioritySemaphore:
    """Lets a few through at a time; of those who wait the most urgent, then the first. Thread-safe.

    A disk or a medium that is asked for ten things at once gives none of them soon.
    """

    def __init__(self, width: int) -> None:
        """width: how many are let through at a time"""
        self._free = width
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int]] = []
        self._number = itertools.count()

    @contextlib.contextmanager
    def turn(self, priority: Priority) -> Iterator[None]:
        """Within the block it is one's turn."""
        mine = (priority.rank, next(self._number))
        with self._changed:
            heapq.heappush(self._waiting, mine)
            self._changed.wait_for(lambda: self._free > 0 and self._waiting[0] == mine)
            heapq.heappop(self._waiting)
            self._free -= 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def in_turn(self, provider: Provider) -> Provider:
        """The same provider, for requests in the order of their urgency."""

        def provide(body: bytes) -> bytes:
            with self.turn(requested_priority()):
                return provider(body)

        return provide
