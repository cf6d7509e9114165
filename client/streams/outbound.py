# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Connections of a carried service's guest to what is outside: they go out here, or at home, and
never at the surrogate.

Some streams wait in the guest for a program that wants to go out. Such a stream begins with two
bytes, the destination's number in the recipe's list; another one takes its place. It is a stream
like any other, so a connection goes on through a move.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable

from replay import EGRESS_PORT, StreamRelay
from satchel.errors import SatchelError
from wire import join, read_destination

logger = logging.getLogger(__name__)

WAITING = 4
"""Streams that wait for a program; so many may begin at once without waiting for us."""

MOST = 64
"""Connections to the outside at a time; more wait in the guest."""

AGAIN_SECONDS = 0.5


class OutboundConnections:
    """See the module. `close` ends what has not begun; connections end with the relay."""

    def __init__(self, relay: StreamRelay, connect: Callable[[int], socket.socket]) -> None:
        """connect: to the destination of that number; raises SatchelError; called in threads"""
        self._relay = relay
        self._connect = connect
        self._closing = threading.Event()
        self._room = threading.Semaphore(MOST)
        self._threads = [
            threading.Thread(target=self._wait, name="outgoing", daemon=True)
            for _ in range(WAITING)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Nothing more goes out. Call it after the relay's own `close`, which ends the streams."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _wait(self) -> None:
        while not self._closing.is_set():
            ours, theirs = socket.socketpair()
            self._relay.adopt(theirs, EGRESS_PORT)
            number = read_destination(ours)
            if number is None:  # the machine is another one now, or has nothing that goes out
                ours.close()
                self._closing.wait(AGAIN_SECONDS)
                continue
            self._room.acquire()
            threading.Thread(target=self._serve, args=(ours, number), daemon=True).start()

    def _serve(self, program: socket.socket, number: int) -> None:
        try:
            with program:
                join(program, self._connect(number))
        except (OSError, SatchelError) as error:
            logger.warning("%s", error)
        finally:
            self._room.release()
