# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP to a peer at a Unix socket; the peer's errors are raised here as the same root class.

The peer is not trusted: its answers are bounded in size, uncompressed, strictly parsed, and the
texts of its errors are made safe to print. What ssh forwards looks like a local socket that
always connects; a peer that is not there then shows as a connection that ends without an answer.
"""

from __future__ import annotations

import contextlib
import socket
import string
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpcore2

from satchel.errors import SatchelError, StateError
from wire import codec
from wire.errors import (
    ErrorReport,
    PeerTimeout,
    PeerUnreachable,
    RemoteProtocolError,
    code_of_status,
)

CONNECT_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 60.0
READ_SECONDS = 60.0
"""The longest silence of a peer that is borne when a call does not say otherwise."""

JSON_LIMIT = 8 << 20
BYTES_LIMIT = 64 << 20
"""Bytes of an answer that are accepted when a call does not say otherwise."""

PIECE = 1 << 16
"""Bytes of a request's body that are handed to httpcore2 at a time: it copies long ones often."""

_HEADERS = (("Host", "satchel"), ("User-Agent", "satchel"), ("Accept-Encoding", "identity"))
_JSON = {"Content-Type": "application/json"}
_BYTES = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True)
class HttpAnswer:
    """An answer with a status below 300, whole."""

    status: int
    body: bytes


@dataclass(frozen=True)
class _Question:
    method: str
    path: str
    body: bytes
    headers: Mapping[str, str] | None
    timeout: float | None
    limit: int


class HttpClient:
    """One peer. Any thread may call; each call has a connection of its own, kept alive for 60 s.

    Every call raises: the root class of the code that the peer's error carries; PeerUnreachable
    when nobody answers or the connection breaks; PeerTimeout after `timeout` seconds of silence
    (None: never); RemoteProtocolError for an answer that is malformed or larger than `limit`.
    An idempotent call is repeated once if the connection ended before anything was answered,
    because a peer may close a kept connection at the moment when we use it.
    """

    def __init__(self, socket_path: Path, *, peer: str = "") -> None:
        """peer: how messages name it, by default its socket."""
        self.peer = peer or str(socket_path)
        self._lock = threading.Lock()
        self._under_way = 0
        self._closed = False
        self._sockets = _Sockets()
        self._connections = httpcore2.ConnectionPool(
            max_connections=None,
            max_keepalive_connections=16,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            uds=str(socket_path),
            network_backend=self._sockets,
        )

    def close(self) -> None:
        """Accept no more calls (StateError) and close the connections when the last call that is
        under way has ended. `cut` ends those, too."""
        with self._lock:
            self._closed = True
            ends = self._under_way == 0
        if ends:
            self._connections.close()

    def drop_idle(self) -> None:
        """Close the connections that are kept alive, unless a call is under way. Others are made
        when they are needed."""
        with self._lock:
            if self._under_way == 0:
                self._connections.close()

    def cut(self) -> None:
        """Close, and end the calls that are under way: they raise PeerUnreachable at once."""
        self.close()
        self._sockets.cut()

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_json(self, path: str, *, timeout: float | None = READ_SECONDS) -> Any:
        """The JSON value that GET answers, None for an empty body."""
        return self._json(self.request("GET", path, timeout=timeout, limit=JSON_LIMIT))

    def post_json(
        self,
        path: str,
        value: Any = None,
        *,
        timeout: float | None = READ_SECONDS,
        idempotent: bool = False,
    ) -> Any:
        """POST a JSON value, return the JSON value answered, None for an empty body."""
        return self._json(
            self.request(
                "POST",
                path,
                body=codec.dumps(value),
                headers=_JSON,
                timeout=timeout,
                limit=JSON_LIMIT,
                idempotent=idempotent,
            )
        )

    def delete(self, path: str, *, timeout: float | None = READ_SECONDS) -> Any:
        """DELETE, idempotent; the JSON value answered, None for an empty body."""
        return self._json(self.request("DELETE", path, timeout=timeout, limit=JSON_LIMIT))

    def get_bytes(
        self, path: str, *, timeout: float | None = READ_SECONDS, limit: int = BYTES_LIMIT
    ) -> bytes:
        return self.request("GET", path, timeout=timeout, limit=limit).body

    def post_bytes(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = READ_SECONDS,
        limit: int = BYTES_LIMIT,
        idempotent: bool = False,
    ) -> bytes:
        """POST bytes, return the bytes answered."""
        return self.request(
            "POST",
            path,
            body=body,
            headers=_BYTES | dict(headers or {}),
            timeout=timeout,
            limit=limit,
            idempotent=idempotent,
        ).body

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = READ_SECONDS,
        limit: int = BYTES_LIMIT,
        idempotent: bool | None = None,
    ) -> HttpAnswer:
        """What the other calls are made of. idempotent None: as HTTP says of the method."""
        repeats = method in ("GET", "PUT", "DELETE", "HEAD") if idempotent is None else idempotent
        ask = _Question(method, path, body, headers, timeout, limit)
        with self._call(), self._answer(ask, repeats=repeats) as (response, pieces):
            return HttpAnswer(response.status, b"".join(pieces))

    def post_stream(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = READ_SECONDS,
        limit: int = BYTES_LIMIT,
        idempotent: bool = False,
    ) -> Iterator[bytes]:
        """POST bytes; the pieces of the answer as they come, wherever it is cut. Raises as the
        others do, PeerUnreachable also where the answer breaks off. Whoever takes no more of it
        closes the iterator."""
        ask = _Question("POST", path, body, _BYTES | dict(headers or {}), timeout, limit)
        with self._call(), self._answer(ask, repeats=idempotent) as (_, pieces):
            yield from pieces

    @contextlib.contextmanager
    def _answer(
        self, ask: _Question, *, repeats: bool
    ) -> Iterator[tuple[httpcore2.Response, Iterator[bytes]]]:
        """A good answer whose body is still to be read."""
        response = self._open(ask, repeats=repeats)
        pieces = _pieces(response, f"{ask.method} {ask.path} to {self.peer}", ask.limit)
        try:
            if response.status >= 300:
                raise self._fault(response.status, b"".join(pieces), ask)
            yield response, pieces
        finally:
            response.close()

    def _open(self, ask: _Question, *, repeats: bool) -> httpcore2.Response:
        cause = None
        for _ in range(2 if repeats else 1):
            try:
                return self._send(ask)
            except _ConnectionEnded as ended:
                cause = ended
        raise PeerUnreachable(
            f"{ask.method} {ask.path} to {self.peer}: no answer",
            why=f"the connection ended ({cause})",
            fix="is the peer running?",
        ) from cause

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StateError(f"the client of {self.peer} is closed")
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                ends = self._closed and self._under_way == 0
            if ends:
                self._connections.close()

    def _send(self, ask: _Question) -> httpcore2.Response:
        label = f"{ask.method} {ask.path} to {self.peer}"
        body, wait = ask.body, ask.timeout
        request = httpcore2.Request(
            ask.method,
            f"http://satchel{quote(ask.path, string.punctuation)}",
            headers=[*_HEADERS, ("Content-Length", str(len(body))), *(ask.headers or {}).items()],
            content=[body[at : at + PIECE] for at in range(0, len(body), PIECE)],
            extensions={"timeout": {"connect": CONNECT_SECONDS, "read": wait, "write": wait}},
        )
        try:
            return self._connections.handle_request(request)
        except (httpcore2.ReadError, httpcore2.WriteError, httpcore2.RemoteProtocolError) as error:
            if _ended(error):
                raise _ConnectionEnded(str(error)) from error
            raise RemoteProtocolError(f"{label}: malformed answer", why=_why(error)) from error
        except httpcore2.ConnectTimeout as error:
            raise PeerUnreachable(f"{label}: no connection", why=_why(error)) from error
        except httpcore2.TimeoutException as error:
            raise PeerTimeout(f"{label}: no answer in time", why=_why(error)) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            fix = "is the peer running?"
            raise PeerUnreachable(f"{label}: no connection", why=_why(error), fix=fix) from error

    def _fault(self, status: int, body: bytes, ask: _Question) -> SatchelError:
        label = f"{ask.method} {ask.path} to {self.peer}"
        if status < 400:
            return RemoteProtocolError(f"{label}: unexpected status {status}")
        try:
            value = codec.loads(body)
        except RemoteProtocolError:
            value = None
        if isinstance(value, dict) and "code" in value:
            report = ErrorReport.from_json(value)
        else:
            report = ErrorReport(code_of_status(status), label, f"HTTP status {status}", "")
        error = report.to_error()
        error.add_note(f"answered to {label}")
        return error

    def _json(self, answer: HttpAnswer) -> Any:
        return codec.loads(answer.body) if answer.body else None


