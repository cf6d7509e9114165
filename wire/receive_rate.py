# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How fast what peers send arrives, whatever they did before they began to send.

The first piece of an answer says nothing: a peer had to find it, and whoever reads here may come
late. What follows it arrives at the rate of the slowest link, unless it was sent more slowly (as a
packet train: Dovrolis et al., INFOCOM 2001). Answers that are under way at once share that link, so
they are taken together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

SAMPLE_BYTES = 32 << 10
"""What has to arrive before it says anything."""

WEIGHT = 0.5
"""Of the newest such sample."""

LEAST_SECONDS = 1e-4


class ReceiveRate:
    """Answers that come one way. Thread-safe.

    rate: bytes a second; 0 while that is not known
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds that do not go back"""
        self.rate = 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way = 0
        self._looked_at = 0.0
        self._bytes, self._seconds = 0, 0.0

    def restart(self) -> None:
        """They come another way from here on."""
        with self._lock:
            self.rate, self._bytes, self._seconds = 0.0, 0, 0.0

    def watch(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The same pieces, of one answer."""
        begun = False
        try:
            for piece in pieces:
                self._came(len(piece), first=not begun)
                begun = True
                yield piece
        finally:
            with self._lock:
                self._under_way -= begun

    def _came(self, size: int, *, first: bool) -> None:
        now = self._clock()
        with self._lock:
            if self._under_way:
                self._bytes += size
                self._seconds += now - self._looked_at
            self._looked_at = now
            self._under_way += first
            if self._bytes >= SAMPLE_BYTES:
                sample = self._bytes / max(self._seconds, LEAST_SECONDS)
                self.rate += (WEIGHT if self.rate else 1.0) * (sample - self.rate)
                self._bytes, self._seconds = 0, 0.0


__all__ = ["ReceiveRate"]
