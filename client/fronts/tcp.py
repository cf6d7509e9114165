# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The fronts of a carried service: each connection of a program's is a stream to a port of the
guest. `tcp` passes what there is, `http` what client.fronts.web lets through."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

from client.fronts.acceptor import Acceptor
from client.fronts.ports import Served
from client.fronts.web import HttpGuard
from replay import Guard, StreamRelay
from satchel.errors import UnsupportedError

GUARDS: dict[str, Callable[[int], Guard] | None] = {"tcp": None, "http": HttpGuard}
"""What looks at a connection to a local port, by the name of the front."""


class TcpPort:
    """Serves 127.0.0.1:port until closed. A front, see client.fronts."""

    def __init__(self, relay: StreamRelay, served: Served) -> None:
        """Listen at its local port. Raises ConflictError when that is taken, UnsupportedError for a
        front that this version does not have.

        relay: has the streams
        """
        if served.front not in GUARDS:
            known = ", ".join(sorted(GUARDS))
            raise UnsupportedError(
                f"there is no front {served.front!r} for port {served.port} of the guest",
                why=f"there are: {known}",
            )
        self._relay = relay
        self._guard = GUARDS[served.front]
        self.served = served
        self._acceptor = Acceptor(served.front, served.local, self._adopt)
        self.port, self.url = self._acceptor.port, self._acceptor.url
        if served.front == "http":
            self.url += "/"
        self._acceptor.start()

    def status(self) -> dict[str, Any]:
        """What `satchel status` shows of it."""
        return {
            "front": self.served.front,
            "port": self.served.port,
            "local": self.port,
            "url": self.url,
        }

    def close(self) -> None:
        """Listen no more; streams that there are go on."""
        self._acceptor.close()

    def _adopt(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        guard = self._guard(self.port) if self._guard else None
        self._relay.adopt(connection, self.served.port, guard)
