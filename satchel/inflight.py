# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How much a peer has asked that has no answer yet: all of it is kept in memory until then."""

from __future__ import annotations

import threading


class InflightRequests:
    """The requests of one peer that have no answer yet. Thread-safe."""

    def __init__(self, requests: int, size: int) -> None:
        """requests, size: how many there may be at once, and bytes of them."""
        self._limits = requests, size
        self._lock = threading.Lock()
        self._requests = self._size = 0

    def asked(self, size: int) -> bool:
        """One more, of `size` bytes; it counts until it is `answered`. False: it is too much, and
        whoever asks so much is best heard no more."""
        with self._lock:
            self._requests += 1
            self._size += size
            requests, most = self._limits
            return self._requests <= requests and self._size <= most

    def answered(self, size: int) -> None:
        with self._lock:
            self._requests -= 1
            self._size -= size
