# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The keepers of all services of a home that have shares."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from guestshares import CallKeeper, CallRecord, ShareHost
from homeserver.guests.door import CallDoor
from satchel.errors import StateError
from satchel.paths import call_socket


@dataclass(frozen=True)
class _KeeperEntry:
    keeper: CallKeeper
    door: CallDoor

    def close(self) -> None:
        self.door.close()
        self.keeper.close()


class CallKeepers:
    """Thread-safe."""

    def __init__(
        self,
        run: Path,
        records: Callable[[str], Path],
        hosts: Callable[[str], ShareHost],
        last_logged: Callable[[str], int],
    ) -> None:
        """run: the folder of the daemon's sockets; the other three are asked about a service: where
        its record is kept, who has the share of its guests, what its log has."""
        self._run, self._records = run, records
        self._hosts, self._last_logged = hosts, last_logged
        self._lock = threading.Lock()
        self._kept: dict[str, _KeeperEntry] = {}
        self._closed = False

    def of(self, service: str) -> CallKeeper:
        """The keeper of a service, whose socket is there from now on. Raises what opening its
        record and listening do, StateError after `close`."""
        with self._lock:
            if self._closed:
                raise StateError(f"{service} has no shares", why="the home server is being stopped")
            if service not in self._kept:
                self._kept[service] = self._open(service)
            return self._kept[service].keeper

    def logged(self, service: str) -> None:
        """Its log has more operations."""
        with self._lock:
            kept = self._kept.get(service)
        if kept:
            kept.keeper.logged()

    def cut(self, service: str, operation: int) -> None:
        """Nobody replays operations up to that one any more."""
        with self._lock:
            kept = self._kept.get(service)
        if kept:
            kept.keeper.cut(operation)

    def end_guests_of(self, processes: Collection[int]) -> None:
        """Hear no more of the replicas that came through these processes."""
        with self._lock:
            kept = list(self._kept.values())
        for each in kept:
            each.door.end_guests_of(processes)

    def drop(self, service: str) -> None:
        """Nobody asks of that service any more."""
        with self._lock:
            kept = self._kept.pop(service, None)
        if kept:
            kept.close()

    def close(self) -> None:
        """End all. Harmless the second time."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, {}
        for each in kept.values():
            each.close()

    def _open(self, service: str) -> _KeeperEntry:
        with contextlib.ExitStack() as undo:
            record = CallRecord(self._records(service))
            undo.callback(record.close)
            host = self._hosts(service)
            keeper = CallKeeper(service, record, host.serve, lambda: self._last_logged(service))
            door = CallDoor(self._run / call_socket(service), keeper)
            undo.pop_all()
            return _KeeperEntry(keeper, door)
