# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1: one request, one response, one connection.

A normalised response is a status line, headers, an empty line, and the body up to the end,
whatever the headers say. It differs from what the service sent in this: HTTP/1.1; interim
responses, hop-by-hop headers and trailers gone; chunks joined; Date is the operation's time;
Content-Length is the body's, or as it was where the response may not have a body.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import quote

import h11

from replay.adapters.adapter import Asked
from replay.operations import MAX_PAYLOAD, Operation
from satchel.errors import IntegrityError, UsageError

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
    b"The service's answer was not HTTP, or of more than %d MiB, as no replayed service may give.\n"
    b'With contract = "carry" in its recipe it may.\n' % (MAX_PAYLOAD >> 20)
)
_MAX_HEAD = 256 << 10
_MAX_EVENTS = 1 << 17
"""Interim responses and chunks of one response: what a hostile service may cost in time."""
_SAFE_IN_TARGET = "/?%:@!$&'()*+,;=[]~-._"
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_LABEL_BYTES = 256
_NAMES_ONE = re.compile("[0-9]")
_METHOD = re.compile(rb"[!-~]+")

_Headers = list[tuple[bytes, bytes]]


class NotHttp(IntegrityError):
    """The bytes are no normalised response."""


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
) -> bytes:
    """The payload of an operation: the request as the service gets it.

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
    if body or method not in ("GET", "HEAD", "OPTIONS"):
        own.append((b"Content-Length", b"%d" % len(body)))
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
        connection.send(h11.Data(data=body))
        connection.send(h11.EndOfMessage())
    except h11.LocalProtocolError as error:
        raise UsageError(
            f"cannot make an operation of {method} {target}", why=str(error)
        ) from error
    return head + body


def request(asked: Asked, *, number: int, time_ns: int, seed: int) -> bytes:
    """See `Adapter.request`."""
    headers, body = [("Content-Type", asked.content_type)], asked.payload()
    return encode(
        asked.method, asked.path, headers, body, number=number, time_ns=time_ns, seed=seed
    )


def label(operation: Operation) -> str:
    """See `Adapter.label`: the method and the path, without the parts that name one thing."""
    line = operation.payload[:_LABEL_BYTES].split(b"\r\n", 1)[0]
    method, _, target = line.decode("ascii", "replace").partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    parts = ("*" if _NAMES_ONE.search(part) else part for part in path.split("/"))
    return f"{method} {'/'.join(parts)}"


def changes_nothing(operation: Operation, paths: Sequence[str]) -> bool:
    """Whether it is a GET or HEAD at or below one of the paths. A path in which anything is encoded
    or leads upwards is below none."""
    line = operation.payload[: operation.payload.find(b"\r\n")]
    method, _, target = line.decode("ascii", "replace").partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    if method not in ("GET", "HEAD") or "%" in path or ".." in path:
        return False
    return any(path == below or path.startswith(below.rstrip("/") + "/") for below in paths)


def normalise(response: bytes, operation: Operation) -> bytes:
    """See `Adapter.normalise`. Bytes that are no response become a 502."""
    method = operation.payload.split(b" ", 1)[0]
    date = (b"Date", formatdate(operation.time_ns // 10**9, usegmt=True).encode())
    try:
        head, body = _parse(response, method)
    except h11.ProtocolError as error:
        logger.warning(
            "operation %d: the service's answer is not HTTP: %s", operation.number, error
        )
        return _render(502, b"Bad Gateway", [date], _BAD_GATEWAY)
    raw = list(head.headers.raw_items())
    dropped = _hop_by_hop(raw) | _RESPONSE_ONLY
    kept = [(name, value) for name, value in raw if name.lower() not in dropped]
    bodyless = method == b"HEAD" or head.status_code in _NO_BODY
    lengths = [item for item in raw if item[0].lower() == b"content-length"]
    if bodyless:
        kept += lengths[:1]
        return _render(head.status_code, head.reason, [*kept, date], None)
    return _render(head.status_code, head.reason, [*kept, date], body)


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


def _parse(response: bytes, method: bytes) -> tuple[h11.Response, bytes]:
    """The final response and its whole body. h11.RemoteProtocolError if there is none."""
    if not _END_OF_HEAD.search(response, 0, _MAX_HEAD):
        raise h11.RemoteProtocolError("the service closed the connection without a response")
    connection = _client(method)
    connection.receive_data(response)
    connection.receive_data(b"")
    head: h11.Response | None = None
    body = bytearray()
    for event in _events(connection):
        if isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return head, bytes(body)
    raise h11.RemoteProtocolError("the response is not whole")


def _events(connection: h11.Connection) -> Iterator[object]:
    for _ in range(_MAX_EVENTS):
        event = connection.next_event()
        if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
            return
        yield event
        if isinstance(event, h11.EndOfMessage):
            return
    raise h11.RemoteProtocolError("the response is in too many pieces")


def _render(status: int, reason: bytes, headers: _Headers, body: bytes | None) -> bytes:
    if body is not None:
        headers = [*headers, (b"Content-Length", b"%d" % len(body))]
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, reason)]
    lines += [b"%b: %b\r\n" % header for header in headers]
    return b"".join([*lines, b"\r\n", body or b""])


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
