# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Device states travel between QEMU and us over Unix sockets, a few hundred kilobytes at a time."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from satchel.errors import UsageError
from satchel.paths import SOCKET_PATH_LIMIT

DEVICE_STATE_LIMIT = 64 << 20
"""Bytes of a device state at most; QEMU's ROMs and devices make about 300 KB."""

_SLICE_SECONDS = 0.2
_PEER = struct.Struct("3i")
"""struct ucred of unix(7): process, user, group."""

T = TypeVar("T")


class StreamBroken(Exception):
    """The other end closed, was too slow, or sent too much."""


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A listening Unix socket, closed at the end; its file stays, for others that inherited it.

    What is left of an earlier one at that path is replaced. Raises UsageError for a long path.
    """
    if len(bytes(path)) > SOCKET_PATH_LIMIT:
        why = f"it has {len(bytes(path))} bytes and a socket's path at most {SOCKET_PATH_LIMIT}"
        raise UsageError(f"the path of {path} is too long", why=why, fix="use a shorter folder")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as server:
        server.bind(bytes(path))
        server.listen(1)
        yield server


def receive(server: socket.socket, seconds: float, alive: Callable[[], bool]) -> bytes:
    """All that the first to connect sends until it closes. Raises StreamBroken.

    Gives up after `seconds` or when `alive` says no.
    """
    deadline = time.monotonic() + seconds
    with _patiently(server, server.accept, deadline, alive)[0] as connection:
        pieces = bytearray()
        while piece := _patiently(connection, lambda: connection.recv(1 << 16), deadline, alive):
            pieces += piece
            if len(pieces) > DEVICE_STATE_LIMIT:
                raise StreamBroken(f"the device state has more than {DEVICE_STATE_LIMIT} bytes")
    return bytes(pieces)


def send(path: Path, data: bytes, seconds: float, peer: int) -> None:
    """Connect, send everything and close. Raises StreamBroken.

    peer: the process that must listen there. Where another user may make files, the path may lead
    anywhere, and what is sent may be a stranger's.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(bytes(path))
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    except OSError as error:
        connection.close()
        raise StreamBroken(str(error)) from error
    if _PEER.unpack(found)[0] != peer:
        connection.close()
        raise StreamBroken(f"another program listens at {path}")
    send_all(connection, data, seconds)


def send_all(connection: socket.socket, data: bytes, seconds: float) -> None:
    """Send everything and close. Raises StreamBroken."""
    try:
        with connection:
            connection.settimeout(seconds)
            connection.sendall(data)
    except OSError as error:
        raise StreamBroken(str(error)) from error


def _patiently(
    one: socket.socket, call: Callable[[], T], deadline: float, alive: Callable[[], bool]
) -> T:
    one.settimeout(_SLICE_SECONDS)
    while True:
        try:
            return call()
        except TimeoutError:
            if time.monotonic() > deadline or not alive():
                raise StreamBroken("the other end did not answer in time") from None
        except OSError as error:
            raise StreamBroken(str(error)) from error
