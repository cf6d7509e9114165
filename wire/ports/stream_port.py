# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A port of 127.0.0.1 for protocols that are not HTTP: a thread for each connection.

Whatever runs on this device reaches it. A web page does not speak these protocols: what a browser
sends begins with an HTTP request line, which a front must take for an error and end the connection.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from wire.ports.acceptor import Acceptor
from wire.ports.listening import listen_local

logger = logging.getLogger(__name__)

END_SECONDS = 5.0
"""How long a conversation may take to notice that its connection was cut."""


class StreamPort:
    """Serves 127.0.0.1:port until closed. Any thread may call its methods."""

    def __init__(self, scheme: str, port: int, serve: Callable[[socket.socket], None]) -> None:
        """Listen on `port`, or on a free one for 0. Raises ConflictError when it is taken.

        serve: talks with one program until it, or the connection, ends; called in threads.
        """
        self._serve = serve
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._acceptor = Acceptor(listen_local(port), self._adopt, f"{scheme} port")
        self.port = self._acceptor.port
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._acceptor.start()

    def close(self) -> None:
        """Listen no more and end every connection."""
        self._acceptor.close()
        with self._lock:
            connections = dict(self._connections)
        for connection, thread in connections.items():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(END_SECONDS)

    def _adopt(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._talk, args=(connection,), daemon=True)
        with self._lock:
            self._connections[connection] = thread
        thread.start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._serve(connection)
        except OSError as error:
            logger.info("a program's connection ended: %s", error)
        finally:
            with self._lock:
                del self._connections[connection]
            connection.close()
