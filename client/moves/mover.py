# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The replicas of one session at surrogates: how one is made there, and put away.

Making one takes, in order: the links to the surrogate and, beside that, the state that it begins
with; the medium and home offered over these links; the request; the wait until it runs or stands
by. A failure leaves nothing behind, here or there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from client.moves.handing import Begin
from client.moves.lessons import Lessons
from client.moves.routes import Route
from client.moves.sources import Sources, chunks_link
from client.moves.tracing import MoveTrace
from client.places.home import Home
from client.places.leftovers import Leftovers
from client.places.place import Place
from client.places.surrogate import Surrogate, SurrogateSilent, lend_calls, lend_edge
from client.platform.settings import HOME, ClientSettings
from client.session.joining import STANDSTILL_SECONDS, Standstill
from client.state.surrogate_keys import SurrogateKeys
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.ids import ReplicaId
from wire import CreateReplica, Lane, Link, Links, ReplicaStatus

logger = logging.getLogger(__name__)

WAIT_SECONDS = 2.0
"""One question whether a replica runs; then it is looked whether the session ends meanwhile."""

STANDBY_POLL_SECONDS = 0.2

CONNECT = "connect"
AWAIT_BEGINNING = "wait for what it begins with"
AWAIT_RUNNING = "wait until it runs"
AWAIT_JOINED = "wait until it has caught up"
AWAIT_INDEPENDENT = "wait until it needs its giver no more"
WAITING = (CONNECT, AWAIT_BEGINNING, AWAIT_RUNNING, AWAIT_JOINED, AWAIT_INDEPENDENT)
"""Steps in which the client waits for others."""

STATUS_SECONDS = 3.0
"""How long `status` waits for a surrogate."""


@dataclass(frozen=True)
class Went:
    """A move, with its times. Bytes are by source.

    seconds: in all, and running_seconds until the machine ran; asked_seconds: until the state was
    there that it begins with; paused_seconds: how long a freeze stopped its machine.
    replay_seconds: of operations executed again, at the pace of the second half of them: in
    the first half a machine waits for blocks. held_seconds: from the last freeze until the new
    leader ran, which stood still for blocks for stalled_seconds until then; deltas: bytes of each,
    in order.
    """

    surrogate: str
    replica: ReplicaId
    route: Route
    seconds: float
    fetched_bytes: dict[str, int] = field(default_factory=dict)
    running_seconds: float = 0.0
    asked_seconds: float = 0.0
    paused_seconds: float = 0.0
    replayed: int = 0
    replay_seconds: float = 0.0
    held_seconds: float = 0.0
    stalled_seconds: float = 0.0
    deltas: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For `satchel move` and `satchel status`."""
        return vars(self) | {"route": self.route.value}


@dataclass(frozen=True)
class Made:
    """A replica that runs or stands by, its beginning, the request's moment, and its status."""

    place: Surrogate
    begin: Begin
    began: float
    status: ReplicaStatus


