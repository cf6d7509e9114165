# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP with programs of this device, a thread for each connection. h11 parses the requests.

A request keeps its headers as they came, and bodies are streamed both ways. A request that is not
HTTP gets the status that RFC 9110 and 9112 name, and ends the connection. So does a long body that
the application does not read.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus

import h11

from satchel.targets import split_target
from wire.errors import ErrorReport

logger = logging.getLogger(__name__)

IDLE_SECONDS = 120.0
HEAD_SECONDS = 30.0
"""In which a request's head has come, once it has begun."""

POLL_SECONDS = 0.02
LINGER_SECONDS = 2.0
"""For which a connection stays after its last answer, so that the program reads that."""

PIECE = 1 << 16
MAX_HEAD = 64 << 10
"""Bytes of a request's line and headers."""

DRAIN_BYTES = 8 << 20
"""The longest rest of a body that is read and dropped. A longer one ends the connection."""

CONNECTIONS = 256

Answer = Callable[["HttpExchange"], None]


class ProgramGone(Exception):
    """The program's connection has ended."""


class BadRequest(ProgramGone):
    """The program sends something other than HTTP, or sends too slowly. `status` is the answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class HttpExchange:
    """One request, and its answer once. One thread.

    authority: of the service, where the program knows its own address: it asks as of a proxy, or
    its connection was led here; else None. path: of the target, with its query. headers: as they
    came; named: by names in lower case, several of one name joined (RFC 9110, 5.3). entered:
    whether the connection was led here
    """

    def __init__(self, conversation: ProgramConversation, request: h11.Request) -> None:
        self._conversation = conversation
        self.method = request.method.decode("ascii")
        self.target = request.target.decode("latin-1")
        self.headers = [
            (k.decode("latin-1"), v.decode("latin-1")) for k, v in request.headers.raw_items()
        ]
        self.named: dict[str, str] = {}
        for name, value in self.headers:
            key = name.lower()
            glue = "; " if key == "cookie" else ", "
            self.named[key] = self.named[key] + glue + value if key in self.named else value
        self.answered = self.body_begun = False
        self.entered = conversation.authority is not None
        absolute, self.path = split_target(self.target)
        self.authority = absolute if conversation.authority is None else conversation.authority

    @property
    def connection(self) -> socket.socket:
        return self._conversation.connection

    @property
    def scheme(self) -> str:
        """Return the scheme of the program's address."""
        return "https" if isinstance(self.connection, ssl.SSLSocket) else "http"

    @property
    def size(self) -> int | None:
        """Return the size of the body, or None if the program does not declare it."""
        if "transfer-encoding" in self.named:
            return None
        length = self.named.get("content-length", "0").partition(",")[0]
        return int(length) if length.isdecimal() else None

    def body(self) -> Iterator[bytes]:
        """Yield the rest of the request's body. Raises ProgramGone."""
        self.body_begun = True
        return self._conversation.read_body()

    def whole_body(self, limit: int) -> bytes | None:
        """Return the body, or None if it is longer. Raises ProgramGone."""
        pieces, size = [], 0
        for piece in self.body():
            size += len(piece)
            if size > limit:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def answer(
        self,
        status: int,
        headers: Iterable[tuple[str, str]] = (),
        body: Iterable[bytes] | bytes = b"",
        reason: str = "",
    ) -> None:
        """Send the answer. Raises ProgramGone, and errors of `body`; then the connection closes."""
        self.answered = True
        found = [(k, v) for k, v in headers if k.lower() not in _OURS]
        if isinstance(body, bytes):
            bodiless = status in (204, 304) or status < 200
            if not bodiless and (body or self.method != "HEAD"):
                found = [(k, v) for k, v in found if k.lower() != "content-length"]
                found.append(("Content-Length", str(len(body))))
            body = [body] if body and self.method != "HEAD" and not bodiless else []
        if self._conversation.ends_after(self.size):
            found.append(("Connection", "close"))
        self._conversation.write(status, reason, found, body)


_OURS = {"connection", "keep-alive", "transfer-encoding"}


