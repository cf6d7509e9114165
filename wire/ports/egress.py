# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of guests to what is outside, at the host where they go out.

A guest names a destination by its number in the owner's list and by nothing else. A name of the
list is looked up here, and has to lead to a public address: whoever answers for that name cannot
have a guest reach this host's loopback, or its neighbours. What is private is listed by its
address.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import threading
from collections.abc import Sequence

from satchel.errors import AccessError, UnavailableError

CONNECT_SECONDS = 10.0
PIECE = 1 << 16
_NUMBER = struct.Struct("<H")


class EgressRefused(AccessError):
    """A guest may not connect to this destination."""


class EgressFailed(UnavailableError):
    """A guest may connect to this destination, but it is unreachable."""


class Egress:
    """Connects to the destinations of a list, HOST:PORT each. Thread-safe."""

    def __init__(self, destinations: Sequence[str]) -> None:
        self.destinations = tuple(destinations)

    def connect(self, number: int) -> socket.socket:
        """A connection to that one of the list, counted from 0. Raises EgressRefused,
        EgressFailed."""
        if not 0 <= number < len(self.destinations):
            raise EgressRefused("a guest asked for a destination that is not in its list")
        name = self.destinations[number]
        host, _, port = name.rpartition(":")
        why = "it has no address"
        try:
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            raise EgressFailed(f"cannot look up {host}", why=str(error)) from error
        for family, kind, protocol, _, address in found:
            if not _is_address(host) and not is_public(str(address[0])):
                raise EgressRefused(
                    f"{host} may not be reached by a guest",
                    why=f"it leads to {address[0]}, which is not public",
                    fix="list that address itself",
                )
            outside = socket.socket(family, kind, protocol)
            try:
                outside.settimeout(CONNECT_SECONDS)
                outside.connect(address)
                outside.settimeout(None)
                return outside
            except OSError as error:
                outside.close()
                why = str(error)
        raise EgressFailed(f"cannot reach {name} for a guest", why=why)


def is_public(address: str) -> bool:
    """Whether an address is one of the open network, however it is written."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    inner = _embedded(parsed) if isinstance(parsed, ipaddress.IPv6Address) else None
    if inner is not None:
        return is_public(str(inner))
    return parsed.is_global and not parsed.is_multicast


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address in a mapped, 6to4 or NAT64 one."""
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def send_destination(stream: socket.socket, number: int) -> None:
    """Begin a connection that goes out elsewhere. Raises OSError."""
    stream.sendall(_NUMBER.pack(number))


def read_destination(stream: socket.socket) -> int | None:
    """The number with which a connection begins; None where it ends before."""
    data = b""
    with contextlib.suppress(OSError):
        while len(data) < _NUMBER.size and (piece := stream.recv(_NUMBER.size - len(data))):
            data += piece
    return int(_NUMBER.unpack(data)[0]) if len(data) == _NUMBER.size else None


def join(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until both have ended, or either breaks; then both are closed."""
    with one, other:
        back = threading.Thread(target=_pass_on, args=(other, one), daemon=True)
        back.start()
        _pass_on(one, other)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(PIECE):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
