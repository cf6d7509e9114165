# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The doors of all grants of a home."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guestshares import CallKeeper
from homeserver.edge.admission import NodeDoor
from homeserver.edge.grants import GrantRegistry, ShareGrant
from homeserver.guests.door import CallDoor
from homeserver.shares import Shares
from satchel.errors import NotFoundError, SatchelError
from satchel.paths import edge_sockets

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Door:
    """grant: that it was made for."""

    grant: ShareGrant
    node: NodeDoor
    calls: CallDoor

    def used_by(self, processes: Collection[int]) -> bool:
        callers = {*self.node.callers(), *self.calls.callers()}
        return not callers.isdisjoint(processes)

    def close(self, why: str) -> None:
        self.calls.close()
        self.node.close(why)


def _fence(door: NodeDoor, handed_over: bool) -> None:
    why = "its surrogate has handed over" if handed_over else "home went on without its surrogate"
    door.end_nodes(why, handed_over=handed_over)


class EdgeDoors:
    """Thread-safe. What its parts are stays the caller's."""

    def __init__(
        self,
        run: Path,
        shelf: GrantRegistry,
        shares: Shares,
        keeper: Callable[[str], CallKeeper],
        share_of: Callable[[str], str],
    ) -> None:
        """Open the doors of all grants. run: the folder of the daemon's sockets; keeper: of a
        service; share_of: the share of its guest. One that cannot be opened is logged."""
        self._run, self._shelf, self._shares = run, shelf, shares
        self._keeper, self._share_of = keeper, share_of
        self._lock = threading.RLock()
        self._doors: dict[tuple[str, str], _Door] = {}
        self._closed = False
        try:
            for grant in shelf.all():
                with self._logged(grant):
                    self._open(grant)
        except SatchelError as error:
            logger.error("%s", error)

    def close(self) -> None:
        """Harmless the second time."""
        with self._lock:
            self._closed = True
            doors, self._doors = self._doors, {}
        for door in doors.values():
            door.close("home is being stopped")

    def grant(self, grant: ShareGrant) -> None:
        """Raises NotFoundError where the service's guest uses another share, or there is none."""
        self._shares.get(grant.share)
        used = self._share_of(grant.service)
        if used != grant.share:
            raise NotFoundError(
                f"{grant.service} does not use {grant.share}", why=f"its share is {used}"
            )
        with self._lock:
            self._shelf.add(grant)
            self._close((grant.service, grant.surrogate), "its grant is another")
            self._open(grant)

    def revoke(self, share: str, service: str, surrogate: str) -> None:
        """From now on nothing is reachable by it; who has used it goes on by home. Raises
        NotFoundError."""
        with self._lock:
            self._shelf.remove(share, service, surrogate)
            self._close((service, surrogate), "its grant was taken back")

    def revoke_used(self, processes: Collection[int]) -> list[ShareGrant]:
        """Revoke the grants whose sockets these processes have used; return them."""
        with self._lock:
            used = [door.grant for door in self._doors.values() if door.used_by(processes)]
            for grant in used:
                self.revoke(grant.share, grant.service, grant.surrogate)
        return used

    def grants(self) -> list[ShareGrant]:
        return self._shelf.all()

    def about(self, service: str, surrogate: str) -> dict[str, Any]:
        """What a client lends to that surrogate for a replica of the service; empty without a
        grant."""
        with self._lock:
            grant = self._shelf.of(service, surrogate)
            if grant is None or self._closed:
                return {}
            if (service, surrogate) not in self._doors:
                self._open(grant)
        log = self._shares.get(grant.share).record.log
        return {"share": grant.share, "writable": grant.writable, "log": log}

    def _holds(self, grant: ShareGrant) -> bool:
        try:
            return self._shelf.of(grant.service, grant.surrogate) == grant
        except SatchelError as error:
            logger.error("%s", error)
            return False

    def _open(self, grant: ShareGrant) -> None:
        node_path, calls_path = (
            self._run / name for name in edge_sockets(grant.service, grant.surrogate)
        )
        node = NodeDoor(node_path, self._shares, grant, lambda: self._holds(grant))
        try:
            calls = CallDoor(
                calls_path,
                self._keeper(grant.service),
                lambda: grant.writable and self._holds(grant),
                functools.partial(_fence, node),
            )
        except BaseException:
            node.close("its other socket cannot be opened")
            raise
        self._doors[grant.service, grant.surrogate] = _Door(grant, node, calls)

    def _close(self, place: tuple[str, str], why: str) -> None:
        door = self._doors.pop(place, None)
        if door:
            door.close(why)

    @staticmethod
    @contextlib.contextmanager
    def _logged(grant: ShareGrant) -> Any:
        try:
            yield
        except (SatchelError, OSError) as error:
            logger.error(
                "the grant of %s for %s at %s: %s",
                grant.share,
                grant.service,
                grant.surrogate,
                error,
            )
