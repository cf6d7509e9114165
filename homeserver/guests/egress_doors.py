# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where guests' connections to the outside leave home: a Unix socket for each service.

Only its client reaches the socket. A connection there begins with a destination's number, and home
looks that up in the list that it has itself signed.
"""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from pathlib import Path

from images import EgressRule
from satchel.errors import NotFoundError, SatchelError
from wire import Acceptor, Egress, join, listen_unix, read_destination

logger = logging.getLogger(__name__)


class EgressDoor:
    """Listens at `path` until closed."""

    def __init__(self, path: Path, egress: Egress) -> None:
        """Raises what `listen_unix` does."""
        self.path = path
        self.egress = egress
        self._acceptor = Acceptor(listen_unix(path), self._adopt, "way out")
        self._acceptor.start()

    def close(self) -> None:
        """Let nothing out any more; connections that there are go on."""
        self._acceptor.close()
        self.path.unlink(missing_ok=True)

    def _adopt(self, client: socket.socket) -> None:
        threading.Thread(target=self._let_out, args=(client,), daemon=True).start()

    def _let_out(self, client: socket.socket) -> None:
        with client:
            number = read_destination(client)
            if number is None:
                return
            try:
                outside = self.egress.connect(number)
            except SatchelError as error:
                logger.warning("%s", error)
                return
            join(client, outside)


class EgressDoors:
    """The doors of all services. Thread-safe."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._doors: dict[str, EgressDoor] = {}
        self._numbers = itertools.count()  # a door that took another's place has a new one

    def open(self, service: str, rule: EgressRule | None) -> Path:
        """The socket of a service. rule: what its manifest says. Raises NotFoundError where
        nothing of it goes out at home."""
        if rule is None or rule.at != "home":
            raise NotFoundError(f"nothing of {service} goes out at home")
        egress = Egress(rule.hosts)
        with self._lock:
            door = self._doors.get(service)
            if door and door.egress.destinations == egress.destinations:
                return door.path
            if door:
                door.close()
            door = self._doors[service] = EgressDoor(
                self._run / f"out-{next(self._numbers)}", egress
            )
            return door.path

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            doors, self._doors = self._doors, {}
        for door in doors.values():
            door.close()
