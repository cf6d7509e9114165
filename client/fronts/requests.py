# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP requests that a carried service was sent, as far as no copy has what they did.

When the leader is lost, home goes on from a copy. What was answered since then, or not yet, is lost
with it. Of these requests the recipe may say which ones may be sent twice (`idempotent`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from satchel.targets import is_declared
from satchel.timestamps import elapsed

KEPT_BYTES = 16 << 20
"""Of requests that may be sent again, all together; those beyond are only told."""

MOST = 10_000
"""Requests that are known; of more, the oldest are forgotten."""

_LOOK = 256
_ONLY_READ = frozenset(("GET", "HEAD", "OPTIONS"))


@dataclass(eq=False)
class FrontRequest:
    """One request. port: of the guest. at: when it began to go there, by `elapsed`. data:
    as it went; None where it is not kept. answered: when its answer was whole here; begun: a part
    of that has come; resent: its connection has sent it again; upgrades: it asks for another
    protocol."""

    port: int
    method: str
    target: str
    at: float = field(default_factory=elapsed)
    data: bytearray | None = None
    answered: float | None = None
    begun: bool = False
    resent: bool = False
    upgrades: bool = False

    @property
    def changes(self) -> bool:
        """Whether it may have changed something."""
        return self.method not in _ONLY_READ

    def __str__(self) -> str:
        return f"{self.method} {self.target[:120]}"


@dataclass(frozen=True)
class LostRequests:
    """again: may be sent again, in this order; told: what the person has to know. resent: how many
    are sent again by the connections that wait for their answers"""

    again: list[FrontRequest]
    told: list[FrontRequest]
    resent: int


class FrontRequests:
    """See the module. Thread-safe."""

    def __init__(self, idempotent: Sequence[str], copied: Callable[[], float]) -> None:
        """idempotent: METHOD PATH, each for what is at and below that path; copied: when the newest
        copy was frozen, by `elapsed`."""
        self._declared = [tuple(text.split(" ", 1)) for text in idempotent]
        self._copied = copied
        self._lock = threading.Lock()
        self._known: list[FrontRequest] = []
        self._bytes = 0

    def begin(self, port: int, method: str, target: str) -> FrontRequest:
        """A request that goes to the guest now."""
        request = FrontRequest(port, method, target)
        with self._lock:
            if len(self._known) % _LOOK == _LOOK - 1:
                self._forget(self._copied())
            self._known.append(request)
            if self._is_idempotent(request):
                request.data = bytearray()
        return request

    def keep(self, request: FrontRequest, data: bytes) -> None:
        """More of it has gone there."""
        with self._lock:
            if request.data is None:
                return
            if self._bytes + len(data) > KEPT_BYTES:
                self._forget(self._copied())
            if self._bytes + len(data) > KEPT_BYTES:
                self._bytes -= len(request.data)
                request.data = None
                return
            request.data += data
            self._bytes += len(data)

    def lost(self, since: float) -> LostRequests:
        """What a machine that was frozen then does not know of; all is forgotten here."""
        with self._lock:
            self._forget(since)
            gone = self._known
            self._known = [request for request in gone if request.resent]
            self._bytes = sum(len(request.data or b"") for request in self._known)
        left = [request for request in gone if not request.resent and request.changes]
        again = [request for request in left if request.data is not None]
        told = [request for request in left if request.data is None]
        return LostRequests(again, told, len(self._known))

    def _forget(self, since: float) -> None:
        """Those that were answered before."""
        self._known = [
            request
            for request in self._known[-MOST:]
            if request.answered is None or request.answered >= since
        ]
        self._bytes = sum(len(request.data or b"") for request in self._known)

    def _is_idempotent(self, request: FrontRequest) -> bool:
        return any(
            request.method == method and is_declared(request.target, below)
            for method, below in self._declared
        )
