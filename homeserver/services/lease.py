# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One client at a time writes a service's log: the lease says which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from satchel.errors import ConflictError
from satchel.names import check_name


class ServiceHeld(ConflictError):
    """Another client holds the service."""

    def __init__(self, service: str, holder: str, idle: float) -> None:
        super().__init__(
            f"service {service} is held by client {holder}",
            why=f"it was heard from {idle:.0f} s ago",
            fix="stop it there, or take over with --take-over",
        )
        self.holder = holder


class ServiceLease:
    """Who holds a service, and until when. Thread-safe.

    A holder that was silent for `seconds` holds nothing. The lease is in memory: after a restart
    of home nobody holds anything, and the operations' numbers still protect the log.
    """

    def __init__(
        self, service: str, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: str | None = None
        self._seen = 0.0

    @property
    def holder(self) -> str | None:
        """The client that holds the service now, or None."""
        found = self.current()
        return found[0] if found else None

    def current(self) -> tuple[str, float] | None:
        """The holder, and for how many seconds more it may stay silent; None if nobody is."""
        with self._lock:
            left = self._seconds - (self._clock() - self._seen)
            return (self._holder, left) if self._holder is not None and left > 0 else None

    def claim(self, client: str, *, take_over: bool = False) -> None:
        """Make `client` the holder, or note that it still is. Raises ServiceHeld when somebody
        else is, unless `take_over`; BadName."""
        check_name(client, "client")
        with self._lock:
            now = self._clock()
            idle = now - self._seen
            other = self._holder is not None and self._holder != client
            if other and idle < self._seconds and not take_over:
                raise ServiceHeld(self._service, self._holder or "", idle)
            self._holder, self._seen = client, now

    def end(self) -> None:
        """Take the service back from its holder, if there is one. Its next request claims it."""
        with self._lock:
            self._holder = None

    def release(self, client: str) -> None:
        """Give the service back, if `client` holds it."""
        with self._lock:
            if self._holder == client:
                self._holder = None
