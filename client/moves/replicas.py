# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The replicas of one session on surrogates: how one is brought up there, and ended.

Bringing one up, in order: a link to the surrogate, the medium and home offered to it over that
link, the signed manifest sent, the wait until it runs, its cursor into the journal, the wait until
it has caught up and, where it was handed over, until it needs its giver no more. Whatever goes
wrong on the way, nothing of it is left, here or there.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from client.moves.lessons import Lessons
from client.moves.planner import Begin, Planner
from client.moves.routes import Route
from client.moves.sources import Sources, chunks_link
from client.moves.tracing import MoveTrace
from client.places.home import Home
from client.places.leftovers import Leftovers
from client.places.surrogate import Surrogate, SurrogateSilent, lend_calls, lend_edge
from client.platform.settings import HOME, ClientSettings
from client.session.feed import FINAL
from client.session.joining import STANDSTILL_SECONDS, Standstill, await_joined
from client.session.session import Session
from client.state.surrogate_keys import SurrogateKeys
from images import Manifest, blob_root
from satchel.errors import (
    ConflictError,
    IntegrityError,
    SatchelError,
    StateError,
    UnavailableError,
)
from satchel.ids import OperationNumber, ReplicaId
from satchel.progress import Progress, silent
from wire import CreateReplica, Lane, Link, Links, ReplicaStatus

logger = logging.getLogger(__name__)

WAIT_SECONDS = 2.0
"""One question whether a replica runs; then it is looked whether the session ends meanwhile."""

INDEPENDENCE_POLL_SECONDS = 0.1

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
class ReplicaStartReport:
    """What bringing up a replica took. Seconds count from the request, but for paused_seconds: how
    long a machine stood still that was handed over. Bytes are by source. replay_seconds: what
    executing operations again took, at the pace of the second half of them: in the first half a
    machine waits for blocks.
    """

    surrogate: str
    replica: ReplicaId
    running_seconds: float
    joined_seconds: float
    fetched_bytes: dict[str, int]
    replayed: int
    route: Route
    asked_seconds: float
    paused_seconds: float
    replay_seconds: float


