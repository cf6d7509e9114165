# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a guest and a site, or a laptop and its home, come to know each other's keys.

The site shows a code of eight digits for two minutes. Whoever knows it proves that by SPAKE2,
which tells a listener nothing and a guesser whether one guess was right. The key that both then
have authenticates one message each way: the guest's public key, and the site's grant. Neither is
secret, and neither can be changed on the way. docs/formats/pairing.md has the bytes.

A try is counted when it begins, so that many at once are no more tries than three.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

from satchel.errors import (
    AccessError,
    ConflictError,
    SatchelError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from satchel.names import check_name
from satchel.paths import SOCKET_PATH_LIMIT
from wire import codec
from wire.errors import ErrorReport, LocalProtocolError, RemoteProtocolError, printable
from wire.keys.authority import read_certificate
from wire.keys.identity import fingerprint
from wire.messages import JsonMessage
from wire.ports.acceptor import Acceptor

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=JsonMessage)

PAIRING_PORT = 4736
"""Where a site listens while it shows a code."""

VALID_SECONDS = 120.0
"""How long a code is good."""

TRIES = 3
"""How many may be made with one code."""

DIGITS = 8

SIGNAL_POLL_SECONDS = 0.5
"""How long a signal, or the end, may wait for its turn."""

CONNECTION_SECONDS = 15.0
"""How long one connection may take in all."""

CONNECTIONS = 8
"""The number of connections served at once. A new one replaces the oldest that is silent."""

FRAME_BYTES = 64 << 10

FIELDS = 16
"""How many an address may have."""

VERSION = 1

SCHEME = "satchel"

_GUEST, _SITE = b"satchel guest", b"satchel site"
_KINDS = ("surrogate", "home")
_CODE = re.compile(r"[0-9]{8}")
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,31}")
_HOST = re.compile(r"[A-Za-z0-9.:%_-]{1,253}")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_SIGNER = re.compile(r"[A-Za-z0-9@._+-]+ namespaces=\"[a-z0-9@.,-]+\" \S+ \S+")


class CodeWrong(AccessError):
    """The other side has a different code, or an attacker is between."""


@dataclass(frozen=True)
class Address:
    """What a QR code says. key: the fingerprint of a key that the site's grant must have, or ''."""

    host: str
    port: int
    code: str
    key: str = ""

    def __post_init__(self) -> None:
        """Raises LocalProtocolError."""
        if not _HOST.fullmatch(self.host) or not 0 < self.port < 65536:
            raise LocalProtocolError(f"{self.host[:80]}:{self.port} is not an address")
        if not _CODE.fullmatch(self.code):
            raise LocalProtocolError("this is not a code", why=f"a code has {DIGITS} digits")
        if self.key and not _FINGERPRINT.fullmatch(self.key):
            raise LocalProtocolError(f"{self.key[:80]!r} is not a fingerprint")

    @property
    def uri(self) -> str:
        """`satchel://pair?...`, as the QR code has it."""
        fields = {"at": self.host, "port": self.port, "code": self.code}
        return f"{SCHEME}://pair?{urlencode(fields | ({'key': self.key} if self.key else {}))}"

    @property
    def place(self) -> str:
        """HOST, or HOST:PORT where that is not the usual one, as `parse` takes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.host if self.port == PAIRING_PORT else f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str, at: str = "") -> Address:
        """Of what `uri` made; or of a code, as `1234-5678`, where `at` is HOST or HOST:PORT.
        Raises UsageError."""
        if text.startswith(f"{SCHEME}:"):
            try:
                fields = parse_qs(urlsplit(text).query, max_num_fields=FIELDS)
            except ValueError as error:
                raise UsageError("that is not the address of a site", why=str(error)) from error
            first = {name: values[0] for name, values in fields.items()}
            port = first.get("port", str(PAIRING_PORT))
            code, host, key = first.get("code", ""), first.get("at", ""), first.get("key", "")
        else:
            code, key = re.sub(r"[\s-]", "", text), ""
            host, port = _split(at)
        if not host:
            raise UsageError("no host is named that shows the code", fix="name it with --at HOST")
        return cls(host, int(port) if port.isdecimal() and len(port) < 6 else 0, code, key)


@dataclass(frozen=True)
class PairRequest(JsonMessage):
    """What a guest says of itself. name: for people; public: the line of its key."""

    name: str
    public: str

    def __post_init__(self) -> None:
        check_name(self.name, "client")
        fingerprint(self.public)


@dataclass(frozen=True)
class Grant(JsonMessage):
    """What the guest gets. kind: `surrogate` or `home`; name: as the site calls itself; user, port:
    of its sshd; socket: of its daemon. host_keys: of its sshd; host_authority: the key that
    certifies them; certificate: for the guest's key; signer: a line for allowed_signers."""

    kind: str
    name: str
    user: str
    port: int
    socket: str
    host_keys: tuple[str, ...] = ()
    host_authority: str = ""
    certificate: str = ""
    signer: str = ""

    def __post_init__(self) -> None:
        """Raises LocalProtocolError, BadName: nothing here can break the files it is put into."""
        check_name(self.name, "host")
        _check_kind(self.kind)
        for holds, what in (
            (_USER.fullmatch(self.user), "user"),
            (0 < self.port < 65536, "port"),
            (_is_socket(self.socket), "socket"),
            (len(self.host_keys) <= 16, "number of host keys"),
            (self.host_keys or self.host_authority, "host key"),
            (not self.signer or _SIGNER.fullmatch(self.signer), "signer"),
        ):
            if not holds:
                raise LocalProtocolError(f"a grant has no such {what}")
        for key in (*self.host_keys, *([self.host_authority] if self.host_authority else [])):
            fingerprint(key)
        if self.certificate:
            read_certificate(self.certificate)

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprints of the keys by which the site's hosts are known."""
        return [fingerprint(key) for key in (self.host_authority, *self.host_keys) if key]


