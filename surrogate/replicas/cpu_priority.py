# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Whom people wait for goes first: the machines of a surrogate by what their clients ask.

A replica is in the foreground while it starts, while it executes an operation, and for
FOREGROUND_SECONDS after that. The machine that leads a carried service always is, as its streams
are not seen here. The others get BACKGROUND of processors and disk while one in the foreground
wants them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from sandbox import EVERYBODY

FOREGROUND_SECONDS = 10.0
BACKGROUND = 10
"""A tenth of what one in the foreground gets."""


class CpuPriority:
    """Of one replica. Thread-safe."""

    def __init__(self, weigh: Callable[[int], None], *, always: Callable[[], bool]) -> None:
        """weigh: gives its machine that weight, if there is one. always: whether it starts, or
        leads a carried service."""
        self._weigh = weigh
        self._always = always
        self._lock = threading.Lock()
        self._waiting = 0
        self._asked = time.monotonic()
        self._weight = EVERYBODY

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        """Within, somebody waits for it."""
        with self._lock:
            self._waiting += 1
            self._become(EVERYBODY)
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                self._asked = time.monotonic()

    def look(self) -> None:
        """Now and then: it may be in the background by now."""
        with self._lock:
            soon = time.monotonic() - self._asked < FOREGROUND_SECONDS
            ahead = soon or self._waiting > 0 or self._always()
            self._become(EVERYBODY if ahead else BACKGROUND)

    def _become(self, weight: int) -> None:
        if weight != self._weight:
            self._weight = weight
            self._weigh(weight)
