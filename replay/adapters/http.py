# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1: one request, one response, one connection.

A normalised response is a status line, headers, an empty line, and the body up to the end,
whatever the headers say. It differs from what the service sent in this: HTTP/1.1; interim
responses, hop-by-hop headers and trailers gone; chunks joined; Date is the operation's time;
Content-Length is as the service said it, and gone where the body came in chunks. So a response can
be normalised while it comes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import quote

import h11

from replay.adapters.adapter import RequestTemplate
from replay.operations import MAX_PAYLOAD, Operation
from replay.uploads import PIECE_HEAD_SIZE, PieceFlag, piece_flags
from satchel.errors import IntegrityError, UsageError
from satchel.targets import is_declared

logger = logging.getLogger(__name__)

kind = "http"

OPERATION_HEADER = "X-Satchel-Operation"
TIME_HEADER = "X-Satchel-Time"
SEED_HEADER = "X-Satchel-Seed"

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that belong to one connection (RFC 9110, 7.6.1)."""

_REQUEST_ONLY = frozenset((b"content-length", b"expect", b"host"))
_RESPONSE_ONLY = frozenset((b"content-length", b"date"))
_NO_BODY = frozenset((204, 304))
_BAD_GATEWAY = (
    b"The service's answer was not HTTP, not whole, or to a read of more than %d MiB.\n"
    b"A carried service's answer is passed on as it is.\n" % (MAX_PAYLOAD >> 20)
)
_MAX_HEAD = 256 << 10
_MAX_EVENTS = 1 << 17
_USUAL_CHUNK = 512
"""Interim responses and chunks of one response, and one more for so many bytes: what a hostile
service may cost in time."""
_PIECE = 256 << 10
_SAFE_IN_TARGET = "/?%:@!$&'()*+,;=[]~-._"
_LABEL_BYTES = 256
_NAMES_ONE = re.compile("[0-9]")
_METHOD = re.compile(rb"[!-~]+")

_Headers = list[tuple[bytes, bytes]]


class NotHttp(IntegrityError):
    """The bytes are not a normalised response."""


@dataclass(frozen=True)
class HttpResponse:
    """A response as the front end delivers it: names of headers as the service wrote them."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def encode(
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    *,
    number: int,
    time_ns: int,
    seed: int,
    length: int | None = None,
) -> bytes:
    """The payload of an operation: the request as the service gets it.

    length: of a body that comes behind this, instead of `body`, which is empty
    target: path and query, percent-encoded; what may not stand in a request line is encoded here
    headers: as the user's program sent them; hop-by-hop and X-Satchel-* ones are left out
    Raises UsageError for what cannot be an HTTP request.
    """
    given = [(name.encode("latin-1", "replace"), _field(value)) for name, value in headers]
    host = next((value for name, value in given if name.lower() == b"host"), b"localhost")
    dropped = _hop_by_hop(given) | _REQUEST_ONLY
    kept = [
        (name, value)
        for name, value in given
        if name.lower() not in dropped and not name.lower().startswith(b"x-satchel-")
    ]
    own = [
        (OPERATION_HEADER.encode(), b"%d" % number),
        (TIME_HEADER.encode(), b"%d" % time_ns),
        (SEED_HEADER.encode(), b"%d" % seed),
        (b"Connection", b"close"),
    ]
    size = len(body) if length is None else length
    if size or method not in ("GET", "HEAD", "OPTIONS"):
        own.append((b"Content-Length", b"%d" % size))
    if method == "CONNECT":
        raise UsageError("cannot make an operation of CONNECT", why="it makes a tunnel")
    connection = h11.Connection(h11.CLIENT)
    try:
        request = h11.Request(
            method=method.encode("ascii", "replace"),
            target=quote(target, safe=_SAFE_IN_TARGET).encode("ascii"),
            headers=[(b"Host", host), *kept, *own],
        )
        head = connection.send(request) or b""
        if length is None:
            connection.send(h11.Data(data=body))
            connection.send(h11.EndOfMessage())
    except h11.LocalProtocolError as error:
        raise UsageError(
            f"cannot make an operation of {method} {target}", why=str(error)
        ) from error
    return head + body


def request(asked: RequestTemplate, *, number: int, time_ns: int, seed: int) -> bytes:
    """See `Adapter.request`."""
    headers, body = [("Content-Type", asked.content_type)], asked.payload()
    return encode(
        asked.method, asked.path, headers, body, number=number, time_ns=time_ns, seed=seed
    )


def label(operation: Operation) -> str:
    """See `Adapter.label`: the method and the path, without the parts that name one thing."""
    begin, flags = 0, piece_flags(operation)
    if flags is not None:
        if PieceFlag.BEGINS not in flags:
            return "a piece"
        begin = PIECE_HEAD_SIZE
    line = operation.payload[begin : begin + _LABEL_BYTES].split(b"\r\n", 1)[0]
    method, _, target = line.decode("ascii", "replace").partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    parts = ("*" if _NAMES_ONE.search(part) else part for part in path.split("/"))
    return f"{method} {'/'.join(parts)}"


