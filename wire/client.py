# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP to a peer at a Unix socket; the peer's errors are raised here as the same root class.

The peer is not trusted: its answers are bounded in size, uncompressed, strictly parsed, and the
texts of its errors are made safe to print. What ssh forwards looks like a local socket that
always connects; a peer that is not there then shows as a connection that ends without an answer.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from satchel.errors import SatchelError, StateError
from wire import codec
from wire.errors import (
    ErrorReport,
    PeerTimeout,
    PeerUnreachable,
    RemoteProtocolError,
    code_of_status,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

CONNECT_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 60.0
READ_SECONDS = 60.0
"""The longest silence of a peer that is borne when a call does not say otherwise."""

JSON_LIMIT = 8 << 20
BYTES_LIMIT = 64 << 20
"""Bytes of an answer that are accepted when a call does not say otherwise."""

_JSON = {"Content-Type": "application/json"}
_BYTES = {"Content-Type": "application/octet-stream"}


@dataclass(frozen=True)
class Answer:
    """An answer with a status below 400, whole."""

    status: int
    headers: Mapping[str, str]
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

    def __init__(
        self,
        socket_path: Path,
        *,
        peer: str = "",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """peer: how messages name it, by default its socket. transport: in place of the socket."""
        self.peer = peer or str(socket_path)
        self._lock = threading.Lock()
        self._under_way = 0
        self._closed = False
        self._client = httpx.Client(
            transport=transport or _socket_transport(socket_path),
            base_url="http://satchel",
            headers={"Accept-Encoding": "identity", "User-Agent": "satchel"},
            trust_env=False,
        )

    @classmethod
    def in_process(cls, app: WSGIApplication, *, peer: str = "in-process") -> HttpClient:
        """A client of `app` without any socket: the same calls, the same errors."""
        transport = httpx.WSGITransport(app, raise_app_exceptions=False)
        return cls(Path(peer), peer=peer, transport=transport)

    def close(self) -> None:
        """Accept no more calls (StateError) and close the connections when the last call that is
        under way has ended. To cut such calls short, end the link that carries them."""
        with self._lock:
            self._closed = True
            ends = self._under_way == 0
        if ends:
            self._client.close()

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
    ) -> Answer:
        """What the other calls are made of. idempotent None: as HTTP says of the method."""
        repeats = method in ("GET", "PUT", "DELETE", "HEAD") if idempotent is None else idempotent
        ask = _Question(method, path, body, headers, timeout, limit)
        with self._call(), self._answer(ask, repeats=repeats) as (response, pieces):
            return Answer(response.status_code, response.headers, b"".join(pieces))

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
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        """A good answer whose body is still to be read."""
        response = self._open(ask, repeats=repeats)
        pieces = _pieces(response, f"{ask.method} {ask.path} to {self.peer}", ask.limit)
        try:
            if response.status_code >= 300:
                raise self._fault(response.status_code, b"".join(pieces), ask)
            yield response, pieces
        finally:
            response.close()

    def _open(self, ask: _Question, *, repeats: bool) -> httpx.Response:
        cause = None
        for _ in range(2 if repeats else 1):
            request = self._client.build_request(
                ask.method,
                ask.path,
                # httpcore copies a long bytes often
                content=io.BytesIO(ask.body) if ask.body else None,
                headers=ask.headers,
                timeout=httpx.Timeout(ask.timeout, connect=CONNECT_SECONDS),
            )
            try:
                return self._send(request)
            except _ConnectionEnded as ended:
                cause = ended
        method, path = ask.method, ask.path
        raise PeerUnreachable(
            f"{method} {path} to {self.peer}: no answer",
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
                self._client.close()

    def _send(self, request: httpx.Request) -> httpx.Response:
        label = f"{request.method} {request.url.path} to {self.peer}"
        try:
            return self._client.send(request, stream=True)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
            if _ended(error):
                raise _ConnectionEnded(str(error)) from error
            raise RemoteProtocolError(f"{label}: malformed answer", why=_why(error)) from error
        except httpx.ConnectTimeout as error:
            raise PeerUnreachable(f"{label}: no connection", why=_why(error)) from error
        except httpx.TimeoutException as error:
            raise PeerTimeout(f"{label}: no answer in time", why=_why(error)) from error
        except httpx.TransportError as error:
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

    def _json(self, answer: Answer) -> Any:
        return codec.loads(answer.body) if answer.body else None


class _ConnectionEnded(Exception):
    """The connection ended before the first byte of an answer."""


def _socket_transport(path: Path) -> httpx.HTTPTransport:
    limits = httpx.Limits(
        max_connections=None,
        max_keepalive_connections=16,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
    )
    # verify=False spares loading certificates: no TLS is spoken on a Unix socket.
    return httpx.HTTPTransport(uds=str(path), limits=limits, verify=False)


def _pieces(response: httpx.Response, label: str, limit: int) -> Iterator[bytes]:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise RemoteProtocolError(f"{label}: the answer is compressed", why="we asked for none")
    size = 0
    try:
        for piece in response.iter_raw():
            size += len(piece)
            if size > limit:
                raise RemoteProtocolError(f"{label}: the answer is larger than {limit} bytes")
            yield piece
    except httpx.TimeoutException as error:
        raise PeerTimeout(f"{label}: the answer stopped", why=_why(error)) from error
    except (httpx.ReadError, httpx.RemoteProtocolError) as error:
        if _ended(error):
            raise PeerUnreachable(f"{label}: the answer broke off", why=_why(error)) from error
        raise RemoteProtocolError(f"{label}: malformed answer", why=_why(error)) from error


def _ended(error: httpx.TransportError) -> bool:
    """Whether the connection ended, rather than carrying something that is not HTTP."""
    text = str(error)
    return not isinstance(error, httpx.RemoteProtocolError) or text.startswith(
        ("Server disconnected", "peer closed connection")
    )


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
