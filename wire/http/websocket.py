# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""WebSockets (RFC 6455) of a browser at a port of 127.0.0.1, each joined to another connection.

What one end sends as binary messages the other gets as bytes, and the other way round; where a
message ends says nothing. Who may have one is asked before. Whatever the browser says is hostile:
its request has a bound in bytes and in time, and no message is held whole.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from satchel.errors import AccessError, SatchelError
from wire.ports.stream_port import StreamPort

logger = logging.getLogger(__name__)

PIECE = 64 << 10

REQUEST_SECONDS = 10.0
"""In which a browser has said what it wants."""

SEND_SECONDS = 60.0
"""How long an end may take nothing before it counts as gone."""

SOCKETS = 8
"""That are open at a time: each holds two threads."""

NORMAL, UNSUPPORTED_DATA = 1000, 1003
"""Why a WebSocket is closed (RFC 6455, 7.4.1)."""

Header = Callable[[str], "str | None"]
"""The value of a header of a request by its name; all its values where it is there more than once;
None where it is not."""


class WebSocketPort:
    """Serves a free port of 127.0.0.1 until closed."""

    def __init__(
        self, admit: Callable[[int, Header], None], connect: Callable[[], socket.socket]
    ) -> None:
        """admit: is told this port and a request's headers, and raises AccessError. connect: the
        other end, raises OSError or a SatchelError. Both are called in the port's threads."""
        self._admit, self._connect = admit, connect
        self._room = threading.BoundedSemaphore(SOCKETS)
        self._stream = StreamPort("ws", 0, self._serve)
        self.port = self._stream.port

    def close(self) -> None:
        """Listen no more and end every WebSocket."""
        self._stream.close()

    def _serve(self, browser: socket.socket) -> None:
        if not self._room.acquire(blocking=False):
            return
        try:
            conversation = _Conversation(browser)
            header = conversation.request()
            try:
                self._admit(self.port, header)
                other = self._connect()
            except (OSError, SatchelError) as error:
                logger.info("a browser's WebSocket is refused: %s", error)
                conversation.refuse(403 if isinstance(error, AccessError) else 502)
                return
            with other:
                conversation.join(other)
        except (LocalProtocolError, RemoteProtocolError) as error:
            logger.info("a browser's WebSocket ends: %s", error)
        finally:
            self._room.release()


class _Conversation:
    """With one browser. `join` uses two threads; the rest is for one."""

    def __init__(self, browser: socket.socket) -> None:
        self._browser = browser
        self._lock = threading.Lock()  # guards the one below, and the order of what is sent
        self._protocol = WSConnection(ConnectionType.SERVER)

    def request(self) -> Header:
        """What the browser asks with. Raises RemoteProtocolError, and OSError where it does not
        come in time."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            self._browser.settimeout(max(0.001, deadline - time.monotonic()))
            data = self._browser.recv(PIECE)
            if not data:
                raise RemoteProtocolError("it ended before it had asked")
            self._protocol.receive_data(data)
            for event in self._protocol.events():
                if isinstance(event, Request):
                    return _headers(event)

    def refuse(self, status: int) -> None:
        """Instead of `join`."""
        self._say(RejectConnection(status_code=status))

    def join(self, other: socket.socket) -> None:
        """Carry bytes until one end is over; both are cut then, not closed."""
        self._say(AcceptConnection())
        for end in (self._browser, other):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SEND_SECONDS * 1000))
        carrier = threading.Thread(target=self._carry_to_browser, args=(other,), daemon=True)
        carrier.start()
        try:
            self._carry_from_browser(other)
        finally:
            _cut(other)
            carrier.join()

    def _carry_from_browser(self, other: socket.socket) -> None:
        while data := self._browser.recv(PIECE):
            with self._lock:
                self._protocol.receive_data(data)
                events = list(self._protocol.events())
            if not self._follow(events, other):
                return

    def _follow(self, events: Iterable[Event], other: socket.socket) -> bool:
        """Whether the WebSocket goes on."""
        for event in events:
            if isinstance(event, BytesMessage):
                other.sendall(event.data)
            elif isinstance(event, Ping):
                self._say(event.response())
            elif isinstance(event, TextMessage):
                self._say(CloseConnection(UNSUPPORTED_DATA, "bytes, no text"))
                return False
            elif isinstance(event, CloseConnection):
                with contextlib.suppress(LocalProtocolError):  # it was our end first
                    self._say(event.response())
                return False
        return True

    def _carry_to_browser(self, other: socket.socket) -> None:
        with contextlib.suppress(OSError, LocalProtocolError):
            while data := other.recv(PIECE):
                self._say(BytesMessage(data))
            self._say(CloseConnection(NORMAL))
        _cut(self._browser)

    def _say(self, event: Event) -> None:
        with self._lock:
            self._browser.sendall(self._protocol.send(event))


def _headers(request: Request) -> Header:
    """wsproto has the host apart from the others."""
    fields: dict[str, list[str]] = {"host": [request.host]}
    for name, value in request.extra_headers:
        fields.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def header(name: str) -> str | None:
        values = fields.get(name.lower())
        return None if values is None else ", ".join(values)

    return header


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