def changes_nothing(operation: Operation, paths: Sequence[str]) -> bool:
    """Return whether it is a GET or HEAD at or below one of the paths (`targets.is_declared`)."""
    line = operation.payload[: operation.payload.find(b"\r\n")]
    method, _, rest = line.decode("ascii", "replace").partition(" ")
    target = rest.partition(" ")[0]
    return method in ("GET", "HEAD") and any(is_declared(target, below) for below in paths)


def normalise(response: bytes, operation: Operation) -> bytes:
    """See `Adapter.normalise`. Bytes that are no response become a 502."""
    one = Normaliser(operation)
    said = [one.take(response[at : at + _PIECE]) for at in range(0, len(response), _PIECE)]
    return b"".join(said) if one.end() else one.failure()


class Normaliser:
    """See `adapters.PieceReader`: of one response, which comes in pieces."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        flags = piece_flags(operation)
        self._silent = flags is not None and PieceFlag.ENDS not in flags
        self._method = operation.payload[:_LABEL_BYTES].split(b" ", 1)[0]
        self._date = (b"Date", formatdate(operation.time_ns // 10**9, usegmt=True).encode())
        self._connection = _client(self._method)
        self._head = False
        self._whole = False
        self._error = ""
        self._size = self._events = 0

    def take(self, piece: bytes) -> bytes:
        """See `adapters.PieceReader.take`."""
        if self._whole or self._error or self._silent:
            return b""
        self._size += len(piece)
        try:
            self._connection.receive_data(piece)
            return b"".join(self._said())
        except h11.ProtocolError as error:
            self._error = str(error)
            return b""

    def end(self) -> bool:
        """See `adapters.PieceReader.end`."""
        self.take(b"")
        if self._silent:  # only the last piece of a request has a response
            return True
        if not self._whole and not self._error:
            self._error = "the response is not whole"
        return self._whole

    def failure(self) -> bytes:
        """See `adapters.PieceReader.failure`."""
        number, why = self._operation.number, self._error
        logger.warning("operation %d: the service's answer is not HTTP: %s", number, why)
        size = (b"Content-Length", b"%d" % len(_BAD_GATEWAY))
        return _render(502, b"Bad Gateway", [self._date, size]) + _BAD_GATEWAY

    def _said(self) -> Iterator[bytes]:
        while True:
            event = self._connection.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return
            self._events += 1
            if self._events > _MAX_EVENTS + self._size // _USUAL_CHUNK:
                raise h11.RemoteProtocolError("the response is in too many pieces")
            if isinstance(event, h11.Response):
                self._head = True
                yield self._rendered(event)
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and self._head:
                self._whole = True
                return

    def _rendered(self, head: h11.Response) -> bytes:
        raw = list(head.headers.raw_items())
        dropped = _hop_by_hop(raw) | _RESPONSE_ONLY
        kept = [(name, value) for name, value in raw if name.lower() not in dropped]
        lengths = [item for item in raw if item[0].lower() == b"content-length"]
        if self._method == b"HEAD" or head.status_code in _NO_BODY:
            return _render(head.status_code, head.reason, [*kept, *lengths[:1], self._date])
        chunked = any(name.lower() == b"transfer-encoding" for name, _ in raw)
        size = [] if chunked else [(b"Content-Length", b"%d" % int(v)) for _, v in lengths[:1]]
        return _render(head.status_code, head.reason, [*kept, self._date, *size])


def decode(response: bytes) -> HttpResponse:
    """Takes a normalised response apart. From a peer it may be anything: NotHttp."""
    try:
        # To a HEAD request h11 expects no body, so that everything behind the head is left over.
        connection = _client(b"HEAD")
        connection.receive_data(response)
        head = connection.next_event()
        if not isinstance(head, h11.Response):
            raise NotHttp("cannot read a service's response", why="its head is not whole")
    except h11.ProtocolError as error:
        raise NotHttp("cannot read a service's response", why=str(error)) from error
    headers = tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in head.headers.raw_items())
    reason = head.reason.decode("latin-1")
    return HttpResponse(head.status_code, reason, headers, connection.trailing_data[0])


def _client(method: bytes) -> h11.Connection:
    """A connection that has sent such a request and waits for the response."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
    method = method if _METHOD.fullmatch(method) else b"GET"
    connection.send(h11.Request(method=method, target=b"/", headers=[(b"Host", b"localhost")]))
    connection.send(h11.EndOfMessage())
    return connection


def _render(status: int, reason: bytes, headers: _Headers) -> bytes:
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, reason)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    return b"".join([*lines, b"\r\n"])


def _hop_by_hop(headers: _Headers) -> frozenset[bytes]:
    """The lower-case names that belong to the connection: the known ones, and those it names."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }
    return HOP_BY_HOP | named


def _field(value: str) -> bytes:
    """A header's value: what is not Latin-1 goes as UTF-8, as browsers send it."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()
