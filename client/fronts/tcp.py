# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front `tcp`: each connection of a program's is a stream to a port of the guest."""

from __future__ import annotations

import contextlib
import socket

from client.fronts.acceptor import Acceptor
from replay import StreamRelay


class TcpPort:
    """Serves 127.0.0.1:port until closed. A front, see client.fronts."""

    def __init__(self, relay: StreamRelay, guest_port: int, port: int = 0) -> None:
        """Listen on `port`, or on a free one for 0. Raises ConflictError when it is taken.

        relay: has the streams; guest_port: where they lead.
        """
        self._relay = relay
        self._guest_port = guest_port
        self._acceptor = Acceptor("tcp", port, self._adopt)
        self.port, self.url = self._acceptor.port, self._acceptor.url
        self._acceptor.start()

    def close(self) -> None:
        """Listen no more; streams that there are go on."""
        self._acceptor.close()

    def _adopt(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._relay.adopt(connection, self._guest_port)
