# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations first: what nobody waits for keeps off the client's uplink while one is on its way.

Chunks for a surrogate and operations share the way from the client. Links of their own keep an
operation out of a bulk transfer's queue at the ends, not at the bottleneck between them. So a
chunk that is fetched ahead is sent when no operation is being carried; one that a machine stands
still for is sent at once, as the operation may be waiting for that very chunk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from wire import Priority

YIELD_SECONDS = 0.05
"""How long after its begin an operation is given way to. One that takes longer is being computed,
not carried, or waits for what is fetched ahead."""


class Foreground:
    """The operations of one client that are under way. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._carried_at = 0.0  # when the newest one that is under way has been

    @property
    def under_way(self) -> int:
        """How many operations wait for their first response."""
        return self._under_way

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Within it an operation waits for its first response."""
        with self._changed:
            self._under_way += 1
            self._carried_at = time.monotonic() + YIELD_SECONDS
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def give_way(self, priority: Priority) -> None:
        """Return when nothing is being carried that goes before, or after YIELD_SECONDS."""
        if priority is Priority.DEMAND:
            return
        with self._changed:
            pause = self._carried_at - time.monotonic()
            self._changed.wait_for(lambda: self._under_way == 0, max(0.0, pause))
