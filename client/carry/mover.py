# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How the leader of a carried service hands over to a replica at a surrogate.

A first freeze says what the machine is, and it goes on. At the new place a replica is made ready
of that: its volumes, what is fetched ahead of it, its QEMU. Deltas follow, each since the one
before, as long as they get smaller. The last one is made of a machine that is held, and has the
device state with which the new replica goes on. So the streams stand still for that one delta.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chunkstore import TableRoot
from client.moves.sources import Sources, chunks_link
from client.places.home import Home
from client.places.leftovers import Leftovers
from client.places.place import OfferedDelta, Place
from client.places.surrogate import Surrogate
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import verified
from client.session.joining import STANDSTILL_SECONDS, Standstill
from images import Manifest
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.ids import ReplicaId
from wire import CreateReplica, HandoverState, Lane, Link, Links, ReplicaStatus

logger = logging.getLogger(__name__)

MOVE_POLL_SECONDS = 0.2

ROUNDS = 4
"""Deltas before the last one, at most."""

SMALL_BYTES = 192 << 10
"""A delta as small as this is not worth another one before the last: most of it is the device
state."""


@dataclass(frozen=True)
class MoveTimings:
    """A move that was made. held_seconds: from the last freeze until the new replica ran;
    paused_seconds: of that, the freeze; stalled_seconds: until then the new one stood still for
    blocks, all its waits together; deltas: bytes of each, in order."""

    surrogate: str
    replica: ReplicaId
    seconds: float
    held_seconds: float
    paused_seconds: float
    deltas: tuple[int, ...]
    stalled_seconds: float = 0.0
    fetched_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Begin:
    """The first freeze: what of a request is its, and the tables that later deltas are since.
    touched: what the machine is going to need of where it was"""

    manifest: Manifest
    touched: dict[str, tuple[int, ...]] = field(default_factory=dict)
    handed: HandoverState | None = None

    @property
    def tables(self) -> Mapping[str, TableRoot]:
        return self.manifest.volumes


