# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP with one connection of a program: bodies are streamed both ways, h11 reads what it says."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator

import h11

logger = logging.getLogger(__name__)

IDLE_SECONDS = 120.0
PIECE = 1 << 16
DRAIN_BYTES = 8 << 20
"""Of a body that nobody wanted, so that the connection can go on. Of a longer one it is closed."""

Answer = Callable[["HttpExchange"], None]


class ProgramGone(Exception):
    """The program's connection ended, or says what is not HTTP."""


_ABSOLUTE = re.compile(r"http://([^/?#]*)(?=[/?]|$)", re.IGNORECASE)


class HttpExchange:
    """One request, and its answer once. One thread.

    authority: of the service, where the program knows its own address: it asks as of a proxy, or
    its connection was led here; else None. path: of the target, with its query
    """

    def __init__(self, conversation: ProgramConversation, request: h11.Request) -> None:
        self._conversation = conversation
        self.method = request.method.decode("ascii")
        self.target = request.target.decode("latin-1")
        self.headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in request.headers]
        self.named = {name.lower(): value for name, value in self.headers}
        self.answered = self.body_begun = False
        self.path, self.authority = self.target, conversation.authority
        absolute = _ABSOLUTE.match(self.target)
        if absolute and self.authority is None:
            self.authority, self.path = absolute[1], self.target[absolute.end() :] or "/"

    @property
    def connection(self) -> socket.socket:
        return self._conversation.connection

    @property
    def scheme(self) -> str:
        """As the program sees it."""
        return "https" if isinstance(self.connection, ssl.SSLSocket) else "http"

    @property
    def size(self) -> int | None:
        """Of the body; None where the program does not say."""
        if "chunked" in self.named.get("transfer-encoding", "").lower():
            return None
        length = self.named.get("content-length", "0")
        return int(length) if length.isdecimal() else None

    def body(self) -> Iterator[bytes]:
        """The rest of the request's body. Raises ProgramGone."""
        self.body_begun = True
        return self._conversation.read_body()

    def whole_body(self, limit: int) -> bytes | None:
        """The body, or None where it is longer. Raises ProgramGone."""
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
    ) -> None:
        """Raises ProgramGone; and what the body raises, after which the connection is closed."""
        self.answered = True
        found = [(k, v) for k, v in headers if k.lower() not in _OURS]
        if isinstance(body, bytes):
            bodiless = status in (204, 304) or status < 200
            if not bodiless and self.method != "HEAD":
                found = [(k, v) for k, v in found if k.lower() != "content-length"]
                found.append(("Content-Length", str(len(body))))
            body = [body] if body else []
        self._conversation.write(status, found, body)


_OURS = {"connection", "keep-alive", "transfer-encoding"}


def _take_leave(connection: socket.socket) -> None:
    """TLS says that nothing more comes, so that it is not taken for a connection that was cut."""
    if isinstance(connection, ssl.SSLSocket):
        connection.settimeout(0)
        with contextlib.suppress(OSError, ValueError):
            connection.unwrap()


class ProgramConversation:
    """One connection, until either end closes it."""

    def __init__(
        self, connection: socket.socket, answer: Answer, authority: str | None = None
    ) -> None:
        """authority: whose connection this was meant to be, HOST or HOST:PORT"""
        self.connection = connection
        self.authority = authority
        self.requests = 0
        self._answer = answer
        self._http = h11.Connection(h11.SERVER)
        connection.settimeout(IDLE_SECONDS)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            # A head and a body are two writes: the second would wait for the other end's
            # acknowledgement of the first, which may be 40 ms late.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        """Answer requests, one after the other."""
        with contextlib.suppress(ProgramGone, OSError), self.connection:
            while (event := self._next()) is not None and isinstance(event, h11.Request):
                self.requests += 1
                self._answer(HttpExchange(self, event))
                if not self._drained():
                    break
                self._http.start_next_cycle()
            _take_leave(self.connection)

    def read_body(self) -> Iterator[bytes]:
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            event = self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise ProgramGone("in the middle of a body")

    def write(self, status: int, headers: list[tuple[str, str]], body: Iterable[bytes]) -> None:
        encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers]
        self._send(h11.Response(status_code=status, headers=encoded))
        for piece in body:
            for at in range(0, len(piece), PIECE):
                self._send(h11.Data(data=piece[at : at + PIECE]))
        self._send(h11.EndOfMessage())

    def _drained(self) -> bool:
        """Whether another request can come."""
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
                    self._http.receive_data(self.connection.recv(PIECE))
                    continue
            except (h11.RemoteProtocolError, OSError) as error:
                raise ProgramGone(str(error)) from error
            if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return None
            return event  # type: ignore[return-value]

    def _send(self, event: h11.Event) -> None:
        try:
            data = self._http.send(event)
            if data:
                self.connection.sendall(data)
        except (h11.LocalProtocolError, OSError) as error:
            raise ProgramGone(str(error)) from error
