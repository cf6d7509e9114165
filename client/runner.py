# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session from its start to its end: which checkpoint, home, which surrogate.

The replicas that are there answer while another one is brought up; a move ends the old one only
when the new one has caught up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from client.medium.fetching import refresh_folder
from client.medium.trickle import Trickle
from client.moves.fits import Fit, fits
from client.moves.mover import Mover, Went
from client.moves.planner import Plan, Planner
from client.moves.prestage import Prestager
from client.moves.quarantine import Quarantine
from client.moves.replicas import Replicas
from client.moves.routes import Route
from client.moves.sources import Sources, chunks_link
from client.moves.tracing import MOVE, MoveTrace
from client.places.here import SurrogatesHere
from client.places.home import Home
from client.platform.limit import Limit
from client.platform.power import Power
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import (
    NOTHING,
    OwnerOverrides,
    candidates,
    choose,
    newest_at_home,
    require_all_of_it,
    require_sealed,
)
from client.session.comparison import Divergence
from client.session.home_endpoint import HomeEndpoint
from client.session.journal import Journal
from client.session.parking import SessionParking
from client.session.reads import read_only
from client.session.session import Session
from client.session.shutdown import Shutdown, UnsentOperations
from client.state.last_seen import NOTHING_SEEN, LastSeen, LastSeenStore, require_latest
from client.state.log_keys import LogKeys
from client.state.savings import Savings
from images import Manifest
from media import Media
from replay.adapters import EARLY
from satchel.errors import SatchelError, StateError, UnavailableError, UnsupportedError
from satchel.ids import CheckpointId, OperationNumber
from satchel.names import check_name
from satchel.progress import Progress, silent
from satchel.timestamps import timestamp_now
from wire import Lane, Links

logger = logging.getLogger(__name__)

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
class _SessionParts:
    """What a session has once its checkpoint is known."""

    replicas: Replicas
    quarantine: Quarantine
    prestager: Prestager


class ServiceIsCarried(UnsupportedError):
    """A carried service needs another kind of session: client.carry."""

    def __init__(self, service: str) -> None:
        super().__init__(f"{service} is carried", why="its operations are not replayed")


