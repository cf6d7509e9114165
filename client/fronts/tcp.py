# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The fronts of a carried service: each connection of a program's is a stream to a port of the
guest. `tcp` passes what there is, `http` what client.fronts.web lets through."""

from __future__ import annotations

import contextlib
import socket

from client.fronts.origin import ServiceOrigin
from client.fronts.requests import FrontRequests
from client.fronts.web import HttpGuard
from images import ServedPort
from replay import StreamRelay
from satchel.errors import UnsupportedError
from wire import Acceptor, listen_local

FRONTS = ("http", "tcp")


class TcpPort:
    """Serves 127.0.0.1:port until closed. A front, see client.fronts."""

    def __init__(
        self,
        relay: StreamRelay,
        served: ServedPort,
        requests: FrontRequests | None = None,
        origin: ServiceOrigin | None = None,
    ) -> None:
        """Listen at its local port. Raises ConflictError when that is taken, UnsupportedError for a
        front that this version does not have.

        relay: has the streams; requests, origin: see HttpGuard
        """
        self._requests, self._origin = requests, origin
        if served.front not in FRONTS:
            known = ", ".join(FRONTS)
            raise UnsupportedError(
                f"there is no front {served.front!r} for port {served.port} of the guest",
                why=f"there are: {known}",
            )
        self._relay = relay
        self.served = served
        listener = listen_local(served.local)
        self._acceptor = Acceptor(listener, self._adopt, f"{served.front} port")
        self.port = self._acceptor.port
        self.url = f"{served.front}://127.0.0.1:{self.port}"
        if served.front == "http":
            self.url += "/"
        self._acceptor.start()

    def close(self) -> None:
        """Listen no more; streams that there are go on."""
        self._acceptor.close()

    def _adopt(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        guard = None
        if self.served.front == "http":
            guard = HttpGuard(connection, self.served.port, self._requests, self._origin)
        self._relay.adopt(connection, self.served.port, guard)
