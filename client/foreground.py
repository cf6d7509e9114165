# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations first: what nobody waits for keeps off the client's uplink while one is on its way.

Chunks for a surrogate and operations share the way from the client. Links of their own keep an
operation out of a bulk transfer's queue at the ends, not at the bottleneck between them. So a
chunk that is fetched ahead is sent when no operation is under way; one that a machine stands still
for is sent at once, as the operation may be waiting for that very chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wire import Priority

YIELD_SECONDS = 0.2
"""How long one request gives way: an operation that takes longer is being computed, not carried."""


class Foreground:
    """The operations of one client that are under way. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Within it an operation waits for its first response."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def give_way(self, priority: Priority) -> None:
        """Return when nothing is under way that goes before, or after YIELD_SECONDS."""
        if priority is Priority.DEMAND:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, YIELD_SECONDS)