@dataclass(frozen=True)
class AuthenticatedMessage(JsonMessage):
    """One message and its authenticator, HMAC-SHA256 in hexadecimal."""

    body: str
    mac: str


@dataclass(frozen=True)
class Hello(JsonMessage):
    """What the site says first. kind: see Grant; it is part of the exchange."""

    version: int
    kind: str

    def __post_init__(self) -> None:
        _check_kind(self.kind)


@dataclass(frozen=True)
class KeyShare(JsonMessage):
    """SPAKE2's message of one side, in hexadecimal; or why the site does not go on."""

    share: str = ""
    error: str = ""


class Invitation:
    """A code that is shown, and who listens for whoever has it. `close` is due.

    Thread-safe. Its threads end with it.
    """

    def __init__(
        self,
        kind: str,
        grant: Callable[[PairRequest], Grant],
        *,
        listen: str = "",
        port: int = PAIRING_PORT,
    ) -> None:
        """kind: see Grant. grant: makes what the guest gets, once, on a thread of its own; what it
        raises the guest is told. listen: an address of this host, by default all. Raises
        ConflictError where the port is taken."""
        self.code = f"{secrets.randbelow(10**DIGITS):0{DIGITS}}"
        self._kind = kind
        self._grant = grant
        self._acceptor = Acceptor(_listener(listen, port), self._adopt, "pairing")
        self._deadline = time.monotonic() + VALID_SECONDS
        self._changed = threading.Condition()
        self._tries = TRIES
        self._served: set[socket.socket] = set()
        self._silent: dict[socket.socket, None] = {}
        self._paired: PairRequest | None = None
        self._failure: SatchelError | None = None
        self._acceptor.start()

    @property
    def port(self) -> int:
        return self._acceptor.port

    def address(self, host: str, key: str) -> Address:
        """The address for a QR code. host: where guests reach this host; key: see Address."""
        return Address(host, self.port, self.code, key)

    def wait(self) -> PairRequest:
        """Whoever has been given what the code is for. Raises UnavailableError once the code has
        expired, CodeWrong after the last try, and what `grant` raised."""
        with self._changed:
            while time.monotonic() < self._deadline:
                if self._changed.wait_for(
                    lambda: self._paired or self._failure, SIGNAL_POLL_SECONDS
                ):
                    break
            if self._failure:
                raise self._failure
            if self._paired:
                return self._paired
        why = f"nobody used it within {VALID_SECONDS:.0f} s"
        raise UnavailableError("the code has expired", why=why, fix="show another one")

    def close(self) -> None:
        """Listen no more. Connections that there are end soon."""
        self._acceptor.close()

    def __enter__(self) -> Invitation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _adopt(self, connection: socket.socket) -> None:
        with self._changed:
            if len(self._served) >= CONNECTIONS:
                oldest = next(iter(self._silent), None)
                if oldest is None:
                    connection.close()
                    return
                self._drop(oldest)
            self._served.add(connection)
            self._silent[connection] = None
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        channel = _Channel(connection)
        try:
            channel.send(Hello(VERSION, self._kind))
            theirs = channel.receive(KeyShare)
            with self._changed:
                if connection not in self._served:
                    return
                self._silent.pop(connection)
            self._answer(channel, theirs)
        except SatchelError as error:
            logger.info("a pairing did not come about: %s", error)
        except OSError as error:
            logger.info("a pairing broke off: %s", error)
        finally:
            with self._changed:
                self._served.discard(connection)
                self._silent.pop(connection, None)
            connection.close()

    def _drop(self, connection: socket.socket) -> None:
        """End a connection that has sent no share yet, so that silent ones block nobody."""
        self._served.discard(connection)
        self._silent.pop(connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, channel: _Channel, theirs: KeyShare) -> None:
        refusal = self._begin_try()
        if refusal:
            channel.send(KeyShare(error=refusal))
            return
        exchange = _Exchange(self.code, self._kind, guest=False)
        channel.send(KeyShare(exchange.share))
        try:
            exchange.finish(theirs.share)
            request = exchange.opened(channel.receive(AuthenticatedMessage), PairRequest)
        except (SatchelError, OSError):
            self._end_try()
            raise
        with self._changed:
            if self._paired or self._failure:
                return
            try:
                grant = self._grant(request)
            except SatchelError as error:
                self._failure = error
                channel.send(exchange.authenticated(ErrorReport.of(error)))
                self._changed.notify_all()
                return
            channel.send(exchange.authenticated(grant))
            self._paired = request
            self._changed.notify_all()

    def _begin_try(self) -> str:
        """Why it is refused, or ''."""
        with self._changed:
            if self._paired or self._tries == 0 or time.monotonic() > self._deadline:
                return "the code is not good any more"
            self._tries -= 1
        return ""

    def _end_try(self) -> None:
        with self._changed:
            if self._tries == 0 and not self._paired:
                self._failure = CodeWrong(
                    "the code was tried wrongly too often",
                    why=f"{TRIES} times",
                    fix="show another one, and look who is on this network",
                )
                self._changed.notify_all()