class Mover:
    """Makes the moves of one session, one at a time."""

    def __init__(
        self,
        settings: ClientSettings,
        service: str,
        links: Links,
        home: Home,
        sources: Sources,
        leftovers: Leftovers,
    ) -> None:
        self._settings = settings
        self._service = service
        self._links = links
        self._home = home
        self._sources = sources
        self._leftovers = leftovers
        self._turn = threading.RLock()
        self._left: list[Surrogate] = []

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within it a move is made. Who led before is put away at its end and at the begin of the
        next one, so whoever holds a lock over a change of the leader takes it within this."""
        with self._turn:
            self._put_away_left()
            try:
                yield
            finally:
                self._put_away_left()

    def leave(self, place: Place) -> None:
        """Somebody else leads now. At a surrogate, whose end may take its time, it is put away at
        the end of this turn, or by `tidy`; home's replica is ended now, before it may lead again.
        Never fails."""
        if isinstance(place, Surrogate):
            self._left.append(place)
        else:
            place.end()

    def tidy(self) -> None:
        """Put away who was left outside of a turn; at its end, where one is under way."""
        if self._turn.acquire(blocking=False):
            try:
                self._put_away_left()
            finally:
                self._turn.release()

    def _put_away_left(self) -> None:
        while self._left:
            self.put_away(self._left.pop(0))

    def stand_by(
        self, leader: Place, origin: Manifest, surrogate: str, wanted: Callable[[], None]
    ) -> tuple[Surrogate, Manifest]:
        """A replica at that surrogate that is ready but for deltas since a manifest, which comes
        with it. origin: the signed checkpoint that the leader goes back to; wanted: raises when the
        session ends. Whatever goes wrong, nothing is left."""
        links = self._connect(surrogate)
        begin = self._begin(leader, origin)
        giver = "" if leader.name == HOME else leader.name
        return self._make(surrogate, links, begin, giver, wanted, standby=True), begin.manifest

    def resume(
        self, origin: Manifest, surrogate: str, wanted: Callable[[], None]
    ) -> tuple[Surrogate, ReplicaStatus]:
        """A replica at that surrogate that runs from a signed checkpoint, and leads from then on.
        As `stand_by`."""
        links = self._connect(surrogate)
        place = self._make(surrogate, links, _Begin(origin), "", wanted, standby=False)
        return place, place.status()

    def _make(
        self,
        surrogate: str,
        links: tuple[Link, Link],
        begin: _Begin,
        giver: str,
        wanted: Callable[[], None],
        *,
        standby: bool,
    ) -> Surrogate:
        link, chunks = links
        self._leftovers.remove_from(surrogate, link)
        request = CreateReplica(
            replica=CreateReplica.new_id(self._service),
            service=self._service,
            manifest=begin.manifest.to_json(),
            sources=self._sources.offer(chunks, giver=giver),
            changed=begin.handed.changed if begin.handed else None,
            pages=begin.handed.pages if begin.handed else None,
            touched=begin.touched,
            standby=standby,
        )
        place = Surrogate(surrogate, link, request.replica, self._service, stateful=False)
        self._leftovers.note(surrogate, request.replica)
        try:
            link.http.post_json("/v1/replicas", request.to_json())
            _await(place, wanted, "standby" if standby else "ready")
            place.look_for_door()
        except BaseException:
            self.put_away(place)
            raise
        return place

    def put_away(self, place: Surrogate) -> None:
        """End a replica at a surrogate, and the links to it. Never fails."""
        gone = not place.link.answers()
        if not gone and place.end():
            self._leftovers.forget(place.replica)
        for name in (place.name, chunks_link(place.name)):
            self._links.drop(name, gone=gone)

    def _begin(self, leader: Place, origin: Manifest) -> _Begin:
        if isinstance(leader, Surrogate):
            handed = leader.hand_over()
            new = {key: handed.to_json()[key] for key in ("device_state", "volumes")}
            return _Begin(Manifest.from_json(origin.to_json() | new), handed.touched, handed)
        assert isinstance(leader, Home)
        self._home.take_checkpoint()
        signers = self._settings.allowed_signers
        newest = verified(self._service, *self._home.checkpoint(), HOME, signers)
        return _Begin(newest, self._home.touched())

    def _connect(self, surrogate: str) -> tuple[Link, Link]:
        peer = self._settings.surrogate(surrogate)
        self._links.get(chunks_link(HOME), self._settings.home, Lane.BULK).want()
        link = self._links.open(surrogate, peer)
        return link, self._links.open(chunks_link(surrogate), peer, Lane.BULK)


def hand_over(leader: Place, place: Surrogate, tables: Mapping[str, TableRoot]) -> dict[str, Any]:
    """From the leader to a replica that stands by, which runs then. tables: since which deltas are.
    Raises what either end raises; the leader goes on then, unless it is lost. What it took."""
    sizes: list[int] = []
    for _ in range(ROUNDS):
        offered = leader.delta(tables)
        place.more(leader.fetch(offered))
        tables = offered.tables
        smaller = not sizes or offered.offer.size < sizes[-1] * 0.7
        sizes.append(offered.offer.size)
        if offered.offer.size < SMALL_BYTES or not smaller:
            break
    held = time.monotonic()
    last: OfferedDelta | None = None
    try:
        last = leader.delta(tables, hold=True)
        status = place.more(last.data or leader.fetch(last), go=True)
        if status.state != "ready":
            raise (
                status.error.to_error()
                if status.error
                else UnavailableError(
                    f"the replica at {place.name} does not run", why=f"it is {status.state}"
                )
            )
    except BaseException:
        if last is not None:
            _release(leader)
        raise
    sizes.append(last.offer.size)
    return {
        "held_seconds": time.monotonic() - held,
        "paused_seconds": last.offer.paused_seconds,
        "deltas": tuple(sizes),
        "stalled_seconds": status.stalls.seconds,
        "fetched_bytes": status.fetched_bytes,
    }


def _release(leader: Place) -> None:
    try:
        leader.go_on()
    except SatchelError as error:
        logger.error("%s does not go on: %s", leader.name, error)


def _await(place: Surrogate, wanted: Callable[[], None], state: str) -> None:
    """Until it runs, or stands by and all has come that is fetched ahead of it."""
    standstill = Standstill()
    while not standstill.at((status := place.status()).fetched_bytes):
        wanted()
        if status.error is not None:
            raise status.error.to_error()
        if status.state == state and (status.independent or state == "ready"):
            return
        if status.state not in ("starting", state):
            what = f"the replica at {place.name} does not come up"
            raise StateError(what, why=f"it is {status.state}")
        time.sleep(MOVE_POLL_SECONDS)
    raise UnavailableError(
        f"the replica at {place.name} does not get ready",
        why=f"nothing came for {STANDSTILL_SECONDS:.0f} s",
    )