class Mover:
    """Moves are made within `turn`, one at a time; any thread may read `places`.

    places: where one is, or is being made; trace: of the move that is made, or of the one before;
    keys: those of surrogates, and which are banned; sources: the chunks offered to them
    """

    def __init__(
        self,
        settings: ClientSettings,
        service: str,
        links: Links,
        home: Home | None,
        sources: Sources,
        *,
        stateful: bool = False,
        early: bool = False,
    ) -> None:
        """stateful, early: see Surrogate"""
        self.places: dict[str, Surrogate] = {}
        self.trace = MoveTrace()
        self.keys = SurrogateKeys(settings.state)
        self.leftovers = Leftovers(settings.run / f"{service}.replicas")
        self._settings = settings
        self._service = service
        self._links = links
        self._home = home
        self.sources = sources
        self._of_service = {"stateful": stateful, "early": early}
        self._lessons = Lessons(home if settings.teach else None)
        self._turn = threading.RLock()
        self._left: list[Surrogate] = []

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within it a move is made. Who led before is put away at its end and at the begin of the
        next one. A lock over a change of the leader is taken within this one."""
        with self._turn:
            self._put_away_left()
            try:
                yield
            finally:
                self._put_away_left()

    def leave(self, place: Place) -> None:
        """Another place leads now. At a surrogate, whose end may take its time, it is put away at
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

    def bring(
        self,
        surrogate: str,
        begin: Callable[[], Begin],
        wanted: Callable[[str], None],
        *,
        beside: bool = True,
        standby: bool = False,
        use_media: bool = True,
    ) -> Made:
        """Make a replica there that runs or, with `standby`, waits for deltas. begin: called while
        links are made, or with `beside` unset after that; wanted: given the giver's name, raises
        when the replica is not wanted any more. Raises errors of admission there,
        SurrogateBanned, and UnavailableError when it does not come up."""
        steps, began = self.trace.steps(), time.monotonic()
        beginning = _beside(begin) if beside else None
        try:
            link, chunks = self._connect(surrogate)
            steps.done(CONNECT)
            self.leftovers.remove_from(surrogate, link)
            found = beginning.result() if beginning else begin()
            steps.done(AWAIT_BEGINNING)
            request = self._request(found, link, chunks, standby=standby, use_media=use_media)
            place = Surrogate(surrogate, link, request.replica, self._service, **self._of_service)
            if found.giver:
                place.givers = (*found.giver.givers, found.giver)
            self.places[surrogate] = place
            self.leftovers.note(surrogate, place.replica)
            steps.done("offer sources")
            admitted = ReplicaStatus.from_json(
                link.http.post_json("/v1/replicas", request.to_json())
            )
            place.signer = self.keys.admit(surrogate, admitted.signer)
            steps.done("ask for the replica")
            giver = found.giver.name if found.giver else ""
            status = self._await(place, lambda: wanted(giver), standby=standby)
            steps.done(AWAIT_RUNNING)
        except BaseException:
            self.end(surrogate)
            raise
        return Made(place, found, began, status)

    def left(self) -> Surrogate | None:
        """A replica of a killed session that still runs, if there is one."""
        for replica, where in self.leftovers.all():
            if where not in self._settings.surrogates:
                continue
            try:
                link, _ = self._connect(where)
                place = Surrogate(where, link, replica, self._service, **self._of_service)
                if place.lives():
                    place.go_on()
                    logger.warning("%s goes on at %s, where it was left", self._service, where)
                    self.places[where] = place
                    return place
            except SatchelError as error:
                logger.info("nothing is left at %s: %s", where, error)
        return None

    def end(self, surrogate: str) -> None:
        """End the replica there, if there is one, and the links. Never fails: it may be gone."""
        if place := self.places.get(surrogate):
            self.put_away(place)
        else:
            self._drop_links(surrogate, gone=False)

    def put_away(self, place: Surrogate) -> None:
        """End a replica at a surrogate, and the links to it. Never fails."""
        if self.places.get(place.name) is place:
            del self.places[place.name]
        gone = not place.link.answers()
        if not gone:
            self._lessons.ask(place)
        try:
            if gone:
                raise place.silent()
            place.remove()
            self.leftovers.forget(place.replica)
        except SatchelError as error:
            logger.warning("replica %s was left behind: %s", place.replica, error)
            gone = isinstance(error, SurrogateSilent)
        self._drop_links(place.name, gone=gone)
        self._lessons.send()

    def status(self) -> dict[str, dict[str, Any]]:
        """The status by each surrogate; `error` where one does not answer."""
        return {name: _status(place) for name, place in dict(self.places).items()}

    def gather(self, *, home: bool) -> None:
        """Collect the spans of all hosts in `trace`. home: it takes part."""
        for name, place in dict(self.places).items():
            self.trace.gather(name, place.ask, "spans")
        if self._home and home:
            self.trace.gather(HOME, self._home.ask, "spans")

    def _drop_links(self, surrogate: str, *, gone: bool) -> None:
        for link in (surrogate, chunks_link(surrogate)):
            self._links.drop(link, gone=gone)

    def _connect(self, surrogate: str) -> tuple[Link, Link]:
        """The two links to a surrogate, at once; meanwhile the one for home's chunks, if it can."""
        peer = self._settings.surrogate(surrogate)
        self.keys.require_none_banned(surrogate, peer)
        if self._home:
            self._links.get(chunks_link(HOME), self._settings.home, Lane.BULK).want()
        with ThreadPoolExecutor(max_workers=1) as pool:
            chunks = pool.submit(self._links.open, chunks_link(surrogate), peer, Lane.BULK)
            link = self._links.open(surrogate, peer)
            return link, chunks.result()

    def _request(
        self, begin: Begin, link: Link, chunks: Link, *, standby: bool, use_media: bool
    ) -> CreateReplica:
        giver = begin.giver.name if begin.giver else ""
        lent = (self._home, begin.manifest, link)
        return CreateReplica(
            replica=CreateReplica.new_id(self._service),
            service=self._service,
            manifest=begin.manifest.to_json(),
            sources=self.sources.offer(chunks, use_media=use_media, giver=giver),
            changed=begin.changed,
            pages=begin.pages,
            touched=begin.touched,
            calls=lend_calls(*lent),
            edge=lend_edge(*lent),
            standby=standby,
        )

    def _await(
        self, place: Surrogate, wanted: Callable[[], None], *, standby: bool
    ) -> ReplicaStatus:
        """Wait until it runs, or stands by and has everything that is fetched ahead of it."""
        standstill, state = Standstill(), "standby" if standby else "ready"
        wait = 0.0 if standby else WAIT_SECONDS
        while not standstill.at((status := place.status(wait=wait)).fetched_bytes):
            if status.error is not None:
                raise status.error.to_error()
            if status.state == state and (status.independent or not standby):
                return status
            wanted()
            if status.state not in ("starting", state):
                what = f"the replica at {place.name} does not come up"
                raise StateError(what, why=f"it is {status.state}")
            if standby:
                time.sleep(STANDBY_POLL_SECONDS)
        raise UnavailableError(
            f"the replica at {place.name} does not run",
            why=f"nothing came for {STANDSTILL_SECONDS:.0f} s",
            fix="try another surrogate",
        )


def _beside(begin: Callable[[], Begin]) -> Future[Begin]:
    """Begin in a thread of its own."""
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="begin")
    beginning = pool.submit(begin)
    pool.shutdown(wait=False)
    return beginning


def _status(place: Surrogate) -> dict[str, Any]:
    try:
        return place.status(timeout=STATUS_SECONDS).to_json()
    except SatchelError as error:
        return {"error": str(error)}
