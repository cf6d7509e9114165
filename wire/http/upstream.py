# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP with a service of the internet, such as cloud storage. Its TLS is verified by the system's
certificates, or by those that the settings name."""

from __future__ import annotations

import contextlib
import copy
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpcore2

from satchel.errors import CapacityError, IntegrityError, UnavailableError
from satchel.targets import normal_path

CONNECT_SECONDS = 20.0
SILENCE_SECONDS = 120.0
CONNECTIONS = 32

HOP_BY_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "expect", "proxy-connection"),
    }
)
"""Headers that are about one connection (RFC 9110, section 7.6.1)."""

Transferred = Callable[[float, int, int], None]
"""Told of a request that is over: when it began, of time.monotonic(), bytes up, bytes down."""

Headers = list[tuple[str, str]]


class ServiceUnreachable(UnavailableError):
    """A service does not answer, or its identity cannot be verified."""


class AnswerTooLong(CapacityError):
    """A service's answer is too long."""


class AnswerDamaged(IntegrityError):
    """A service's answer does not match its declared encoding."""


@dataclass
class ServiceAnswer:
    """body: to be read within the block of `Upstream.ask`"""

    status: int
    headers: Headers
    body: Iterator[bytes]

    @property
    def named(self) -> dict[str, str]:
        """Headers by names in lower case; of several, the last."""
        return {name.lower(): value for name, value in self.headers}

    def beginning(self, limit: int) -> bytes:
        """So many bytes of the body; the rest is read and dropped. Raises ServiceUnreachable."""
        kept = bytearray()
        for piece in self.body:
            kept += piece[: limit - len(kept)]
        return bytes(kept)

    def whole(self, limit: int) -> bytes:
        """The body without its encoding. Raises AnswerTooLong, AnswerDamaged,
        ServiceUnreachable."""
        gzip = self.named.get("content-encoding", "").lower() in ("gzip", "x-gzip")
        unpack = zlib.decompressobj(wbits=31) if gzip else None
        body = bytearray()
        for piece in self.body:
            try:
                body += unpack.decompress(piece, limit + 1 - len(body)) if unpack else piece
            except zlib.error as error:
                raise AnswerDamaged("cannot unpack an answer", why=str(error)) from error
            if len(body) >= limit or (unpack and unpack.unconsumed_tail):
                raise AnswerTooLong("a service's answer is too long", why=f"over {limit} bytes")
        return bytes(body)


class Upstream:
    """One service. Any thread."""

    def __init__(
        self, name: str, url: str, certificates: str = "", transferred: Transferred | None = None
    ) -> None:
        """certificates: a file of those that its TLS is verified by; empty: the system's.
        transferred: called after each request. `authority` is the server's name, without a default
        port. Raises OSError for certificates that cannot be read.
        """
        self.name = name
        parts = urlsplit(url)
        self.base = parts.path.rstrip("/")
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._transferred = transferred
        self._address = (parts.scheme, parts.hostname or "", parts.port)
        secure = ssl.create_default_context(cafile=certificates or None)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=secure, max_connections=CONNECTIONS, keepalive_expiry=30.0
        )
        self._host = parts.netloc.rpartition("@")[2]
        usual = ":443" if parts.scheme == "https" else ":80"
        self.authority = self._host.lower().removesuffix(usual)

    def close(self) -> None:
        self._pool.close()

    def at_origin(self) -> Upstream:
        """The same server from its root on, with the same connections; closed with this one."""
        found = copy.copy(self)
        found.base = ""
        return found

    @contextlib.contextmanager
    def ask(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: Iterable[bytes] | None = None,
        size: int | None = None,
        host: str = "",
    ) -> Iterator[ServiceAnswer]:
        """One request. path: below the service, percent-encoded, with its query; size: of the
        body, None where it is not known; host: as a signature covers it; empty: the service's.
        Raises ServiceUnreachable, in the block as well."""
        sent = [(k, v) for k, v in headers if k.lower() not in HOP_BY_HOP | {"content-length"}]
        sent.append(("Host", host or self._host))
        if body is not None:
            known = ("Content-Length", str(size)) if size is not None else None
            sent.append(known or ("Transfer-Encoding", "chunked"))
        scheme, host, port = self._address
        target = (self.base + path) or "/"
        traffic = _Traffic()
        try:
            with self._pool.stream(
                method,
                httpcore2.URL(scheme=scheme, host=host, port=port, target=target),
                headers=[(k.encode("latin-1"), v.encode("latin-1")) for k, v in sent],
                content=traffic.up(body) if body is not None else None,
                extensions={"timeout": _TIMEOUT},
            ) as response:
                found = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in response.headers]
                traffic.heads += sum(len(k) + len(v) + 4 for k, v in found)
                yield ServiceAnswer(response.status, found, traffic.down(response.iter_stream()))
        except (
            httpcore2.NetworkError,
            httpcore2.TimeoutException,
            httpcore2.ProtocolError,
        ) as error:
            why = str(error) or type(error).__name__
            raise ServiceUnreachable(f"{self.name} does not answer", why=why) from error
        finally:
            up = traffic.bytes_up + sum(len(k) + len(v) + 4 for k, v in sent)
            if self._transferred:
                self._transferred(traffic.began, up, traffic.bytes_down + traffic.heads)

    def above(self, path: str) -> str:
        """Return a path below the service as its addresses have it. path: a `normal_path`"""
        return normal_path(self.base) + path

    def below(self, path: str) -> str:
        """Return an address's path as `ask` takes it. path: a `normal_path`"""
        return path.removeprefix(normal_path(self.base))


_TIMEOUT: Mapping[str, float] = {
    "connect": CONNECT_SECONDS,
    "read": SILENCE_SECONDS,
    "write": SILENCE_SECONDS,
    "pool": SILENCE_SECONDS,
}


class _Traffic:
    """Counts what goes over the interface for one request."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.bytes_up = self.bytes_down = self.heads = 0

    def up(self, body: Iterable[bytes]) -> Iterator[bytes]:
        for piece in body:
            self.bytes_up += len(piece)
            yield piece

    def down(self, body: Iterable[bytes]) -> Iterator[bytes]:
        for piece in body:
            self.bytes_down += len(piece)
            yield piece
