# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replayed service: every replica executes each operation once, in the order of the log, and the
first answer counts. The replicas that are there answer while another one is brought up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from client.contracts.contract import Contract, Resources, Use
from client.fronts import Front, open_front
from client.fronts.origin import ServiceOrigin
from client.fronts.ports import LocalPort, only_local
from client.medium.fetching import refresh_folder
from client.medium.sticks import Stick
from client.medium.trickle import Trickle
from client.moves.mover import Mover, Went
from client.moves.quarantine import Quarantine
from client.moves.replicas import Replicas
from client.moves.routes import Route
from client.moves.sources import Sources, chunks_link
from client.platform.limit import Limit
from client.platform.settings import HOME
from client.session.checkpoints import (
    Candidate,
    OwnerOverrides,
    choose,
    newest_at_home,
    require_all_of_it,
    require_sealed,
)
from client.session.comparison import Divergence
from client.session.feed import FINAL, FeedState
from client.session.home_endpoint import HomeEndpoint
from client.session.journal import Journal
from client.session.parking import SessionParking
from client.session.reads import read_only
from client.session.session import Session
from client.session.shutdown import UnsentOperations
from client.state.last_seen import NOTHING_SEEN, LastSeen, LastSeenStore, require_latest
from client.state.log_keys import LogKeys
from client.state.savings import HeadStart
from images import Manifest
from media import Media
from replay.adapters import EARLY
from satchel.errors import StateError, UnavailableError
from satchel.ids import CheckpointId, OperationNumber
from satchel.progress import Progress
from satchel.timestamps import timestamp_now
from wire import Lane

logger = logging.getLogger(__name__)