class Replicas:
    """See the module. Thread-safe.

    changing: held by whoever changes which there are
    manifest: the checkpoint that they are resumed from
    planner:  what moves are planned with
    without_media: the surrogates whose replica was brought up from home alone
    trace: of the move that is made, or of the one before
    keys: those of surrogates, and which are banned
    """

    def __init__(
        self,
        settings: ClientSettings,
        service: str,
        links: Links,
        session: Session,
        home: Home | None,
        sources: Sources,
        manifest: Manifest,
    ) -> None:
        self.changing = threading.RLock()
        self.manifest = manifest
        self.without_media: set[str] = set()
        self.trace = MoveTrace()
        self._settings = settings
        self._service = service
        self._links = links
        self._session = session
        self._sources = sources
        self._home = home
        self.keys = SurrogateKeys(settings.state)
        self._leftovers = Leftovers(settings.run / f"{service}.replicas")
        self._endpoints: dict[str, Surrogate] = {}
        self._begun: dict[str, Manifest] = {}
        self._closing = threading.Event()
        self._lessons = Lessons(home if settings.teach else None)
        self.planner = Planner(settings, service, session, home, self._endpoints)

    @property
    def closing(self) -> bool:
        """Whether no more are brought up."""
        return self._closing.is_set()

    def bring_up_no_more(self) -> None:
        """What is being brought up ends soon, with a StateError. Returns at once."""
        self._closing.set()

    def close(self) -> None:
        """Bring up no more, and end all. Never fails."""
        self.bring_up_no_more()
        with self.changing:
            for name in self.names():
                self.drop(name)

    def names(self) -> list[str]:
        """The surrogates where one is, or is being brought up."""
        return list(self._endpoints)

    def in_use(self) -> list[Manifest]:
        """The signed checkpoints that the replicas there go back to."""
        return list(self._begun.values())

    def at(self, surrogate: str) -> Surrogate | None:
        """The one there, if there is one."""
        return self._endpoints.get(surrogate)

    def status(self) -> dict[str, dict[str, Any]]:
        """What each surrogate says of its own; `error` where it does not answer."""
        return {name: _status(endpoint) for name, endpoint in dict(self._endpoints).items()}

    def bring_up(
        self,
        surrogate: str,
        *,
        use_media: bool = True,
        route: Route = Route.REPLAY,
        progress: Progress = silent,
    ) -> ReplicaStartReport:
        """Resume a replica on a surrogate and let it catch up; returns when it has joined.

        progress: told how much has come, in bytes, of what only the giver of a hand-over has, once
        nothing else is waited for. Raises what admission there raises, SurrogateBanned,
        ConflictError when one takes part there already, StateError when nobody can hand it over,
        UnavailableError when it does not come up, and IntegrityError when it cannot be where it
        says that it is.
        """
        with self.changing:
            self._make_room(surrogate)
            (self.without_media.discard if use_media else self.without_media.add)(surrogate)
            try:
                return self._bring_up(surrogate, use_media, route, progress)
            except BaseException:
                self.drop(surrogate)
                raise

    def gather(self) -> None:
        """Have all that take part say what they did for the move; `trace` has it then."""
        for name, endpoint in dict(self._endpoints).items():
            self.trace.gather(name, endpoint.ask, "spans")
        if self._home and (feed := self._session.feed(HOME)) and feed.state not in FINAL:
            self.trace.gather(HOME, self._home.ask, "spans")

    def drop(self, surrogate: str) -> None:
        """End the replica on a surrogate and the link to it. Never fails: it may be gone."""
        with self.changing:
            if feed := self._session.feed(surrogate):
                feed.end()
            self.end(surrogate)
            self._session.drop(surrogate)

    def end(self, surrogate: str) -> None:
        """End the replica there, if there is one; what it was to the session stays."""
        gone = False
        self._begun.pop(surrogate, None)
        if endpoint := self._endpoints.pop(surrogate, None):
            self._lessons.ask(endpoint)
            try:
                endpoint.remove()
                self._leftovers.forget(endpoint.replica)
            except SatchelError as error:
                logger.warning("replica %s was left behind: %s", endpoint.replica, error)
                gone = isinstance(error, SurrogateSilent)
        for link in (surrogate, chunks_link(surrogate)):
            self._links.drop(link, gone=gone)
        self._lessons.send()

    def _make_room(self, surrogate: str) -> None:
        """A lost replica gives way to a new one at the same place; one that takes part does not."""
        if surrogate in self._endpoints:
            feed = self._session.feed(surrogate)
            if feed and feed.state not in FINAL:
                raise ConflictError(
                    f"{self._service} has a replica at {surrogate} already",
                    why=f"it is {feed.state.value}",
                )
            self.drop(surrogate)

    def _bring_up(
        self, surrogate: str, use_media: bool, route: Route, progress: Progress
    ) -> ReplicaStartReport:
        began, steps = time.monotonic(), self.trace.steps()
        beginning = self._begin_beside(route)
        link, chunks = self._connect(surrogate)
        steps.done(CONNECT)
        self._leftovers.remove_from(surrogate, link)
        begin = beginning.result() if beginning else self.planner.begin(route, self.manifest)
        steps.done(AWAIT_BEGINNING)
        if route is Route.FRESH:
            self.manifest = begin.manifest
        giver = begin.giver.name if begin.giver else ""
        self._begun[surrogate] = self._begun.get(giver, self.manifest)
        offered = self._sources.offer(chunks, use_media=use_media, giver=giver)
        lent = (self._home, begin.manifest, link)
        request = CreateReplica(
            replica=CreateReplica.new_id(self._service),
            service=self._service,
            manifest=begin.manifest.to_json(),
            sources=offered,
            changed=begin.changed,
            pages=begin.pages,
            touched=begin.touched,
            calls=lend_calls(*lent),
            edge=lend_edge(*lent),
        )
        stateful = self._session.stateful
        early = self._session.early
        endpoint = Surrogate(
            surrogate, link, request.replica, self._service, stateful=stateful, early=early
        )
        if begin.giver:
            endpoint.givers = (*begin.giver.givers, begin.giver)
        self._endpoints[surrogate] = endpoint
        self._leftovers.note(surrogate, endpoint.replica)
        steps.done("offer sources")
        admitted = ReplicaStatus.from_json(link.http.post_json("/v1/replicas", request.to_json()))
        endpoint.signer = self.keys.admit(surrogate, admitted.signer)
        steps.done("ask for the replica")
        status = self._await_running(endpoint, giver)
        steps.done(AWAIT_RUNNING)
        running = time.monotonic() - began
        cursor = self._cursor(status) if stateful else self._session.journal.base
        feed = self._session.add(endpoint, cursor)
        await_joined(feed, lambda: self._still_wanted(giver))
        steps.done(AWAIT_JOINED)
        caught_up = time.monotonic() - began
        replayed = self._session.journal.last - cursor if stateful else 0
        each = feed.catch_up.seconds_each()
        if giver:
            self._await_independent(endpoint, giver, _changed_bytes(begin), progress)
            steps.done(AWAIT_INDEPENDENT)
        return ReplicaStartReport(
            surrogate=surrogate,
            replica=endpoint.replica,
            running_seconds=running,
            joined_seconds=time.monotonic() - began,
            fetched_bytes=_fetched(endpoint, status),
            replayed=replayed,
            route=route,
            asked_seconds=begin.seconds,
            paused_seconds=begin.paused_seconds,
            replay_seconds=min(caught_up - running, replayed * each if each else math.inf),
        )

    def _begin_beside(self, route: Route) -> Future[Begin] | None:
        """A hand-over is asked for while the links are made: one that nobody takes changes nothing.
        A checkpoint of home's would be another one to begin from, for no move."""
        if route is not Route.HANDOVER:
            return None
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hand-over")
        beginning = pool.submit(self.planner.begin, route, self.manifest)
        pool.shutdown(wait=False)
        return beginning

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

    def _await_running(self, endpoint: Surrogate, giver: str) -> ReplicaStatus:
        standstill = Standstill()
        while not standstill.at((status := endpoint.status(wait=WAIT_SECONDS)).fetched_bytes):
            if status.state == "ready":
                return status
            if status.error is not None:
                raise status.error.to_error()
            self._still_wanted(giver)
        raise UnavailableError(
            f"the replica at {endpoint.name} does not run",
            why=f"nothing came for {STANDSTILL_SECONDS:.0f} s",
            fix="try another surrogate",
        )

    def _cursor(self, status: ReplicaStatus) -> OperationNumber:
        """Where a replica is. Raises IntegrityError where it cannot be there."""
        number, last = status.last_operation, self._session.journal.last
        if number > last:
            what = f"replica {status.replica} says that it has executed operation {number}"
            raise IntegrityError(what, why=f"the last one is {last}")
        return number

    def _await_independent(
        self, endpoint: Surrogate, giver: str, size: int, progress: Progress
    ) -> None:
        """Until a replica that was handed over needs the surrogate no more that did so."""
        standstill = Standstill()
        while not (status := endpoint.status()).independent:
            progress(min(status.fetched_bytes.get(giver, 0), size), size)
            self._still_wanted(giver)
            if standstill.at(status.fetched_bytes):
                what = f"the replica at {endpoint.name} still needs {giver}"
                raise UnavailableError(what, why="not all has come from there")
            time.sleep(INDEPENDENCE_POLL_SECONDS)
        progress(size, size)

    def _still_wanted(self, giver: str) -> None:
        """Raises StateError when the session ends, UnavailableError without who hands over."""
        if self._closing.is_set():
            raise StateError(f"the session of {self._service} has ended")
        feed = self._session.feed(giver) if giver else None
        if giver and (feed is None or feed.state in FINAL):
            what = f"{giver} was lost before it had handed over everything"
            raise UnavailableError(what, why=str(feed.error) if feed else "", fix="go by replay")


def _changed_bytes(begin: Begin) -> int:
    """Of what only the giver has: the blocks that differ from the checkpoint's, and what has
    changed in the pages above them."""
    blobs = {"changed": begin.changed, "pages": begin.pages}
    return sum(blob_root(name, blob).size for name, blob in blobs.items() if blob)


def _fetched(endpoint: Surrogate, before: ReplicaStatus) -> dict[str, int]:
    """By source, now, or as it was before where the surrogate is gone already: a replica that has
    joined and is lost is the session's affair, and no reason to end it."""
    try:
        return endpoint.status().fetched_bytes
    except UnavailableError:
        return before.fetched_bytes


def _status(endpoint: Surrogate) -> dict[str, Any]:
    try:
        return endpoint.status(timeout=STATUS_SECONDS).to_json()
    except SatchelError as error:
        return {"error": str(error)}
