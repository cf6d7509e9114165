# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front `http` of a carried service: `tcp`, for which pages of other sites are refused.

Browsers are sent to an origin of the service's own (client/fronts/origin.py). Each request of a
connection is looked at before it goes on (wire/http/sites.py), and its bytes are passed as they
came, so a request that two readers may understand differently is refused. Behind an answer 101 to a
request with `Upgrade` (a WebSocket) the bytes may be anything. A page of another site cannot make
one: its Origin is refused, and a browser lets no script set that header; nor does it use such a
connection for other requests.
"""

from __future__ import annotations

import re
import socket
from collections import deque
from collections.abc import Callable

import h11

from client.fronts.origin import ServiceOrigin
from client.fronts.requests import FrontRequest, FrontRequests
from replay import StreamRefused
from satchel.errors import AccessError, SatchelError, UsageError
from satchel.targets import split_target
from satchel.timestamps import elapsed
from wire import LOOPBACK_HOSTS, ErrorReport, refusal, refuse_other_sites

MAX_HEAD = 64 << 10
"""Bytes of a request's line and headers."""

FRAMES = b"Content-Security-Policy: frame-ancestors 'self'\r\n"
"""Is added to the service's own policy: its pages may show each other, no other site may."""

_ODD_LINE = re.compile(rb"\r(?!\n)|(?<!\r)\n|\n[ \t]")


class HttpGuard:
    """A guard, see replay.guards: of one connection to a local port."""

    def __init__(
        self,
        connection: socket.socket,
        guest_port: int = 0,
        requests: FrontRequests | None = None,
        origin: ServiceOrigin | None = None,
    ) -> None:
        """connection: the program's, to the local port; requests: are told of each that goes to
        that port of the guest; origin: where browsers are sent; without one they stay."""
        self._connection, self._origin = connection, origin
        self._coming = bytearray()  # what the guest said and the program does not have
        self._head_at: int | None = None  # where in it an answer's head begins that is not whole
        self._guest_port = guest_port
        self._requests = requests or FrontRequests((), elapsed)
        self._waiting: deque[FrontRequest] = deque()
        self._sending: FrontRequest | None = None
        self._answer: h11.Connection | None = None
        self._answer_left = 0  # bytes of a body whose length is known
        self._unknown = False  # what the guest says is not followed any more
        self._parser = _parser()
        self._held = bytearray()
        self._head_passed = False
        self._fresh = True  # nothing of a request has come
        self._anything = False

    def to_guest(self, data: bytes) -> bytes:
        """See Guard. What is no HTTP request is refused as well."""
        if self._anything:
            passed, self._held = bytes(self._held + data), bytearray()
            return passed
        self._held += data
        try:
            return self._look(data) if data else b""
        except h11.RemoteProtocolError as error:
            raise _refused(UsageError("this is not an HTTP request", why=str(error))) from error
        except StreamRefused:
            raise
        except SatchelError as error:
            raise _refused(error) from error

    def _look(self, data: bytes) -> bytes:
        passed = bytearray()
        self._read(data)
        while self._held:
            event = self._parser.next_event()
            rest = self._parser.trailing_data[0]
            if isinstance(event, h11.Request):
                self._check(event, bytes(self._held[: len(self._held) - len(rest)]))
            elif event is h11.NEED_DATA:
                if self._head_passed:
                    passed += self._pass(len(self._held))
                break
            elif isinstance(event, h11.EndOfMessage):
                passed += self._pass(len(self._held) - len(rest))
                self._parser, self._head_passed, self._fresh = _parser(), False, True
                self._sending = None
                self._read(rest)
        return bytes(passed)

    def _read(self, data: bytes) -> None:
        """Empty lines before a request do not count (RFC 9112, 2.2)."""
        if self._fresh:
            while self._held.startswith(b"\r\n"):
                del self._held[:2]
            if bytes(self._held) in (b"", b"\r"):
                return
            data, self._fresh = bytes(self._held), False
        self._parser.receive_data(data)

    def _check(self, request: h11.Request, head: bytes) -> None:
        if why := _ambiguity(request, head):
            raise UsageError("this is not an HTTP request", why=why)
        fields: dict[str, list[str]] = {}
        for name, value in request.headers:
            fields.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

        def header(name: str) -> str | None:
            values = fields.get(name.lower())
            return None if values is None else ", ".join(values)

        method, target = request.method.decode("latin-1"), request.target.decode("latin-1")
        authority, target = split_target(target)
        if authority is not None and fields.get("host") != [authority]:
            fields.setdefault("host", []).append(authority)
        self._place(method, header, target)
        self._head_passed = True
        self._sending = self._requests.begin(self._guest_port, method, target)
        self._sending.upgrades = "upgrade" in fields
        if not self._unknown:
            self._waiting.append(self._sending)

    def _place(self, method: str, header: Callable[[str], str | None], target: str) -> None:
        """Refuse other sites, and lead browsers to the service's origin."""
        port, origin = self._connection.getsockname()[1], self._origin
        refuse_other_sites(port, method, header, origin.hosts if origin else LOOPBACK_HOSTS)
        if origin and (url := origin.elsewhere(port, header, target, self._connection)):
            what = f"a browser is sent to {origin.service}"
            raise StreamRefused(what, answer=_moved(url), expected=True)

    def _pass(self, count: int) -> bytes:
        taken = bytes(self._held[:count])
        del self._held[:count]
        assert self._sending is not None
        self._requests.keep(self._sending, taken)
        return taken

    def to_program(self, data: bytes) -> bytes:
        """See Guard. Adds FRAMES to each answer, and notes which requests are answered, and which
        answers have begun. A head is held until it is whole."""
        if self._unknown:
            return data
        self._coming += data
        try:
            self._hear(data)
        except h11.ProtocolError:
            self._know_nothing()
        count = len(self._coming)
        if self._head_at is not None and not self._unknown and data:
            count, self._head_at = self._head_at, 0
        passed = bytes(self._coming[:count])
        del self._coming[:count]
        return passed

    def again(self) -> bytes | None:
        """See Guard: the requests that wait, where all of them may be sent twice."""
        if self._anything or self._unknown:
            return None
        if any(request.begun or request.data is None for request in self._waiting):
            return None
        for request in self._waiting:
            request.resent = True
        return b"".join(bytes(request.data or b"") for request in self._waiting)

    def _hear(self, data: bytes) -> None:
        ended = not data
        while self._waiting and (data or ended):
            request = self._waiting[0]
            rest: bytes | None
            if self._answer_left:
                count = min(self._answer_left, len(data))
                self._answer_left -= count
                rest = data[count:]
            else:
                if self._answer is None and not ended:
                    self._answer = _expecting(request.method)
                    self._head_at = len(self._coming) - len(data)
                    request.begun = True
                rest = self._follow(request, data)
            if self._answer_left or rest is None:
                return
            request.answered, self._answer = elapsed(), None
            self._waiting.popleft()
            data, ended = rest, False

    def _follow(self, request: FrontRequest, data: bytes) -> bytes | None:
        """What comes behind the answer, or behind what of it has come where the length of its body
        is known; None where it goes on."""
        if self._answer is None:
            return None
        self._answer.receive_data(data)
        while not isinstance(event := self._answer.next_event(), h11.EndOfMessage):
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                if self._answer.their_state is h11.SWITCHED_PROTOCOL:
                    self._anything = request.upgrades
                    self._know_nothing()
                return None
            rest = self._answer.trailing_data[0]
            if isinstance(event, h11.InformationalResponse):
                self._head_at = len(self._coming) - len(rest)
            if isinstance(event, h11.Response):
                self._add_frames()
            if isinstance(event, h11.Response) and (size := _body_size(event, request.method)):
                self._answer_left = max(0, size - len(rest))
                return rest[size:]
        return self._answer.trailing_data[0]

    def _add_frames(self) -> None:
        """Behind the first line of the head that is whole."""
        at = self._coming.index(b"\n", self._head_at or 0) + 1
        self._coming[at:at] = FRAMES
        self._head_at = None

    def _know_nothing(self) -> None:
        """What was asked so far counts as answered."""
        self._unknown = True
        while self._waiting:
            self._waiting.popleft().answered = elapsed()


