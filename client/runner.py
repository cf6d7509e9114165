# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session from its start to its end: which checkpoint, which replicas, where from.

Bringing up a replica on a surrogate, in order: a link to it, the media and home offered to it
over that link, the signed manifest sent, the wait until it runs, its cursor into the journal. The
replicas that are there answer meanwhile; a move ends the old one only when the new one has caught
up. Whatever goes wrong on the way, nothing of the new one is left, here or there.

A replica that answered otherwise than home is ended, and another one is brought up in its place
from the checkpoint: RESTARTS times, until somebody moves there again.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flask import Flask

from chunkstore import Media
from client.checkpoints import candidates, choose
from client.comparison import Divergence
from client.endpoints import HOME, HomeEndpoint, SurrogateEndpoint
from client.evidence import Case, Evidence
from client.feed import FINAL, FeedState
from client.home import HomeService
from client.journal import Journal
from client.leftovers import Leftovers
from client.planner import Plan, Planner
from client.prestage import Prestager
from client.reads import read_only
from client.routes import Route
from client.session import Diverged, Session
from client.settings import ClientSettings
from client.sources import media_app, relay_app
from images import Manifest
from satchel.errors import ConflictError, SatchelError, StateError, UnavailableError
from satchel.ids import ReplicaId
from satchel.names import check_name
from wire import (
    ChunkClient,
    CreateReplica,
    HostStatus,
    Lane,
    Link,
    Links,
    ReplicaStatus,
    SourceAddress,
)

logger = logging.getLogger(__name__)

READY_SECONDS = 900.0
"""How long a replica may take from its request until it runs."""

WAIT_SECONDS = 2.0
"""One question whether a replica runs; then it is looked whether the session ends meanwhile."""

RESTARTS = 2
"""How often in one session a replica is brought up again at a place where it diverged."""

INDEPENDENT_LOOK_SECONDS = 0.1

STATUS_SECONDS = 3.0
"""How long `status` waits for a surrogate."""


OF_SURROGATES = (
    "fetched_bytes",
    "faults",
    "stalls",
    "sources",
    "volumes",
    "quiet_seconds",
    "foresight",
)
"""What a replica's row has from its surrogate."""


@dataclass(frozen=True)
class Quarantined:
    """A replica that answered `operation` otherwise than home. evidence: its folder, None where it
    could not be kept; restarted: whether another one came up in its place, None while that is
    under way."""

    surrogate: str
    replica: ReplicaId
    operation: int
    evidence: str | None
    restarted: bool | None = None


@dataclass(frozen=True)
class BroughtUp:
    """What bringing up a replica took. Seconds count from the request, but for paused_seconds: how
    long a machine stood still that was handed over. Bytes are by source."""

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


