# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Adapters: how requests of one protocol become operations, and responses become comparable.

An adapter is a module (or any object) with
- `kind`, its name in recipes and manifests;
- `normalise(response, operation)` and `label(operation)`, see `Adapter`: all that replicas need;
- `request(asked, ...)`, see `Adapter`: what a recipe's rehearsal asks for;
- whatever its front in the client needs to make operations and to read normalised responses, with
  arguments that suit the protocol. The fronts are in client/fronts, by the same kinds.

- http: HTTP/1.1
- rfb: input events of a desktop, and what they change on its screen

How a second one is written: the agent opens one TCP connection per operation, writes the payload,
and reads until the service closes. So `encode` makes a request after whose answer the service
closes the connection (HTTP: "Connection: close"), carries the operation's time and seed to the
service if its protocol has a place for them, and leaves out what belongs to the front's own
connection. `normalise` takes out of the answer what may differ between replicas. Put the module
here, add it to `ADAPTERS`, let it pass tests/replay/test_adapters.py, and add a front to
client/fronts: a function from a session and a local port to something that listens there.
"""

from collections.abc import Callable
from typing import Protocol

from replay.adapters import http, rfb
from replay.adapters.adapter import Adapter, RequestTemplate
from replay.operations import Operation
from satchel.errors import UnsupportedError

ADAPTERS: dict[str, Adapter] = {http.kind: http, rfb.kind: rfb}
"""Every adapter by its kind."""


class PreviewReader(Protocol):
    """Finds what a service tells early of its answer, in a raw response that comes in parts."""

    def take(self, part: bytes) -> bytes:
        """The last early answer that this part makes whole; empty where it makes none whole. It is
        what the normalised response is if nothing changes any more."""


EARLY: dict[str, Callable[[], PreviewReader]] = {rfb.kind: rfb.DesktopPreviewReader}
"""Of adapters whose services tell early what they are going to answer: what reads one response."""


class PieceReader(Protocol):
    """Normalises one raw response that comes in pieces."""

    def take(self, piece: bytes) -> bytes:
        """What of the normalised response is certain by now and was not before."""

    def end(self) -> bool:
        """Nothing more comes: whether that was a response."""

    def failure(self) -> bytes:
        """The normalised response where it was none, whatever `take` has said."""


IN_PIECES: dict[str, Callable[[Operation], PieceReader]] = {http.kind: http.Normaliser}
"""Of adapters whose responses can be normalised while they come: what reads one of an operation."""


def for_kind(kind: str) -> Adapter:
    """The adapter of that name. UnsupportedError if this version has none."""
    if kind not in ADAPTERS:
        known = ", ".join(sorted(ADAPTERS))
        raise UnsupportedError(f"there is no adapter {kind!r}", why=f"this version has: {known}")
    return ADAPTERS[kind]


__all__ = [
    "ADAPTERS",
    "EARLY",
    "IN_PIECES",
    "Adapter",
    "PieceReader",
    "PreviewReader",
    "RequestTemplate",
    "for_kind",
    "http",
    "rfb",
]
