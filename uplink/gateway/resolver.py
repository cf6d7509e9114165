# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names in the namespace of a run: each gets an address of its own, so that a connection says by
its address which name it is meant for.

The addresses are of 198.18.0.0/16, which nobody has (RFC 2544). Whether there is such a name, and
where it is, the system says. Questions that are not about addresses go on to the system's server.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

POOL = ipaddress.IPv4Network("198.18.0.0/16")
SECONDS = 5.0
"""Of the system's server."""
TTL = 60
THREADS = 8
DATAGRAM = 4096

_HEADER = struct.Struct(">6H")
_QUESTION = struct.Struct(">HH")
_ANSWER = struct.Struct(">HHHIH4s")
_A, _AAAA, _SVCB, _HTTPS = 1, 28, 64, 65
_SERVFAIL, _NXDOMAIN = 2, 3


class BadQuestion(ValueError):
    """A program sent a malformed DNS question."""


class DnsResolver:
    """Answers at the socket, a datagram one that becomes its own, until `close`. Any thread."""

    def __init__(self, listener: socket.socket, system: Path = Path("/etc/resolv.conf")) -> None:
        self._listener, self._system = listener, system
        self._guard = threading.Lock()
        self._free: Iterator[ipaddress.IPv4Address] = POOL.hosts()
        self._addresses: dict[str, ipaddress.IPv4Address] = {}
        self._names: dict[str, str] = {}
        self._pool = ThreadPoolExecutor(THREADS, "uplink names")
        threading.Thread(target=self._listen, name="uplink names", daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def name(self, address: str) -> str:
        """The name that was given this address; an address of nobody's as it is."""
        with self._guard:
            return self._names.get(address, address)

    def _listen(self) -> None:
        while True:
            try:
                message, program = self._listener.recvfrom(DATAGRAM)
                self._pool.submit(self._serve, message, program)
            except (OSError, RuntimeError):
                return

    def _serve(self, message: bytes, program: tuple[str, int]) -> None:
        try:
            self._listener.sendto(self._answer(message), program)
        except (BadQuestion, OSError):
            return

    def _answer(self, message: bytes) -> bytes:
        """Raises BadQuestion."""
        name, kind, end = read_question(message)
        if kind in (_SVCB, _HTTPS):
            return _reply(message, end)
        if kind not in (_A, _AAAA):
            return self._relay(message, end)
        try:
            socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            address = self._address(name)
        except socket.gaierror as error:
            known = error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
            return _reply(message, end, error=_NXDOMAIN if known else _SERVFAIL)
        except (StopIteration, UnicodeError):
            return _reply(message, end, error=_SERVFAIL)
        return _reply(message, end, address=address.packed if kind == _A else None)

    def _address(self, name: str) -> ipaddress.IPv4Address:
        """Raises StopIteration where there are no more."""
        with self._guard:
            if name not in self._addresses:
                self._addresses[name] = address = next(self._free)
                self._names[str(address)] = name
            return self._addresses[name]

    def _relay(self, message: bytes, end: int) -> bytes:
        try:
            found = re.search(r"^nameserver\s+(\S+)", self._system.read_text(), re.MULTILINE)
            server = found[1] if found else "127.0.0.1"
            family = socket.AF_INET6 if ":" in server else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as asked:
                asked.settimeout(SECONDS)
                asked.connect((server, 53))
                asked.send(message)
                return asked.recv(DATAGRAM)
        except OSError:
            return _reply(message, end, error=_SERVFAIL)


def read_question(message: bytes) -> tuple[str, int, int]:
    """The name in lower case, the type, and where the question ends. Raises BadQuestion."""
    try:
        _, flags, questions, *_ = _HEADER.unpack_from(message)
        if flags & 0x8000 or questions != 1:
            raise BadQuestion("not one question")
        at, labels = _HEADER.size, []
        while size := message[at]:
            label = message[at + 1 : at + 1 + size]
            if size > 63 or len(label) < size:
                raise BadQuestion("a label is too long")
            labels.append(label.decode("ascii"))
            at += 1 + size
        kind, _ = _QUESTION.unpack_from(message, at + 1)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadQuestion(str(error)) from error
    name = ".".join(labels).lower()
    if len(name) > 253 or "\0" in name:
        raise BadQuestion("the name is malformed")
    return name, kind, at + 1 + _QUESTION.size


def _reply(message: bytes, end: int, *, address: bytes | None = None, error: int = 0) -> bytes:
    number, flags, *_ = _HEADER.unpack_from(message)
    head = _HEADER.pack(
        number, 0x8080 | (flags & 0x0100) | error, 1, int(address is not None), 0, 0
    )
    found = b"" if address is None else _ANSWER.pack(0xC00C, _A, 1, TTL, 4, address)
    return head + message[_HEADER.size : end] + found