def _ambiguity(request: h11.Request, head: bytes) -> str:
    """Return why another reader may find other requests in the same bytes; empty if none does.
    h11 refuses the other ways."""
    version, names = request.http_version, {name for name, _ in request.headers}
    chunked = b"transfer-encoding" in names
    found = {
        f"its head has more than {MAX_HEAD} bytes": len(head) > MAX_HEAD,
        "a line ends or continues in an obsolete way": _ODD_LINE.search(head) is not None,
        "it is of another version than 1.0 and 1.1": version not in {b"1.1", b"1.0"},
        "a service makes no tunnels": request.method == b"CONNECT",
        "it has two lengths": chunked and b"content-length" in names,
        "HTTP/1.0 has no chunks": chunked and version == b"1.0",
    }
    return next((why for why, holds in found.items() if holds), "")


def _body_size(answer: h11.Response, method: str) -> int:
    """Bytes of a body of a length that the head says, which need not be looked at; 0 of others."""
    fields = {name: value for name, value in answer.headers}
    if method in ("HEAD", "CONNECT") or answer.status_code in (204, 304):
        return 0
    return 0 if b"transfer-encoding" in fields else int(fields.get(b"content-length", b"0"))


def _expecting(method: str) -> h11.Connection:
    """A connection that has sent such a request, and would go over to another protocol."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    upgrade = [("Host", "localhost"), ("Connection", "upgrade"), ("Upgrade", "any")]
    connection.send(h11.Request(method=method, target="/", headers=upgrade))
    connection.send(h11.EndOfMessage())
    return connection


def _parser() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)


def _moved(url: str) -> bytes:
    lines = ("HTTP/1.1 307 Temporary Redirect", f"Location: {url}", "Cache-Control: no-store")
    return "\r\n".join([*lines, "Content-Length: 0", "Connection: close", "", ""]).encode("latin-1")


def _refused(error: SatchelError) -> StreamRefused:
    report = ErrorReport.of(error)
    status = report.status if isinstance(error, AccessError) else 400
    what, why, fix = error.what, error.why, error.fix
    return StreamRefused(what, why=why, fix=fix, answer=refusal(status, report))
