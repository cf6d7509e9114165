# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front `tcp`: each connection of a program's is a stream to a port of the guest."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading

from replay import StreamRelay
from wire import listen_local

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
"""Before the next connection is accepted where one could not be: too many files are open."""


class TcpPort:
    """Serves 127.0.0.1:port until closed. A front, see client.fronts."""

    def __init__(self, relay: StreamRelay, guest_port: int, port: int = 0) -> None:
        """Listen on `port`, or on a free one for 0. Raises ConflictError when it is taken.

        relay: has the streams; guest_port: where they lead.
        """
        self._relay = relay
        self._guest_port = guest_port
        self._listener = listen_local(port)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name=f"tcp {self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more; streams that there are go on."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if not self._closing.wait(PAUSE_SECONDS):
                    logger.warning("cannot accept a program's connection: %s", error)
                continue
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._relay.adopt(connection, self._guest_port)
