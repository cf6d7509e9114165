# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One client at a time writes a service's log: the lease says which."""

from __future__ import annotations

import threading
import time

from satchel.errors import ConflictError


class ServiceHeld(ConflictError):
    """Another client holds the service."""

    def __init__(self, service: str, holder: str, idle: float) -> None:
        super().__init__(
            f"service {service} is held by client {holder}",
            why=f"it was heard from {idle:.0f} s ago",
            fix="stop it there, or take over with --take-over",
        )
        self.holder = holder


class Lease:
    """Who holds a service, and until when. Thread-safe."""

    def __init__(self, service: str, seconds: float) -> None:
        self._service = service
        self._seconds = seconds
        self._lock = threading.Lock()
        self._holder: str | None = None
        self._seen = 0.0

    @property
    def holder(self) -> str | None:
        """The client that holds the service now, or None."""
        with self._lock:
            return self._holder if time.monotonic() - self._seen < self._seconds else None

    @property
    def seconds_left(self) -> float:
        """How long the holder may stay silent before the lease is nobody's."""
        with self._lock:
            return max(0.0, self._seconds - (time.monotonic() - self._seen))

    def claim(self, client: str, *, take_over: bool = False) -> None:
        """Make `client` the holder. Raises ServiceHeld unless `take_over`."""
        with self._lock:
            self._check(client, take_over=take_over)
            self._holder, self._seen = client, time.monotonic()

    def touch(self, client: str) -> None:
        """Note that the holder is alive. Raises ServiceHeld when it is somebody else."""
        self.claim(client)

    def release(self, client: str) -> None:
        """Give the service back, if `client` holds it."""
        with self._lock:
            if self._holder == client:
                self._holder = None

    def _check(self, client: str, *, take_over: bool) -> None:
        idle = time.monotonic() - self._seen
        if take_over or self._holder in (None, client) or idle >= self._seconds:
            return
        assert self._holder is not None
        raise ServiceHeld(self._service, self._holder, idle)
