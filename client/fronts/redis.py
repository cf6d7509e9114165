# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front of `redis`: each command of an unmodified Redis client is an operation."""

from __future__ import annotations

import socket

from client.fronts.stream import StreamPort
from client.session import Session
from replay.adapters import redis
from satchel.errors import SatchelError, UsageError


def redis_front(session: Session, port: int = 0) -> StreamPort:
    """See client.fronts."""
    return StreamPort("redis", port, lambda connection: _talk(session, connection))


def _talk(session: Session, connection: socket.socket) -> None:
    with connection.makefile("rb") as stream:
        while True:
            try:
                words = redis.read_command(stream)
            except UsageError as error:
                connection.sendall(_error(error))
                return
            if words is None or words[0].upper().startswith((b"POST", b"HOST:")):
                return
            if words[0].upper() == b"QUIT":
                connection.sendall(b"+OK\r\n")
                return
            payload = redis.encode(words)
            try:
                connection.sendall(session.call(lambda *_, payload=payload: payload).payload)
            except SatchelError as error:
                connection.sendall(_error(error))


def _error(error: SatchelError) -> bytes:
    return b"-ERR %b\r\n" % " ".join(str(error).split()).encode()
