# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front `http` of a carried service: `tcp`, for which pages of other sites are refused.

Each request of a connection is looked at before it goes on (client/fronts/sites.py), and its bytes
are passed as they came. Behind a request with `Upgrade` (a WebSocket) they may be anything. A page
of another site cannot make one: its Origin is refused, and a browser lets no script set that
header; nor does it use such a connection for other requests.
"""

from __future__ import annotations

import json

import h11

from client.fronts.sites import refuse_other_sites
from replay import StreamRefused
from satchel.errors import AccessError, SatchelError, UsageError
from wire import ErrorReport

MAX_HEAD = 64 << 10
"""Bytes of a request's line and headers."""

_REASONS = {400: "Bad Request", 403: "Forbidden"}


class HttpGuard:
    """A guard, see replay.guards: of one connection to a local port."""

    def __init__(self, port: int) -> None:
        """port: the local one, whose names a request may use"""
        self._port = port
        self._parser = _parser()
        self._held = bytearray()
        self._head_passed = False
        self._anything = False

    def to_guest(self, data: bytes) -> bytes:
        """See Guard. What is no HTTP request is refused as well."""
        if self._anything or not data:
            return data
        self._held += data
        try:
            self._parser.receive_data(data)
            return self._look()
        except h11.RemoteProtocolError as error:
            raise _refused(UsageError("this is no HTTP request", why=str(error))) from error
        except SatchelError as error:
            raise _refused(error) from error

    def _look(self) -> bytes:
        passed = bytearray()
        while self._held:
            event = self._parser.next_event()
            if isinstance(event, h11.Request):
                self._check(event)
            elif event is h11.NEED_DATA:
                if self._head_passed:
                    passed += self._take(len(self._held))
                break
            elif isinstance(event, h11.EndOfMessage):
                rest = self._parser.trailing_data[0]
                passed += self._take(len(self._held) - (0 if self._anything else len(rest)))
                self._parser, self._head_passed = _parser(), False
                if self._held:
                    self._parser.receive_data(rest)
        return bytes(passed)

    def _check(self, request: h11.Request) -> None:
        if not request.http_version.startswith(b"1."):
            raise UsageError("this is no HTTP request", why="it is of another version than 1")
        fields: dict[str, list[str]] = {}
        for name, value in request.headers:
            fields.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

        def header(name: str) -> str | None:
            values = fields.get(name.lower())
            return None if values is None else ", ".join(values)

        refuse_other_sites(self._port, request.method.decode("latin-1"), header)
        self._head_passed = True
        self._anything = "upgrade" in fields

    def _take(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        return taken


def _parser() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)


def _refused(error: SatchelError) -> StreamRefused:
    report = ErrorReport.of(error)
    status = 403 if isinstance(error, AccessError) else 400
    body = json.dumps(report.to_json()).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    what, why, fix = error.what, error.why, error.fix
    return StreamRefused(what, why=why, fix=fix, answer=head.encode() + body)
