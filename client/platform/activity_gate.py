# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations first: chunks leave for a surrogate in pieces, no faster than the link takes them.

Chunks and operations share the way from the client. Links of their own keep an operation out of a
bulk transfer's queue at the ends, not at the bottleneck between them: there it waits behind all
that was sent before. So an answer leaves piece by piece (see pacing). What is fetched ahead begins
when no operation is being carried. Pieces of what a machine stands still for go before those, and
the first one at once, as the operation may be waiting for that very chunk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from client.platform.shaper import PathRate, Shaper
from wire import Priority

YIELD_SECONDS = 0.05
"""How long after its begin an operation is given way to. One that takes longer is being computed,
not carried, or waits for what is fetched ahead."""


class ActivityGate:
    """The operations of one client that are under way, and what gives way to them. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pacing = Shaper()
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

    def pieces(self, way: PathRate, answer: bytes, priority: Priority) -> Iterator[bytes]:
        """An answer to a surrogate, each piece when it may leave."""
        size = way.piece or max(1, len(answer))
        for start in range(0, len(answer), size):
            piece = answer[start : start + size]
            with self._changed:
                if start or priority is not Priority.DEMAND:
                    self._wait_turn(priority)
                self._pacing.sent(len(piece), way, time.monotonic())
            yield piece

    def _wait_turn(self, priority: Priority) -> None:
        turn = self._pacing.join(priority)
        try:
            while (pause := self._pacing.pause(turn, time.monotonic())) != 0.0:
                self._changed.wait(pause)
        finally:
            self._pacing.leave(turn)
            self._changed.notify_all()