class _Sockets(httpcore2.SyncBackend):
    """Makes the connections of one client, and can end them all while others wait at them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[socket.socket] | None = weakref.WeakSet()

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        stream = super().connect_unix_socket(path, timeout, socket_options)
        with self._lock:
            if self._open is None:
                stream.close()
                raise httpcore2.ConnectError("it was cut")
            self._open.add(stream.get_extra_info("socket"))
        return stream

    def cut(self) -> None:
        """Who reads there finds the end; no more connections are made."""
        with self._lock:
            sockets, self._open = self._open, None
        for each in sockets or ():
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _ConnectionEnded(Exception):
    """The connection ended before the first byte of an answer."""


def _pieces(response: httpcore2.Response, label: str, limit: int) -> Iterator[bytes]:
    headers = {name.lower(): value for name, value in response.headers}
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise RemoteProtocolError(f"{label}: the answer is compressed", why="we asked for none")
    size = 0
    try:
        for piece in response.iter_stream():
            size += len(piece)
            if size > limit:
                raise RemoteProtocolError(f"{label}: the answer is larger than {limit} bytes")
            yield piece
    except httpcore2.TimeoutException as error:
        raise PeerTimeout(f"{label}: the answer stopped", why=_why(error)) from error
    except (httpcore2.ReadError, httpcore2.RemoteProtocolError) as error:
        if _ended(error):
            raise PeerUnreachable(f"{label}: the answer broke off", why=_why(error)) from error
        raise RemoteProtocolError(f"{label}: malformed answer", why=_why(error)) from error


def _ended(error: Exception) -> bool:
    """Whether the connection ended, rather than carrying something that is not HTTP."""
    text = str(error)
    return not isinstance(error, httpcore2.RemoteProtocolError) or text.startswith(
        ("Server disconnected", "peer closed connection")
    )


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