def own_address() -> str:
    """The address that this host has on the way to the internet, or else its name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def pair(address: Address, kind: str, request: PairRequest) -> Grant:
    """Prove that we have the code, and return the grant. kind: `surrogate` or `home`, which the
    user chose: a site does not decide what it becomes here.

    Raises UnavailableError if the site does not listen or the code has expired, ConflictError if
    it offers the other kind, CodeWrong, UnsupportedError for another version,
    RemoteProtocolError, and the error that the site reports.
    """
    place = f"{address.host} port {address.port}"
    try:
        connection = socket.create_connection((address.host, address.port), CONNECTION_SECONDS)
    except socket.gaierror as error:
        fix = "give the address that is shown beside the code"
        raise UnavailableError(f"no host {address.host}", why=str(error), fix=fix) from error
    except OSError as error:
        fix = "show a new code there: it listens for two minutes"
        raise UnavailableError(f"no pairing is open at {place}", why=str(error), fix=fix) from error
    with connection:
        channel = _Channel(connection)
        try:
            return _ask(channel, address, kind, request)
        except OSError as error:
            raise UnavailableError(f"{place} broke off", why=str(error)) from error


def _ask(channel: _Channel, address: Address, kind: str, request: PairRequest) -> Grant:
    hello = channel.receive(Hello)
    if hello.version != VERSION:
        why = f"it speaks version {hello.version}, and this program {VERSION}"
        raise UnsupportedError(f"cannot pair with {address.host}", why=why)
    if hello.kind != kind:
        fix = "to make it your home, use --home" if kind == "surrogate" else "leave --home out"
        why = f"you asked for a {kind}"
        raise ConflictError(f"{address.host} offers to be a {hello.kind}", why=why, fix=fix)
    exchange = _Exchange(address.code, kind, guest=True)
    channel.send(KeyShare(exchange.share))
    theirs = channel.receive(KeyShare)
    if theirs.error:
        why = printable(theirs.error, 200)
        raise UnavailableError(f"{address.host} does not pair", why=why)
    exchange.finish(theirs.share)
    channel.send(exchange.authenticated(request))
    try:
        answer = channel.receive(AuthenticatedMessage)
    except ConnectionError as error:
        fix = "look at it again: there are three tries"
        raise CodeWrong("the code is wrong", fix=fix) from error
    value = codec.loads(exchange.checked(answer))
    if isinstance(value, dict) and "code" in value:
        raise ErrorReport.from_json(value).to_error()
    grant = Grant.from_json(value)
    if grant.kind != kind:
        raise RemoteProtocolError(f"{address.host} grants a kind that it did not offer")
    if address.key and address.key not in grant.fingerprints:
        raise CodeWrong(
            f"{address.host} is not the site that showed the code",
            why=f"no key of it is {address.key}",
        )
    return grant


class _Exchange:
    """One side's SPAKE2 and what follows from its key."""

    def __init__(self, code: str, kind: str, *, guest: bool) -> None:
        from spake2 import SPAKE2_A, SPAKE2_B  # it takes a tenth of a second

        side = SPAKE2_A if guest else SPAKE2_B
        site = _SITE + b" " + kind.encode("ascii")
        self._state = side(code.encode("ascii"), idA=_GUEST, idB=site)
        self._out, self._in = (_GUEST, _SITE) if guest else (_SITE, _GUEST)
        self.share: str = self._state.start().hex()
        self._key = b""

    def finish(self, share: str) -> None:
        """Raises RemoteProtocolError."""
        from spake2 import SPAKEError

        try:
            self._key = self._state.finish(bytes.fromhex(share))
        except (SPAKEError, ValueError, AssertionError) as error:
            what = "the other side's share of the key is none"
            raise RemoteProtocolError(what, why=type(error).__name__) from error

    def authenticated(self, message: JsonMessage | ErrorReport) -> AuthenticatedMessage:
        body = codec.dumps(message.to_json())
        return AuthenticatedMessage(body.decode("utf-8"), self._mac(self._out, body))

    def checked(self, message: AuthenticatedMessage) -> bytes:
        """Raises CodeWrong."""
        body = message.body.encode("utf-8")
        if not hmac.compare_digest(self._mac(self._in, body).encode(), message.mac.encode()):
            raise CodeWrong("the code is wrong", fix="look at it again")
        return body

    def opened(self, message: AuthenticatedMessage, kind: type[PairRequest]) -> PairRequest:
        """Raises CodeWrong, RemoteProtocolError."""
        return kind.from_bytes(self.checked(message))

    def _mac(self, side: bytes, body: bytes) -> str:
        return hmac.new(self._key, side + b"\0" + body, "sha256").hexdigest()


