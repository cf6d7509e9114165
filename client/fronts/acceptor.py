# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a front for connections listens with: one thread accepts, and hands each on."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from wire import listen_local

logger = logging.getLogger(__name__)

END_SECONDS = 5.0

PAUSE_SECONDS = 0.2
"""Before the next connection is accepted where one could not be: too many files are open."""


class Acceptor:
    """Listens at 127.0.0.1:port until closed."""

    def __init__(self, scheme: str, port: int, adopt: Callable[[socket.socket], None]) -> None:
        """Listen on `port`, or on a free one for 0. Raises ConflictError when it is taken.

        adopt: takes each connection, in the one thread, and returns soon.
        """
        self._adopt = adopt
        self._listener = listen_local(port)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name=f"{scheme} port", daemon=True)

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
                    logger.warning("cannot accept a program's connection: %s", error)
                continue
            self._adopt(connection)