class Replayed(Contract):
    """See the module and Contract."""

    name = "replay"

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources)
        self._home = resources.home
        self._latest = LastSeenStore(self._settings.state / "latest", LastSeen.decode)
        self._on_media: set[CheckpointId] = set()
        self._end = ExitStack()
        self._trickle: Trickle | None = None
        self._parking: SessionParking | None = None
        # From `open` on:
        self.session: Session
        self.replicas: Replicas
        self.quarantine: Quarantine

    @property
    def manifest(self) -> Manifest:
        return self.replicas.manifest

    @property
    def leader(self) -> str:
        """A surrogate with a replica, else home if it answers; empty without either."""
        home = self.session.feed(HOME)
        names = self.replicas.names()
        return names[0] if names else HOME if home and home.answers else ""

    @property
    def parked(self) -> bool:
        """Whether home and surrogates are told nothing until somebody uses the service."""
        return self._parking is not None and self._parking.parked

    @property
    def lead(self) -> HeadStart:
        return self.session.lead

    def open(self, found: Sequence[Candidate], accepted: OwnerOverrides) -> None:
        contract, reached, settings = found[0].manifest.contract, self._of.reached, self._settings
        if reached:
            with suppress(UnavailableError):
                reached.want()
        self._on_media = {c.manifest.id for c in found if c.place != HOME}
        self.session = session = Session(
            self._journal() if contract.stateful else Journal(None, None),
            stateful=contract.stateful,
            response_seconds=settings.response_seconds,
            policy=settings.policy,
            read_only=read_only(contract),
            on_quarantine=self._on_quarantine,
            early=contract.adapter in EARLY,
            limit=Limit.parse(settings.provisional),
            trusted=[name for name, peer in settings.surrogates.items() if peer.trusted],
        )
        self._end.callback(session.close)
        journal = session.journal
        manifest = choose([*found], journal, reached) if contract.stateful else found[0].manifest
        if self._sticks.main is None and contract.stateful:
            journal.cut(manifest.operation)
        self._sticks.require_one_history(journal, home=reached is not None)
        if not accepted.log:
            require_sealed(journal, manifest.operation, reached)
        require_all_of_it([*found], manifest, reached, accepted=accepted.part)
        self._require_latest(journal.last, manifest, accepted)
        self._start_replicas(session, manifest)
        self._join_home()
        self._trickle = self._start_trickle() if contract.stateful else None
        self._parking = self._start_parking()

    def open_fronts(self, chosen: Sequence[LocalPort]) -> list[Front]:
        port = only_local(self._service, chosen)
        origin = ServiceOrigin.of(self._service, self._settings.state)
        return [open_front(self.manifest.contract.adapter, self.session, port, origin)]

    def use(self) -> Use:
        tally, under_way = self.session.tally, self.session.operations.under_way
        return Use(tally.answered, under_way, tally.answered_seconds, dict(tally.first_responses))

    def admit(self, surrogate: str, route: Route | None) -> None:
        self.quarantine.forgive(surrogate)

    def plugged(self, stick: Stick) -> None:
        logger.info("%s: the medium at %s counts from now on", self._service, stick.root)
        if stick.newest:
            self._on_media.add(stick.newest.id)

    def on_medium(self, manifest: Manifest) -> bool:
        return manifest.id in self._on_media

    def bring(self, surrogate: str, route: Route, *, use_media: bool, progress: Progress) -> Went:
        if surrogate == HOME:
            return self._come_home()
        return self.replicas.bring_up(
            surrogate, use_media=use_media, route=route, progress=progress
        )

    def _come_home(self) -> Went:
        """Home alone executes, once the others are left."""
        there, feed = list(self.mover.places.values()), self.session.feed(HOME)
        if not there:
            raise StateError(f"{self._service} is at {HOME} already")
        if feed is None or feed.state is not FeedState.JOINED:
            raise UnavailableError(f"{self._service} cannot go home", why="home is out of reach")
        return Went(HOME, there[0].replica, Route.REPLAY, 0.0)

    def others(self, surrogate: str) -> list[str]:
        return [name for name in self.replicas.names() if name != surrogate]

    def drop(self, surrogate: str) -> None:
        self.replicas.drop(surrogate)

    def home_takes_part(self) -> bool:
        feed = self.session.feed(HOME)
        return feed is not None and feed.state not in FINAL

    def status(self) -> dict[str, Any]:
        session, journal, tally = self.session, self.session.journal, self.session.tally
        return {
            "rows": self._rows(),
            "checkpoint_operation": self.manifest.operation,
            "stateful": session.stateful,
            "last_operation": session.last,
            "stable_operation": journal.stable,
            "journal_failure": str(journal.failure) if journal.failure else None,
            "refusal": str(session.refusal) if session.refusal else None,
            "policy": session.policy,
            "provisional": session.provisional.count,
            "provisional_seconds": round(session.provisional.seconds, 1),
            "provisional_limit": str(session.provisional.limit),
            "samples": tally.samples,
            "answered": tally.answered,
            "sent_bytes": tally.sent_bytes,
            "sent_bytes_if_all": tally.sent_bytes_if_all,
            "bytes_per_operation": tally.sent_bytes // max(1, tally.answered),
            "later_responses": tally.later_responses,
            "diverged": tally.diverged,
            "divergences": tally.divergences,
            "quarantined": self.quarantine.status(),
            "refreshed": asdict(self._trickle.brought)
            if self._trickle and self._on_media
            else None,
        }

    def _rows(self) -> dict[str, dict[str, Any]]:
        """A row for each replica that takes part."""
        last = self.session.journal.last
        return {
            feed.name: {
                "state": feed.state.value,
                "operation": feed.cursor,
                "lag": max(0, last - feed.cursor),
                "response_seconds": feed.pace.median(),
                "error": str(feed.error) if feed.error else None,
            }
            for feed in self.session.feeds()
        }

    def settle(self) -> UnsentOperations | None:
        """See Shutdown."""
        self._closing.set()
        opened = hasattr(self, "session")
        return self._of.ending.settle(self.session, self._home) if opened else None

    def close(self) -> None:
        self.settle()
        self._end.close()

    def _start_replicas(self, session: Session, manifest: Manifest) -> None:
        of, settings, service = self._of, self._settings, self._service
        sources = Sources(settings, of.links, self._sticks, session.operations)
        mover = Mover(
            settings,
            service,
            of.links,
            self._home,
            sources,
            stateful=session.stateful,
            early=session.early,
        )
        self.mover = mover
        self.replicas = Replicas(
            settings, service, session, self._home, mover, manifest, (self._changing, self._closing)
        )
        self.planner = self.replicas.planner
        self.quarantine = Quarantine(settings, service, self.replicas, session.journal, self._home)
        self._end.callback(self._of.savings.gained, session.lead)
        self._end.callback(self._note_latest)
        self._end.callback(self._end_beside)
        self._end.callback(self.replicas.close)

    def _end_beside(self) -> None:
        for beside in (self._parking, self._trickle):
            if beside:
                beside.close()

    def _start_trickle(self) -> Trickle | None:
        """Start one if there is a home, for media that have a checkpoint of the service."""
        every = self._settings.media_seconds
        if self._home is None or not every:
            return None
        home, signers = self._home, self._settings.allowed_signers
        return Trickle(
            self.session,
            home,
            self.replicas,
            self._sticks,
            lambda uuid: refresh_folder(self._settings, self._service, uuid),
            lambda media: self._journal_on(media, media.log_path(self._service)),
            self._of.links.get(chunks_link(HOME), self._settings.home, Lane.BULK),
            lambda: newest_at_home(home, signers),
            lambda manifest: self._on_media.add(manifest.id),
            every,
            self._of.power,
        )

    def _start_parking(self) -> SessionParking | None:
        """Start it if there is a home."""
        if self._home is None or not self._settings.park_seconds:
            return None
        bulk = self._of.links.get(chunks_link(HOME), self._settings.home, Lane.BULK)
        return SessionParking(
            self.session, self._home, bulk, self._brings, self._settings.park_seconds
        )

    def _brings(self) -> bool:
        """Whether the medium is to get more of what home has, or a surrogate something of it."""
        due = self._trickle is not None and self._trickle.due
        return due or bool(self.replicas.names()) or self._of.ahead()

    def _on_quarantine(self, divergence: Divergence) -> None:
        self.quarantine.put(divergence)

    def _require_latest(
        self,
        last: OperationNumber,
        manifest: Manifest,
        accepted: OwnerOverrides,
    ) -> None:
        """Note the newest state; without home, refuse an older one."""
        known = self._latest.get(self._service) or NOTHING_SEEN
        if self._of.reached is None and accepted.older != manifest.id:
            require_latest(known, manifest, last, timestamp_now())
            known = replace(known, last=last).with_checkpoint(manifest)
        else:
            known = LastSeen(last).with_checkpoint(manifest)
        self._latest.put(self._service, known)

    def _note_latest(self) -> None:
        """Never fails."""
        try:
            known = self._latest.get(self._service) or NOTHING_SEEN
            known = replace(known, last=self.session.journal.last)
            self._latest.put(self._service, known.with_checkpoint(self.manifest))
        except OSError as error:
            logger.warning("%s: an older state will not be noticed: %s", self._service, error)

    def _journal(self) -> Journal:
        spare = self._settings.data / "log" / self._service
        if self._sticks.main is None:
            return Journal(spare, spare, self._settings.durability)
        return self._journal_on(self._sticks.main.media, spare)

    def _journal_on(self, media: Media, spare: Path) -> Journal:
        path, secret = media.log_path(self._service), media.log_secret(self._service)
        keys = LogKeys(self._settings.state / "log-keys").get(self._service)
        return Journal(path, spare, self._settings.durability, keys, secret)

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
