# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of chunks over HTTP: both halves of POST /v1/chunks and POST /v1/below. See
docs/formats/chunk-batch.md.

The first request's body is chunk references, 52 bytes each; the answer's body is the pack records
of those that the source has, one after the other, in the order asked. The second one's body is
places below table pages, 64 bytes each; the answer's is the records of the pages and chunks there.
Nothing is verified here: the receiver hands the bytes to its store, which verifies every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

import flask

from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.http.client import READ_SECONDS, HttpClient
from wire.http.openapi import octets
from wire.receive_rate import ReceiveRate

PATH = "/v1/chunks"
BELOW_PATH = "/v1/below"

BATCH_LIMIT = 4096
"""References in one request."""

PLACE_SIZE = 64
PLACES_LIMIT = 16
"""Places in one request."""

PLACE_RECORDS = 512
"""Records that a place can have: 256 blocks and the pages above them."""

RECORD_LIMIT = BLOCK_SIZE + 64
"""Bytes of the longest pack record: header and payload."""

PRIORITY_HEADER = "Satchel-Priority"
RATE_HEADER = "Satchel-Rate"
RATE_DIGITS = 12


class Priority(Enum):
    """How urgent a batch is: somebody waits, somebody soon will, or nobody does."""

    DEMAND = "demand"
    PREFETCH = "prefetch"
    BACKGROUND = "background"

    @property
    def rank(self) -> int:
        """0 for the most urgent."""
        return _RANKS[self]


_RANKS = {priority: rank for rank, priority in enumerate(Priority)}


class ChunkClient:
    """Asks one source for chunks, and tells it each time how fast answers arrive. Any thread may
    call."""

    def __init__(self, http: HttpClient, arrivals: ReceiveRate | None = None) -> None:
        """arrivals: of all that share a way with it; by default its own"""
        self._http = http
        self._arrivals = arrivals or ReceiveRate()

    @property
    def peer(self) -> str:
        return self._http.peer

    def fetch(
        self,
        refs: bytes,
        priority: Priority = Priority.DEMAND,
        *,
        timeout: float | None = READ_SECONDS,
    ) -> bytes:
        """The pack records of those of `refs` (n * 52 bytes, n at most 4096) that the source has.

        Unverified. One request. Raises LocalProtocolError for a wrong length, and what HttpClient
        raises.
        """
        count = _count(refs, CHUNK_REF_SIZE, BATCH_LIMIT)
        return self._ask(PATH, refs, priority, timeout, count)

    def below(
        self,
        places: bytes,
        priority: Priority = Priority.DEMAND,
        *,
        timeout: float | None = READ_SECONDS,
    ) -> bytes:
        """The pack records of the pages and chunks at `places` (n * 64 bytes, n at most 16).

        As `fetch`; raises NotFoundError where the peer knows no such request.
        """
        count = _count(places, PLACE_SIZE, PLACES_LIMIT) * PLACE_RECORDS
        return self._ask(BELOW_PATH, places, priority, timeout, count)

    def _ask(
        self, path: str, body: bytes, priority: Priority, timeout: float | None, records: int
    ) -> bytes:
        """One request, for so many records at most; none where that is 0."""
        if records == 0:
            return b""
        headers = {PRIORITY_HEADER: priority.value}
        if self._arrivals.rate:
            headers[RATE_HEADER] = str(int(self._arrivals.rate))
        pieces = self._http.post_stream(
            path,
            body,
            headers=headers,
            timeout=timeout,
            limit=records * RECORD_LIMIT,
            idempotent=True,
        )
        return b"".join(self._arrivals.watch(pieces))


Provider = Callable[[bytes], bytes]
"""From a request's body to pack records; called from several threads. `requested_priority` works
in it."""


Pieces = Callable[[bytes, Priority], Iterable[bytes]]
"""From an answer to parts of it, each when it may be sent."""


def _whole(answer: bytes, priority: Priority) -> Iterable[bytes]:
    return (answer,)


def chunk_routes(
    provider: Provider, below: Provider | None = None, pieces: Pieces = _whole
) -> flask.Blueprint:
    """The routes of a source. `provider` gets n * 52 bytes of references and returns the records
    of those that it has; `below` gets n * 64 bytes of places, and without it there is no such
    route."""
    routes = flask.Blueprint("chunks", __name__)

    @routes.post(PATH)
    @octets(sent=True, answered=True)
    def chunks() -> flask.Response:
        """Chunk references in, pack records out."""
        return _answer(provider, pieces, CHUNK_REF_SIZE, BATCH_LIMIT)

    if below is not None:
        deeper = below

        @routes.post(BELOW_PATH)
        @octets(sent=True, answered=True)
        def places() -> flask.Response:
            """Places below pages in, pack records out."""
            return _answer(deeper, pieces, PLACE_SIZE, PLACES_LIMIT)

    return routes


def _answer(provider: Provider, pieces: Pieces, size: int, limit: int) -> flask.Response:
    body = flask.request.get_data(cache=False)
    try:
        _count(body, size, limit)
    except LocalProtocolError as error:
        raise RemoteProtocolError(error.what, why=error.why) from error
    priority = requested_priority()
    answer = provider(body)
    response = flask.Response(pieces(answer, priority), mimetype="application/octet-stream")
    response.content_length = len(answer)
    return response


def requested_priority() -> Priority:
    """Within a request: the priority that it carries. Raises RemoteProtocolError for another."""
    value = flask.request.headers.get(PRIORITY_HEADER, Priority.DEMAND.value)
    try:
        return Priority(value)
    except ValueError as error:
        raise RemoteProtocolError(f"{PRIORITY_HEADER} {value[:40]!r} is unknown") from error


def requested_rate() -> float:
    """Within a request: the bytes a second that answers from here had lately; 0: not said. Raises
    RemoteProtocolError for what is no number."""
    value = flask.request.headers.get(RATE_HEADER, "0")
    if not (value.isascii() and value.isdigit() and len(value) <= RATE_DIGITS):
        raise RemoteProtocolError(f"{RATE_HEADER} {value[:40]!r} is not a number")
    return float(value)


def _count(body: bytes, size: int, limit: int) -> int:
    count, rest = divmod(len(body), size)
    if rest or count > limit:
        raise LocalProtocolError(
            "a request for chunks of a wrong length",
            why=f"{len(body)} bytes are not up to {limit} times {size}",
        )
    return count