class Runner:
    """One service in use by this client. Thread-safe; `close` ends everything it began.

    One at a time for a service and a run folder: see client.platform.running.only_session.
    """

    def __init__(self, settings: ClientSettings, service: str, *, media: Path | None) -> None:
        """Raises BadName."""
        self.settings = settings
        self.service = check_name(service, "service")
        self.media = media
        self._keys = LogKeys(settings.state / "log-keys")
        self._latest = LastSeenStore(settings.state / "latest", LastSeen.decode)
        self.here = SurrogatesHere(settings, settings.run / f"{service}.here")
        self._links = Links(settings.run / "l" / service, reached=self.here.reached)
        self._power = Power(settings.later_waits)
        self._chunks: Media | None = None
        self._home: Home | None = None
        self._session: Session | None = None
        self._started: _SessionParts | None = None
        self._on_media: set[CheckpointId] = set()
        self._trickle: Trickle | None = None
        self._parking: SessionParking | None = None
        self._ending = Shutdown(service)
        self._savings = Savings.of(settings.state, service)

    @property
    def session(self) -> Session:
        """The session, or StateError before `start`."""
        if self._session is None:
            raise StateError(f"the session of {self.service} has not started")
        return self._session

    @property
    def ending(self) -> bool:
        """Whether the session was told to end."""
        return self._started is not None and self._started.replicas.closing

    @property
    def leader(self) -> str:
        """A surrogate with a replica, else home if it answers; empty without either."""
        home = self.session.feed(HOME)
        names = self._parts.replicas.names()
        return names[0] if names else HOME if home and home.answers else ""

    @property
    def manifest(self) -> Manifest:
        """The checkpoint that replicas are resumed from."""
        return self._parts.replicas.manifest

    def start(self, *, take_over: bool = False, accepted: OwnerOverrides = NOTHING) -> None:
        """Find the checkpoint, open the journal, let home take part. Once.

        Without home the medium must have a checkpoint, without media home must have one. A home
        that cannot be reached takes part when it can. Raises MediaNotFound, NotFoundError,
        AccessError for a wrong key or a manifest that the owner did not sign, ConflictError when
        another client holds the service or has used it, JournalGap, ServiceIsCarried, and unless it
        is accepted OperationsDoubtful, StateOlder and CheckpointPartial; `close` is due all the
        same.
        """
        if self.media is None:
            self.settings.require_home(otherwise="; or name media that have a checkpoint")
        else:
            self._chunks = Media.open(self.media, self.settings.media_keys)
        reached = self._reach_home(take_over)
        found = candidates(self.service, self._chunks, reached, self.settings.allowed_signers)
        contract = found[0].manifest.contract
        if contract.carried:
            raise ServiceIsCarried(self.service)
        self._on_media = {c.manifest.id for c in found if c.place != HOME}
        self._session = Session(
            self._journal() if contract.stateful else Journal(None, None),
            stateful=contract.stateful,
            response_seconds=self.settings.response_seconds,
            policy=self.settings.policy,
            read_only=read_only(contract),
            on_quarantine=self._on_quarantine,
            early=contract.adapter in EARLY,
            limit=Limit.parse(self.settings.provisional),
            trusted=[name for name, peer in self.settings.surrogates.items() if peer.trusted],
        )
        journal = self._session.journal
        manifest = choose(found, journal, reached) if contract.stateful else found[0].manifest
        if self.media is None and contract.stateful:
            journal.cut(manifest.operation)
        if not accepted.log:
            require_sealed(journal, manifest.operation, reached)
        require_all_of_it(found, manifest, reached, accepted=accepted.part)
        self._require_latest(journal.last, manifest, reached, accepted)
        self._started = self._start_parts(self._session, manifest)
        self._join_home()
        self._trickle = self._start_trickle() if contract.stateful else None
        self._parking = self._start_parking()

    def bring_up(
        self, surrogate: str, *, use_media: bool = True, route: Route = Route.REPLAY
    ) -> Went:
        """See `Replicas.bring_up`."""
        return self._parts.replicas.bring_up(surrogate, use_media=use_media, route=route)

    def move(
        self,
        surrogate: str,
        *,
        use_media: bool = True,
        route: Route | None = None,
        progress: Progress = silent,
        traced: bool = False,
    ) -> Went:
        """Bring up a replica there, then end those on other surrogates (make before break).
        traced: all are asked what they did for it, before any is ended: `trace` has it then.

        By default by the route that is predicted to be the fastest, and where that fails by replay.
        Raises as `Replicas.bring_up`, which says of what `progress` is told.
        """
        parts = self._parts
        replicas, planner = parts.replicas, parts.replicas.planner
        parts.prestager.end(surrogate)
        with replicas.changing():
            replicas.mover.trace = MoveTrace()
            steps = replicas.mover.trace.steps()
            parts.quarantine.forgive(surrogate)
            plan = self.plan(surrogate, use_media=use_media, route=route)
            steps.done("plan")
            chosen = plan.of(route)
            way = route or (chosen.route if chosen else Route.REPLAY)
            try:
                brought = replicas.bring_up(
                    surrogate, use_media=use_media, route=way, progress=progress
                )
            except SatchelError as error:
                if route is not None or way is Route.REPLAY or replicas.closing:
                    raise
                logger.warning("by %s: %s; going by replay", way.value, error)
                chosen = plan.of(Route.REPLAY)
                brought = replicas.bring_up(surrogate, use_media=use_media)
            if chosen:
                planner.note(plan, chosen, brought)
            if traced:
                replicas.gather()
            for name in [name for name in replicas.names() if name != surrogate]:
                with replicas.mover.trace.spans.span(f"end the replica at {name}", MOVE):
                    replicas.drop(name)
            self._savings.fetched(surrogate, brought.fetched_bytes)
            self._savings.gained(self.session.lead)
            if here := replicas.at(surrogate):
                parts.prestager.expect(surrogate, replicas.manifest, here.quiet)
            return brought

    @property
    def trace(self) -> MoveTrace:
        """Of the last move."""
        return self._parts.replicas.mover.trace

    def go_ahead(self, here: str, other: str | None) -> str | None:
        """The client is about to leave a surrogate: bring what is needed to where it is expected
        next, or else to `other`, at once. Where that is; None where nobody knows."""
        parts = self._parts
        return parts.prestager.expect(here, self.manifest, lambda: True, other=other)

    def elsewhere(self) -> list[str]:
        """The surrogates where no replica is."""
        return sorted(set(self.settings.surrogates) - set(self._parts.replicas.names()))

    def plan(self, surrogate: str, *, use_media: bool = True, route: Route | None = None) -> Plan:
        """The routes to a replica there, or the one given, with what each is going to take. Raises
        NotFoundError for a surrogate that is not known."""
        replicas = self._parts.replicas
        media = use_media and replicas.manifest.id in self._on_media
        return replicas.planner.plan(surrogate, replicas.manifest, media=media, route=route)

    def fits(self, surrogates: Sequence[str]) -> list[Fit]:
        """Which of them can run the machine, as they say themselves. See client.moves.fits."""
        return fits(self.settings, self.manifest.machine, surrogates)

    def drop(self, surrogate: str) -> None:
        """See `Replicas.drop`."""
        self._parts.replicas.drop(surrogate)

    def status(self) -> dict[str, Any]:
        """Everything that `satchel status` shows."""
        session, journal = self.session, self.session.journal
        surrogates = self._parts.replicas.mover.status()
        return {
            "service": self.service,
            "checkpoint": self.manifest.id,
            "checkpoint_operation": self.manifest.operation,
            "stateful": session.stateful,
            "last_operation": session.last,
            "stable_operation": journal.stable,
            "media": str(self.media) if self.media else None,
            **self._medium(),
            "damaged_chunks_on_media": self._chunks.damaged if self._chunks else None,
            "journal_failure": str(journal.failure) if journal.failure else None,
            "parked": self.parked,
            "refusal": str(session.refusal) if session.refusal else None,
            "replicas": self._replicas(surrogates),
            "policy": session.policy,
            "provisional": session.provisional.count,
            "provisional_seconds": round(session.provisional.seconds, 1),
            "provisional_limit": str(session.provisional.limit),
            "samples": session.tally.samples,
            "answered": session.tally.answered,
            "sent_bytes": session.tally.sent_bytes,
            "sent_bytes_if_all": session.tally.sent_bytes_if_all,
            "bytes_per_operation": session.tally.sent_bytes // max(1, session.tally.answered),
            "first_responses": dict(session.tally.first_responses),
            "later_responses": session.tally.later_responses,
            "diverged": session.tally.diverged,
            "divergences": session.tally.divergences,
            "quarantined": self._parts.quarantine.status(),
            "surrogates": surrogates,
            "staged": self._parts.prestager.status(),
            **self.here.status(),
            "refreshed": asdict(self._trickle.brought) if self._trickle else None,
        }

    def settle(self) -> UnsentOperations | None:
        """Accept nothing more, and bring up no more replicas; what home lacks then. See
        Shutdown."""
        if self._started:
            self._started.replicas.bring_up_no_more()
        return self._ending.settle(self._session, self._home) if self._session else None

    def close(self) -> None:
        """End every replica on surrogates, give the lease back, close links and journal.

        Calls that wait for a response end with a StateError. Never fails.
        """
        self.settle()
        if self._started:
            self._started.replicas.close()
        if self._parking:
            self._parking.close()
        if self._trickle:
            self._trickle.close()
        if self._home:
            self._ending.release(self._home)
        if self._session:
            self._note_latest(self._session)
            self._savings.gained(self._session.lead)
            self._session.close()
        if self._started:
            self._started.prestager.close()
        self._power.close()
        self._links.close()
        if self._chunks:
            self._chunks.close()

    @property
    def _parts(self) -> _SessionParts:
        if self._started is None:
            raise StateError(f"the session of {self.service} has not started")
        return self._started

    def _start_parts(self, session: Session, manifest: Manifest) -> _SessionParts:
        sources = Sources(self.settings, self._links, self._chunks, session.operations)
        common = (self.settings, self.service, self._links)
        mover = Mover(*common, self._home, sources, stateful=session.stateful, early=session.early)
        planner = Planner(self.settings, self.service, session, self._home, mover.places)
        replicas = Replicas(self.service, session, mover, planner, manifest)
        return _SessionParts(
            replicas,
            Quarantine(self.settings, self.service, replicas, session.journal, self._home),
            Prestager(*common, self._power, sources.offer),
        )

    def _start_trickle(self) -> Trickle | None:
        """Of a session whose medium has a checkpoint of the service, and which has a home."""
        every = self.settings.media_seconds
        if self._chunks is None or self._home is None or not self._on_media or not every:
            return None
        home, signers = self._home, self.settings.allowed_signers
        return Trickle(
            self.session,
            home,
            self._parts.replicas,
            self._chunks,
            refresh_folder(self.settings, self.service),
            self._links.get(chunks_link(HOME), self.settings.home, Lane.BULK),
            lambda: newest_at_home(home, signers),
            lambda manifest: self._on_media.add(manifest.id),
            every,
            self._power,
        )

    def _start_parking(self) -> SessionParking | None:
        """Of a session that has a home."""
        if self._home is None or not self.settings.park_seconds:
            return None
        bulk = self._links.get(chunks_link(HOME), self.settings.home, Lane.BULK)
        return SessionParking(
            self.session, self._home, bulk, self._brings, self.settings.park_seconds
        )

    def _brings(self) -> bool:
        """Whether the medium is to get more of what home has, or a surrogate something of it."""
        due = self._trickle is not None and self._trickle.due
        return due or bool(self._parts.replicas.names()) or self._parts.prestager.under_way

    @property
    def parked(self) -> bool:
        """Whether home and surrogates are told nothing until somebody uses the service."""
        return self._parking is not None and self._parking.parked

    def _on_quarantine(self, divergence: Divergence) -> None:
        self._parts.quarantine.put(divergence)

    def _reach_home(self, take_over: bool) -> Home | None:
        """Home, if there is one and it answers now; a link to it in any case."""
        if not self.settings.home.destination:
            return None
        link = self._links.get(HOME, self.settings.home)
        keys = self.settings.media_keys
        self._home = Home(link, self.service, self.settings.client_id, keys)
        try:
            link.connect()
            log_keys = self._home.claim(take_over=take_over)
            if log_keys is not None:
                self._keys.keep(self.service, log_keys)
            self._home.want()
            if self.media is None and not self._home.has_checkpoint():
                logger.warning("home boots %s for the first time: that takes minutes", self.service)
                self._home.launch()
        except UnavailableError as error:
            if self.media is None:
                raise
            logger.warning("home: %s; going on with the medium alone", error)
            return None
        if self._chunks is not None:
            keys.require_standing(self._chunks.root, self._chunks.uuid)
        return self._home

    def _require_latest(
        self,
        last: OperationNumber,
        manifest: Manifest,
        home: Home | None,
        accepted: OwnerOverrides,
    ) -> None:
        """What home has counts; without home, nothing older than what was known here."""
        known = self._latest.get(self.service) or NOTHING_SEEN
        if home is None and accepted.older != manifest.id:
            require_latest(known, manifest, last, timestamp_now())
            known = replace(known, last=last).with_checkpoint(manifest)
        else:
            known = LastSeen(last).with_checkpoint(manifest)
        self._latest.put(self.service, known)

    def _note_latest(self, session: Session) -> None:
        """Of a session that has started; never fails."""
        if self._started:
            try:
                known = self._latest.get(self.service) or NOTHING_SEEN
                known = replace(known, last=session.journal.last)
                self._latest.put(self.service, known.with_checkpoint(self.manifest))
            except OSError as error:
                logger.warning("%s: an older state will not be noticed: %s", self.service, error)

    def _journal(self) -> Journal:
        spare = self.settings.data / "log" / self.service
        if self._chunks is None:
            return Journal(spare, spare, self.settings.durability)
        path, secret = self._chunks.log_path(self.service), self._chunks.log_secret(self.service)
        keys = self._keys.get(self.service)
        return Journal(path, spare, self.settings.durability, keys, secret)

    def _join_home(self) -> None:
        if self._home:
            session = self.session
            endpoint = HomeEndpoint(
                self._home,
                session.journal,
                session.acknowledge,
                stateful=session.stateful,
                early=session.early,
            )
            session.add(endpoint, None)

    def _medium(self) -> dict[str, int | None]:
        """Its newest generation and free bytes; None where there is no medium now."""
        try:
            generation = self._chunks.newest if self._chunks else None
            free = self._chunks.free_bytes() if self._chunks else None
        except SatchelError:
            generation = free = None
        return {"media_generation": generation, "media_free_bytes": free}

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
