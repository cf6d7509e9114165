# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What listens for connections that carry bytes: one thread accepts, and hands each on."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

END_SECONDS = 5.0

PAUSE_SECONDS = 0.2
"""Before the next connection is accepted where one could not be: too many files are open."""


class Acceptor:
    """Accepts at a socket that listens, from `start` until `close`. Any thread may call them."""

    def __init__(
        self, listener: socket.socket, adopt: Callable[[socket.socket], None], name: str
    ) -> None:
        """The listener is its own. adopt: takes each connection, in the one thread, and returns
        soon. name: of that thread."""
        self._adopt = adopt
        self._listener = listener
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)

    @property
    def port(self) -> int:
        """Of a listener at a port."""
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Accept from now on."""
        self._thread.start()

    def close(self) -> None:
        """Listen no more; connections that there are go on."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(END_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if not self._closing.wait(PAUSE_SECONDS):
                    logger.warning("cannot accept a connection: %s", error)
                continue
            self._adopt(connection)
