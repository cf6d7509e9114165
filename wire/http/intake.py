# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a server takes of requests before anybody looks at them: bounded by what they ask for, all
together, and in time.

A request with a body has its route in the first line and mostly its length in the head. One that
is too long is refused by its head. Bodies that are on their way or in work count against one
budget. A body that goes beyond it is refused there, which leaves the others alone. A body that
comes more slowly than over any link of use is given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.utilities import Error, RequestEntityTooLarge

BODY_SECONDS = 30.0
BODY_RATE = 32 << 10
"""A body has so many seconds, and one more for so many bytes that have come."""

CONNECTION_LIMIT = 400
"""Connections served at a time; more wait in the socket's backlog."""


@dataclass(frozen=True)
class Intake:
    """Of a server. connections: served at a time; budget: bytes of bodies that are on their way or
    in work together; limit: of a path the bytes that a body may have there. None: no bound but that
    of a single body, which the server has. rest: called by the thread that reads requests after
    each turn, with the seconds of a processor that it took; may wait."""

    connections: int = CONNECTION_LIMIT
    budget: int | None = None
    limit: Callable[[str], int] | None = None
    rest: Callable[[float], None] | None = None


class Bodies:
    """Those of one server. Any thread may close a request; the rest is the IO thread's."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._lock = threading.Lock()
        self._taken = 0

    @property
    def taken(self) -> int:
        """Bytes that are on their way or in work."""
        return self._taken

    def channel_class(self) -> type[HTTPChannel]:
        """What waitress makes of a connection."""

        class Request(_Request):
            bodies = self

        class Channel(HTTPChannel):
            parser_class = Request

            def handle_close(self) -> None:
                unfinished = self.request
                super().handle_close()
                if unfinished is not None:
                    unfinished.close()

        return Channel

    def overdue(self, channel: HTTPChannel, now: float) -> bool:
        """Whether that connection's request comes too slowly."""
        request: Any = channel.request
        if not isinstance(request, _Request) or request.completed:
            return False
        return now - request.begun > BODY_SECONDS + request.body_bytes_received / BODY_RATE

    def take(self, size: int) -> bool:
        """Whether there is room for so many bytes more, which are taken then."""
        budget = self._intake.budget
        with self._lock:
            if budget is not None and self._taken + size > budget:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size

    def limit(self, path: str) -> int | None:
        return self._intake.limit(path) if self._intake.limit else None


class _NoRoom(Error):
    """Answered as a CapacityError is."""

    code = 507
    reason = "Insufficient Storage"


class _Request(HTTPRequestParser):
    """One that is coming. begun: when its first byte came."""

    path: str
    bodies: Bodies

    def __init__(self, adjustments: Any) -> None:
        super().__init__(adjustments)
        self.begun = time.monotonic()
        self._taken = 0
        self._closed = False

    def received(self, data: bytes) -> int:
        consumed: int = super().received(data)
        if self.headers_finished and not (self.error or self.empty or self._closed):
            self._bound()
        return consumed

    def close(self) -> None:
        super().close()
        self._closed = True
        self.bodies.give_back(self._taken)
        self._taken = 0

    def _bound(self) -> None:
        come, limit = self.body_bytes_received, self.bodies.limit(self.path)
        if limit is not None and max(come, self.content_length) > limit:
            self._refuse(RequestEntityTooLarge(f"{self.path} takes at most {limit} bytes"))
            return
        # All that a head announces is taken at once: what fits when it begins is not refused later.
        more = max(come, self.content_length) - self._taken
        if more > 0:
            if self.bodies.take(more):
                self._taken += more
            else:
                self._refuse(_NoRoom("requests on their way have all the room: send fewer at once"))

    def _refuse(self, error: Any) -> None:
        self.error = error
        self.completed = True