class Runner:
    """One service in use by this client. Thread-safe; `close` ends everything it began.

    One at a time for a service and a run folder: see client.control.only_session.
    """

    def __init__(self, settings: ClientSettings, service: str, *, media: Path | None) -> None:
        """Raises BadName."""
        self.settings = settings
        self.service = check_name(service, "service")
        self.media = media
        self._links = Links(settings.run / "l" / service)
        self._leftovers = Leftovers(settings.run / f"{service}.replicas")
        self._chunks: Media | None = None
        self._home: HomeService | None = None
        self._manifest: Manifest | None = None
        self._session: Session | None = None
        self._planner: Planner | None = None
        self._surrogates: dict[str, SurrogateEndpoint] = {}
        self._prestager = Prestager(settings, service, self._links, self._offer)
        self._without_media: set[str] = set()
        self._evidence = Evidence(settings.state / "evidence", settings.evidence_mib << 20)
        self._quarantined: list[Quarantined] = []
        self._restarts: Counter[str] = Counter()
        self._moving = threading.RLock()
        self._closing = threading.Event()

    @property
    def session(self) -> Session:
        """The session, or StateError before `start`."""
        if self._session is None:
            raise StateError(f"the session of {self.service} has not started")
        return self._session

    @property
    def planner(self) -> Planner:
        """What the session's moves are planned with, or StateError before `start`."""
        if self._planner is None:
            raise StateError(f"the session of {self.service} has not started")
        return self._planner

    @property
    def manifest(self) -> Manifest:
        """The checkpoint that replicas are resumed from."""
        assert self._manifest is not None, "the session has started"
        return self._manifest

    def start(self, *, take_over: bool = False) -> None:
        """Find the checkpoint, open the journal, let home take part. Once.

        Without home the media must have a checkpoint, without media home must have one. A home
        that cannot be reached takes part when it can. Raises MediaNotFound, NotFoundError,
        AccessError for a wrong key or a manifest that the owner did not sign, ConflictError when
        another client holds the service or has used it, JournalGap; `close` is due all the same.
        """
        if self.media is not None:
            self._chunks = Media.open(self.media)
        reached = self._reach_home(take_over)
        found = candidates(self.service, self._chunks, reached, self.settings.allowed_signers)
        stateful = bool(found[0].manifest.adapter["stateful"])
        self._session = Session(
            self._journal() if stateful else Journal(None, None),
            stateful=stateful,
            response_seconds=self.settings.response_seconds,
            policy=self.settings.policy,
            read_only=read_only(found[0].manifest.adapter),
            on_quarantine=self._on_quarantine,
        )
        parts = (self._session, self._home, self._surrogates)
        self._planner = Planner(self.settings, self.service, *parts)
        journal = self._session.journal
        self._manifest = choose(found, journal, reached) if stateful else found[0].manifest
        if self.media is None and stateful:
            journal.cut(self._manifest.operation)
        self._join_home()

    def bring_up(
        self, surrogate: str, *, use_media: bool = True, route: Route = Route.REPLAY
    ) -> BroughtUp:
        """Resume a replica on a surrogate and let it catch up; returns when it has joined.

        Raises what admission there raises, ConflictError when one takes part there already,
        StateError when nobody can hand it over, and UnavailableError when it does not come up.
        """
        with self._moving:
            self._make_room(surrogate)
            (self._without_media.discard if use_media else self._without_media.add)(surrogate)
            try:
                return self._bring_up(surrogate, use_media=use_media, route=route)
            except BaseException:
                self.drop(surrogate)
                raise

    def move(
        self, surrogate: str, *, use_media: bool = True, route: Route | None = None
    ) -> BroughtUp:
        """Bring up a replica there, then end those on other surrogates (make before break).

        By default by the route that is predicted to be the fastest, and where that fails by replay.
        Raises as `bring_up`.
        """
        self._prestager.end(surrogate)
        with self._moving:
            self._restarts.pop(surrogate, None)
            plan = self.plan(surrogate, use_media=use_media, route=route)
            chosen = plan.of(route)
            way = route or (chosen.route if chosen else Route.REPLAY)
            try:
                brought = self.bring_up(surrogate, use_media=use_media, route=way)
            except SatchelError as error:
                if route is not None or way is Route.REPLAY or self._closing.is_set():
                    raise
                logger.warning("by %s: %s; going by replay", way.value, error)
                chosen = plan.of(Route.REPLAY)
                brought = self.bring_up(surrogate, use_media=use_media)
            if chosen:
                self.planner.note(
                    plan,
                    chosen,
                    asked=brought.asked_seconds,
                    replayed=brought.replayed,
                    replaying=brought.replay_seconds,
                    seconds=brought.joined_seconds,
                )
            for name in [name for name in self._surrogates if name != surrogate]:
                self.drop(name)
            self._prestager.expect(surrogate, self.manifest, self._surrogates[surrogate].quiet)
            return brought

    def elsewhere(self) -> list[str]:
        """The surrogates where no replica is."""
        return sorted(set(self.settings.surrogates) - set(self._surrogates))

    def plan(self, surrogate: str, *, use_media: bool = True, route: Route | None = None) -> Plan:
        """The routes to a replica there, or the one given, with what each is going to take. Raises
        NotFoundError for a surrogate that is not known."""
        media = self._chunks is not None and use_media
        return self.planner.plan(surrogate, self.manifest, media=media, route=route)

    def drop(self, surrogate: str) -> None:
        """End the replica on a surrogate and the link to it. Never fails: it may be gone."""
        with self._moving:
            feed = self._session.feed(surrogate) if self._session else None
            if feed:
                feed.end()
            self._end_replica(surrogate)
            if self._session:
                self._session.drop(surrogate)

    def status(self) -> dict[str, Any]:
        """Everything that `satchel status` shows."""
        session, journal = self.session, self.session.journal
        surrogates = {name: _status(e) for name, e in dict(self._surrogates).items()}
        return {
            "service": self.service,
            "checkpoint": self.manifest.id,
            "checkpoint_operation": self.manifest.operation,
            "stateful": session.stateful,
            "last_operation": session.last,
            "stable_operation": journal.stable,
            "media": str(self.media) if self.media else None,
            "damaged_chunks_on_media": self._chunks.damaged if self._chunks else None,
            "journal_failure": str(journal.failure) if journal.failure else None,
            "refusal": str(session.refusal) if session.refusal else None,
            "replicas": self._replicas(surrogates),
            "policy": session.policy,
            "answered": session.tally.answered,
            "sent_bytes": session.tally.sent_bytes,
            "sent_bytes_if_all": session.tally.sent_bytes_if_all,
            "bytes_per_operation": session.tally.sent_bytes // max(1, session.tally.answered),
            "first_responses": dict(session.tally.first_responses),
            "later_responses": session.tally.later_responses,
            "diverged": session.tally.diverged,
            "divergences": session.tally.divergences,
            "quarantined": [asdict(case) for case in self._quarantined],
            "surrogates": surrogates,
            "staged": self._prestager.status(),
        }

    def close(self) -> None:
        """End every replica on surrogates, give the lease back, close links and journal.

        Calls that wait for a response end with a StateError. Never fails.
        """
        self._closing.set()
        if self._session:
            self._session.refuse(StateError(f"the session of {self.service} has ended"))
        with self._moving:
            for name in list(self._surrogates):
                self.drop(name)
        if self._home and self._home.link.alive:
            try:
                self._home.release()
            except SatchelError as error:
                logger.warning("the lease was not given back: %s", error)
        if self._session:
            self._session.close()
        self._prestager.close()
        self._links.close()
        if self._chunks:
            self._chunks.close()

    def _end_replica(self, surrogate: str) -> None:
        """End the replica there, if there is one; what it was to the session stays."""
        if endpoint := self._surrogates.pop(surrogate, None):
            try:
                endpoint.remove()
                self._leftovers.forget(endpoint.replica)
            except SatchelError as error:
                logger.warning("replica %s was left behind: %s", endpoint.replica, error)
        self._links.drop(surrogate)
        self._links.drop(_chunks_link(surrogate))

    def _on_quarantine(self, divergence: Divergence) -> None:
        """See Session: what is to be done takes long, so another thread does it."""
        endpoint = divergence.feed.endpoint
        assert isinstance(endpoint, SurrogateEndpoint), "home is believed"
        work = (endpoint, divergence)
        threading.Thread(target=self._replace, args=work, name=f"replace-{endpoint.name}").start()

    def _replace(self, endpoint: SurrogateEndpoint, divergence: Divergence) -> None:
        """Keep the evidence, tell the user in one line, bring up another replica if it may be."""
        with self._moving:
            case, name = self._keep_evidence(endpoint, divergence), endpoint.name
            restarted = False
            if not self._closing.is_set() and self._surrogates.get(name) is endpoint:
                again = self._restarts[name] < RESTARTS
                logger.error(
                    "%s: the replica at %s answered operation %d otherwise than home and is in "
                    "quarantine; evidence: %s; %s",
                    *(self.service, name, case.operation, case.evidence or "none could be kept"),
                    _whether_again(again),
                )
                restarted = self._restart(name)
            self._quarantined[self._quarantined.index(case)] = replace(case, restarted=restarted)

    def _restart(self, name: str) -> bool:
        """Whether a replica there has joined again."""
        while self._restarts[name] < RESTARTS:
            self._restarts[name] += 1
            try:
                self.bring_up(name, use_media=name not in self._without_media)
                return True
            except Diverged as error:
                again = self._restarts[name] < RESTARTS
                logger.error("%s: %s; %s", self.service, error, _whether_again(again))
            except SatchelError as error:
                logger.error("%s: no replica at %s: %s", self.service, name, error)
                return False
        self._end_replica(name)
        return False

    def _keep_evidence(self, endpoint: SurrogateEndpoint, divergence: Divergence) -> Quarantined:
        journal = self.session.journal
        number, place = divergence.operation, None
        found = Case(
            service=self.service,
            checkpoint=self.manifest.id,
            surrogate=endpoint.name,
            replica=endpoint.replica,
            journal=journal.place,
            operation=journal.get(number),
            divergence=divergence,
        )
        try:
            place = str(self._evidence.keep(found))
        except OSError as error:
            logger.warning("evidence cannot be kept: %s", error)
        case = Quarantined(endpoint.name, endpoint.replica, number, place)
        self._quarantined.append(case)
        return case

    def _reach_home(self, take_over: bool) -> HomeService | None:
        """Home, if there is one and it answers now; a link to it in any case."""
        if not self.settings.home.destination:
            return None
        link = self._links.get(HOME, self.settings.home)
        self._home = HomeService(link, self.service, self.settings.client_name)
        try:
            link.connect()
            self._home.claim(take_over=take_over)
        except UnavailableError as error:
            if self.media is None:
                raise
            logger.warning("home: %s; going on with the media alone", error)
            return None
        return self._home

    def _journal(self) -> Journal:
        spare = self.settings.data / "log" / self.service
        path = Media.log_path(self.media, self.service) if self.media else spare
        return Journal(path, spare, self.settings.durability)

    def _join_home(self) -> None:
        if self._home:
            session = self.session
            endpoint = HomeEndpoint(
                self._home, session.journal, session.acknowledge, stateful=session.stateful
            )
            session.add(endpoint, None)

    def _make_room(self, surrogate: str) -> None:
        """A lost replica gives way to a new one at the same place; one that takes part does not."""
        if surrogate in self._surrogates:
            feed = self.session.feed(surrogate)
            if feed and feed.state not in FINAL:
                raise ConflictError(
                    f"{self.service} has a replica at {surrogate} already",
                    why=f"it is {feed.state.value}",
                )
            self.drop(surrogate)

    def _bring_up(self, surrogate: str, *, use_media: bool, route: Route) -> BroughtUp:
        began = time.monotonic()
        link, chunks = self._connect(surrogate)
        forwarded = HostStatus.from_json(link.http.get_json("/v1/status")).forwarded
        self._leftovers.remove_from(surrogate, link)
        replica = ReplicaId(f"{self.service[:40]}-{secrets.token_hex(4)}")
        begin = self.planner.begin(route, self.manifest)
        giver = begin.giver
        if route is Route.FRESH:
            self._manifest = begin.manifest
        request = CreateReplica(
            replica=replica,
            service=self.service,
            manifest=begin.manifest.to_json(),
            sources=self._offer(chunks, forwarded, use_media=use_media, giver=giver),
            changed=begin.changed,
            touched=begin.touched,
        )
        endpoint = self._surrogates[surrogate] = SurrogateEndpoint(
            surrogate, link, replica, stateful=self.session.stateful
        )
        self._leftovers.note(surrogate, replica)
        link.http.post_json("/v1/replicas", request.to_json())
        status = self._await_running(endpoint, began, giver)
        running = time.monotonic() - began
        session = self.session
        cursor = status.last_operation if session.stateful else session.journal.base
        feed = session.add(endpoint, cursor)
        while not feed.joined.wait(WAIT_SECONDS):
            self._still_wanted(giver)
            if feed.state is FeedState.QUARANTINED and feed.error:
                raise feed.error
            if feed.state in FINAL or time.monotonic() - began > READY_SECONDS:
                raise UnavailableError(
                    f"the replica at {surrogate} does not catch up",
                    why=str(feed.error or f"it is at operation {feed.cursor}"),
                )
        caught_up = time.monotonic() - began
        if giver:
            self._await_independent(endpoint, giver)
        return BroughtUp(
            surrogate=surrogate,
            replica=replica,
            running_seconds=running,
            joined_seconds=time.monotonic() - began,
            fetched_bytes=_fetched(endpoint, status),
            replayed=session.journal.last - cursor if session.stateful else 0,
            route=route,
            asked_seconds=begin.seconds,
            paused_seconds=begin.paused_seconds,
            replay_seconds=caught_up - running,
        )

    def _connect(self, surrogate: str) -> tuple[Link, Link]:
        """The two links to a surrogate, at once; meanwhile the one for home's chunks, if it can."""
        peer = self.settings.surrogate(surrogate)
        if self._home:
            self._links.get(_chunks_link(HOME), self.settings.home, Lane.BULK).want()
        with ThreadPoolExecutor(max_workers=1) as pool:
            chunks = pool.submit(self._links.open, _chunks_link(surrogate), peer, Lane.BULK)
            link = self._links.open(surrogate, peer)
            return link, chunks.result()

    def _await_independent(self, endpoint: SurrogateEndpoint, giver: SurrogateEndpoint) -> None:
        """Until a replica that was handed over needs the surrogate no more that did so."""
        deadline = time.monotonic() + READY_SECONDS
        while not endpoint.status().independent:
            self._still_wanted(giver)
            if time.monotonic() > deadline:
                what = f"the replica at {endpoint.name} still needs {giver.name}"
                raise UnavailableError(what, why="not all has come from there")
            time.sleep(INDEPENDENT_LOOK_SECONDS)

    def _offer(
        self,
        link: Link,
        folder: str,
        *,
        use_media: bool = True,
        giver: SurrogateEndpoint | None = None,
    ) -> tuple[SourceAddress, ...]:
        """Forward this client's sources to the surrogate, the nearest first. Home is one of them
        even while it cannot be reached: the surrogate asks again."""
        sources: list[tuple[str, Flask]] = []
        if giver is not None:
            bulk = self._links.get(
                _chunks_link(giver.name), self.settings.surrogate(giver.name), Lane.BULK
            )
            bulk.want()
            sources.append((giver.name, relay_app(ChunkClient(bulk.http), self.session.operations)))
        if self._chunks is not None and use_media:
            sources.append(("media", media_app(self._chunks, self.session.operations)))
        if self._home is not None:
            bulk = self._links.get(_chunks_link(HOME), self.settings.home, Lane.BULK)
            sources.append((HOME, relay_app(ChunkClient(bulk.http), self.session.operations)))
        return tuple(SourceAddress(n, link.offer(n, app, folder)) for n, app in sources)

    def _await_running(
        self, endpoint: SurrogateEndpoint, began: float, giver: SurrogateEndpoint | None
    ) -> ReplicaStatus:
        while time.monotonic() - began < READY_SECONDS:
            status = endpoint.status(wait=WAIT_SECONDS)
            if status.state == "ready":
                return status
            if status.error is not None:
                raise status.error.to_error()
            self._still_wanted(giver)
        raise UnavailableError(
            f"the replica at {endpoint.name} does not run after {READY_SECONDS:.0f} s",
            fix="try another surrogate",
        )

    def _still_wanted(self, giver: SurrogateEndpoint | None) -> None:
        """Raises StateError when the session ends, UnavailableError without who hands over."""
        if self._closing.is_set():
            raise StateError(f"the session of {self.service} has ended")
        feed = self.session.feed(giver.name) if giver else None
        if giver and (feed is None or feed.state in FINAL):
            what = f"{giver.name} was lost before it had handed over everything"
            raise UnavailableError(what, why=str(feed.error) if feed else "", fix="go by replay")

    def _replicas(self, surrogates: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """A row for each replica that takes part or is being brought up."""
        session, last = self.session, self.session.journal.last
        rows: dict[str, dict[str, Any]] = {
            name: {"name": name, "state": str(s.get("state", "unknown")), "operation": None}
            for name, s in surrogates.items()
        }
        for feed in session.feeds():
            rows[feed.name] = {
                "name": feed.name,
                "state": feed.state.value,
                "operation": feed.cursor,
                "lag": max(0, last - feed.cursor),
                "response_seconds": feed.pace.median(),
                "error": str(feed.error) if feed.error else None,
            }
        return [
            row | {key: surrogates.get(name, {}).get(key) for key in OF_SURROGATES}
            for name, row in rows.items()
        ]


def _whether_again(again: bool) -> str:
    if again:
        return "another one is brought up"
    return f"that was attempt {RESTARTS + 1}, no other one is brought up"


def _chunks_link(name: str) -> str:
    """The name of the link that carries chunks to or from that host."""
    return f"{name}-chunks"


def _fetched(endpoint: SurrogateEndpoint, before: ReplicaStatus) -> dict[str, int]:
    """By source, now, or as it was before where the surrogate is gone already: a replica that has
    joined and is lost is the session's affair, and no reason to end it."""
    try:
        return endpoint.status().fetched_bytes
    except UnavailableError:
        return before.fetched_bytes


def _status(endpoint: SurrogateEndpoint) -> dict[str, Any]:
    try:
        return endpoint.status(timeout=STATUS_SECONDS).to_json()
    except SatchelError as error:
        return {"error": str(error)}