class _Channel:
    """Frames over a connection: four bytes of length, then JSON. All within one time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + CONNECTION_SECONDS

    def send(self, message: JsonMessage) -> None:
        data = message.to_bytes()
        self._patient()
        self._connection.sendall(len(data).to_bytes(4, "big") + data)

    def receive(self, kind: type[M]) -> M:
        """Raises RemoteProtocolError, OSError."""
        size = int.from_bytes(self._read(4), "big")
        if size > FRAME_BYTES:
            raise RemoteProtocolError("the other side sent too much", why=f"{size} bytes")
        return kind.from_bytes(self._read(size))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            self._patient()
            piece = self._connection.recv(count - len(data))
            if not piece:
                raise ConnectionResetError("the other side closed the connection")
            data += piece
        return data

    def _patient(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the other side takes too long")
        self._connection.settimeout(left)


def _check_kind(kind: str) -> None:
    if kind not in _KINDS:
        raise LocalProtocolError(f"{kind[:80]!r} is nothing to pair with")


def _is_socket(path: str) -> bool:
    plain = path.isascii() and path.isprintable() and not set(path) & set("\"'\\")
    return plain and path.startswith("/") and len(path) <= SOCKET_PATH_LIMIT


def _split(at: str) -> tuple[str, str]:
    """HOST, HOST:PORT, or [HOST]:PORT; an address of IPv6 alone has more than one colon."""
    if at.startswith("["):
        host, _, port = at[1:].partition("]")
        return host, port.removeprefix(":") or str(PAIRING_PORT)
    if at.count(":") == 1:
        host, _, port = at.partition(":")
        return host, port
    return at, str(PAIRING_PORT)


def _listener(listen: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    dual = not listen and socket.has_dualstack_ipv6()
    try:
        if dual:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server((listen, port), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        fix = "choose another --port"
        raise ConflictError(f"cannot listen at port {port}", why=why, fix=fix) from error
