# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A handoff on a connection: a message and its reply (docs/formats/mount-journal.md).

A message is its size and its bytes. So the new node knows whether it has received all of a handoff.
"""

from __future__ import annotations

import socket
import struct

from satchel.errors import IntegrityError

MOST_BYTES = 256 << 20
"""The largest message that is received."""

_SIZE = struct.Struct("<Q")
_PIECE = 1 << 20


def send_message(connection: socket.socket, data: bytes) -> None:
    """Send one message. Raise OSError if the connection fails."""
    connection.sendall(_SIZE.pack(len(data)) + data)


def receive_message(connection: socket.socket) -> bytes:
    """Return the next message. Raise OSError if the connection fails or ends before the message
    does, IntegrityError if the message is too large."""
    (size,) = _SIZE.unpack(_receive(connection, _SIZE.size))
    if size > MOST_BYTES:
        raise IntegrityError("a handoff is too large", why=f"{size} bytes; at most {MOST_BYTES}")
    return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(_PIECE, size - len(data)))
        if not piece:
            raise ConnectionResetError("the other node ended the connection")
        data += piece
    return bytes(data)