class ProgramConversation:
    """A connection of one program."""

    def __init__(
        self, connection: socket.socket, answer: Answer, authority: str | None = None, rate: int = 0
    ) -> None:
        """authority: whose connection this was meant to be, HOST or HOST:PORT; rate: bytes a second
        of which a body has to bring more, after HEAD_SECONDS"""
        self.connection = connection
        self.authority = authority
        self.requests = 0
        self.busy = self.closing = False
        self._answer = answer
        self._rate = rate
        self._begin(b"")
        connection.settimeout(IDLE_SECONDS)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            # A head and a body are two writes: the second would wait for the other end's
            # acknowledgement of the first, which may be 40 ms late.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        """Answer requests, one after the other."""
        with contextlib.suppress(OSError), self.connection:
            try:
                while (request := self._next_request()) is not None:
                    self.requests += 1
                    self._answer(HttpExchange(self, request))
                    if self.closing or not self._drained():
                        break
                    self._begin(self._http.trailing_data[0])
            except BadRequest as error:
                self._refuse(error)
            except ProgramGone:
                return
            self._take_leave()

    def read_body(self) -> Iterator[bytes]:
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while self._http.their_state is h11.SEND_BODY:
            event = self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif not isinstance(event, h11.EndOfMessage):
                raise ProgramGone("in the middle of a body")

    def ends_after(self, size: int | None) -> bool:
        """Return whether the answer has to announce the end of the connection, because the rest of
        a body of that size will not be read."""
        unread = self._http.their_state is h11.SEND_BODY
        waits = self._http.they_are_waiting_for_100_continue
        if self.closing:
            return True
        return unread and (waits or (size is not None and size > DRAIN_BYTES))

    def write(
        self, status: int, reason: str, headers: list[tuple[str, str]], body: Iterable[bytes]
    ) -> None:
        encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers]
        reason = reason or _reason(status)
        self._send(h11.Response(status_code=status, headers=encoded, reason=reason.encode()))
        for piece in body:
            for at in range(0, len(piece), PIECE):
                self._send(h11.Data(data=piece[at : at + PIECE]))
        self._send(h11.EndOfMessage())

    def _begin(self, data: bytes) -> None:
        """Expect another request. data: its first bytes"""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._since = self._size = 0.0
        self._fresh, self.busy = True, False
        self._held = b""
        if data:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        """Parse more bytes. Skip empty lines before a request (RFC 9112, 2.2)."""
        if self._fresh and data:
            data = self._held + data
            while data.startswith(b"\r\n"):
                data = data[2:]
            self._held = data
            if data in (b"", b"\r"):
                return
            self._fresh, self.busy, self._since = False, True, time.monotonic()
        self._size += len(data)
        self._http.receive_data(data)

    def _next_request(self) -> h11.Request | None:
        """Return the head of the next request, None at the end. Raises ProgramGone."""
        event = self._next()
        if not isinstance(event, h11.Request):
            return None
        if not event.http_version.startswith(b"1."):
            raise BadRequest(505, "its version is not HTTP/1.1")
        if sum(len(name) + len(value) for name, value in event.headers) > MAX_HEAD:
            raise BadRequest(431, f"its headers have more than {MAX_HEAD} bytes")
        names = {name for name, _ in event.headers}
        if b"transfer-encoding" in names and event.http_version == b"1.0":
            raise BadRequest(400, "HTTP/1.0 has no chunks")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise BadRequest(400, "it has two lengths")
        if dict(event.headers).get(b"content-length") == b"0":
            self._next()  # take the end, so that the body counts as read
        self._since = time.monotonic()
        return event

    def _drained(self) -> bool:
        """Return whether another request can follow."""
        rest = 0
        if self._http.their_state is h11.SEND_BODY:
            if self._http.they_are_waiting_for_100_continue:
                return False
            for piece in self.read_body():
                rest += len(piece)
                if rest > DRAIN_BYTES:
                    return False
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _next(self) -> h11.Event | None:
        while True:
            try:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._receive(self._came())
                    continue
            except h11.RemoteProtocolError as error:
                raise BadRequest(error.error_status_hint, str(error)) from error
            if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return None
            return event  # type: ignore[return-value]

    def _came(self) -> bytes:
        """Receive bytes. Raises ProgramGone, and BadRequest if they come too slowly."""
        body = self._http.their_state is h11.SEND_BODY
        allowed = HEAD_SECONDS + (self._size / self._rate if self._rate and body else 0)
        late = not self._fresh and (self._rate or not body)
        if late and time.monotonic() - self._since > allowed:
            raise BadRequest(408, "it comes too slowly")
        try:
            return self.connection.recv(PIECE)
        except TimeoutError as error:
            if self._fresh:
                raise ProgramGone("it says nothing") from error
            raise BadRequest(408, "it comes too slowly") from error
        except OSError as error:
            raise ProgramGone(str(error)) from error

    def _refuse(self, error: BadRequest) -> None:
        """Send the refusal, unless an answer has begun."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            report = ErrorReport("usage", "this is not a request of HTTP", str(error), "")
            self.connection.sendall(refusal(error.status, report))

    def _take_leave(self) -> None:
        """End the connection. Read and drop further data for a moment: a reset could destroy the
        last answer on its way (RFC 9112, 9.6)."""
        with contextlib.suppress(ValueError):
            if isinstance(self.connection, ssl.SSLSocket):
                self.connection.settimeout(0)
                self.connection.unwrap()
                return
        self.connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + LINGER_SECONDS
        self.connection.settimeout(LINGER_SECONDS)
        while time.monotonic() < until and self.connection.recv(PIECE):
            pass

    def _send(self, event: h11.Event) -> None:
        try:
            data = self._http.send(event)
            if data:
                self.connection.sendall(data)
        except (h11.LocalProtocolError, OSError) as error:
            raise ProgramGone(str(error)) from error


def refusal(status: int, report: ErrorReport) -> bytes:
    """Return the answer to a request that is refused, after which the connection ends."""
    body = json.dumps(report.to_json()).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status} {_reason(status)}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


class Conversations:
    """The connections of a port, each served in a thread of its own. Any thread may call it."""

    def __init__(self, answer: Answer, *, rate: int = 0) -> None:
        """rate: see ProgramConversation"""
        self._answer, self._rate = answer, rate
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self._guard = threading.Lock()
        self._open: set[ProgramConversation] = set()
        self._closing = threading.Event()

    def adopt(self, connection: socket.socket) -> None:
        """Serve a connection in another thread. Wait while CONNECTIONS are open."""
        self._room.acquire()
        threading.Thread(
            target=self._serve, args=(connection,), name="http program", daemon=True
        ).start()

    def converse(self, connection: socket.socket, authority: str | None = None) -> int:
        """Serve a connection in this thread. Return how many requests came."""
        with self._room:
            return self._converse(connection, authority)

    def close(self, grace: float = 0.0) -> None:
        """Cut idle connections at once, the others after their answer or after `grace` seconds."""
        self._closing.set()
        deadline = time.monotonic() + grace
        while self._cut(every=False) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._cut(every=True)

    def _cut(self, *, every: bool) -> bool:
        """Return whether connections are left."""
        with self._guard:
            found = list(self._open)
        for conversation in found:
            conversation.closing = True
            if every or not conversation.busy:
                with contextlib.suppress(OSError):
                    conversation.connection.shutdown(socket.SHUT_RDWR)
        return bool(found)

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._converse(connection, None)
        finally:
            self._room.release()

    def _converse(self, connection: socket.socket, authority: str | None) -> int:
        conversation = ProgramConversation(connection, self._answer, authority, self._rate)
        with self._guard:
            self._open.add(conversation)
        try:
            if self._closing.is_set():
                connection.close()
            else:
                conversation.run()
        except Exception:
            logger.exception("a program's connection is closed")
        finally:
            with self._guard:
                self._open.discard(conversation)
        return conversation.requests
