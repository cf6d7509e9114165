# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of chunks over HTTP: both halves of POST /v1/chunks. See docs/formats/chunk-batch.md.

The request's body is chunk references, 52 bytes each; the answer's body is the pack records of
those that the source has, one after the other, in the order asked. Nothing is verified here: the
receiver hands the bytes to its store, which verifies every record.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import flask

from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE
from wire.client import READ_SECONDS, HttpClient
from wire.errors import LocalProtocolError, RemoteProtocolError

PATH = "/v1/chunks"

BATCH_LIMIT = 4096
"""References in one request."""

RECORD_LIMIT = BLOCK_SIZE + 64
"""Bytes of the longest pack record: header and payload."""

PRIORITY_HEADER = "Satchel-Priority"


class Priority(Enum):
    """How urgent a batch is: somebody waits, somebody soon will, or nobody does."""

    DEMAND = "demand"
    PREFETCH = "prefetch"
    BACKGROUND = "background"


class ChunkClient:
    """Asks one source for chunks. Any thread may call."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

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
        count = _count(refs)
        if count == 0:
            return b""
        return self._http.post_bytes(
            PATH,
            refs,
            headers={PRIORITY_HEADER: priority.value},
            timeout=timeout,
            limit=count * RECORD_LIMIT,
            idempotent=True,
        )


def chunk_routes(provider: Callable[[bytes], bytes]) -> flask.Blueprint:
    """The routes of a source. `provider` gets n * 52 bytes of references and returns the records
    of those that it has; it is called from several threads. `requested_priority` works in it."""
    routes = flask.Blueprint("chunks", __name__)

    @routes.post(PATH)
    def chunks() -> flask.Response:
        refs = flask.request.get_data(cache=False)
        try:
            _count(refs)
        except LocalProtocolError as error:
            raise RemoteProtocolError(error.what, why=error.why) from error
        requested_priority()
        return flask.Response(provider(refs), mimetype="application/octet-stream")

    return routes


def requested_priority() -> Priority:
    """Within a request: the priority that it carries. Raises RemoteProtocolError for another."""
    value = flask.request.headers.get(PRIORITY_HEADER, Priority.DEMAND.value)
    try:
        return Priority(value)
    except ValueError as error:
        raise RemoteProtocolError(f"{PRIORITY_HEADER} {value[:40]!r} is unknown") from error


def _count(refs: bytes) -> int:
    count, rest = divmod(len(refs), CHUNK_REF_SIZE)
    if rest or count > BATCH_LIMIT:
        raise LocalProtocolError(
            "a batch of chunk references of a wrong length",
            why=f"{len(refs)} bytes are not up to {BATCH_LIMIT} times {CHUNK_REF_SIZE}",
        )
    return count
