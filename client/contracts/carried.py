# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session of a carried service from its start to its end: who leads, and who has copies.

Home leads until the person moves to a surrogate that client.toml says is trusted. Every `behind`
seconds what has changed there goes home, and onto the medium when home has signed it. When the
surrogate is lost, home goes on from its newest copy: the streams are reset, and the person is told
which seconds are lost. Without home, the next surrogate goes on from the medium's copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from client.contracts.contract import Contract, Resources, Use
from client.fronts import Front
from client.fronts.origin import ServiceOrigin
from client.fronts.ports import LocalPort, served
from client.fronts.requests import FrontRequests
from client.fronts.tcp import TcpPort
from client.medium.sticks import Stick
from client.moves.handing import Begin, hand_over
from client.moves.mover import Mover, Went
from client.moves.planner import Planner, Standing
from client.moves.routes import Route
from client.moves.sources import Sources, chunks_link
from client.places.home import Home
from client.places.place import AtRest, Place
from client.places.surrogate import Surrogate, SurrogateNotTrusted
from client.platform.activity_gate import ActivityGate
from client.platform.settings import HOME
from client.session.checkpoints import NOTHING, Candidate, OwnerOverrides, newest_at_home
from client.session.shutdown import UnsentOperations
from client.streams.copies import MachineCopies
from client.streams.losses import Loss
from client.streams.outbound import OutboundConnections
from client.streams.resending import send_again
from images import EgressRule, Manifest
from media import SignedManifest
from replay import StreamRelay
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.polling import POLL_SECONDS
from satchel.progress import Progress
from satchel.timestamps import elapsed
from wire import Egress, Lane

logger = logging.getLogger(__name__)

STAY_SECONDS = 60.0
"""After it has gone somewhere it moves nowhere by itself for so long."""

HELD_SECONDS = 1.0
"""How long programs wait at a move, until one has told."""

QUIET_SECONDS = 1.0
"""How long a leader's streams may carry nothing until it is asked for a sign of life."""

HOME_SECONDS = 20.0
"""How long home may be busy, on a host that answers, until it counts as out of reach."""

HUNG_SECONDS = 8.0
"""How long a leader may be silent whose host answers: it may only be busy."""

UNREACHED_SECONDS = 1.5
"""How long nobody may be let in at a leader's host that answers: its sshd may be starting."""

ATTACH_SECONDS = 15.0
"""How long a guest may take to greet over a new carrier, until another one is made."""

AGAIN_SECONDS = 0.1
"""After an attempt to reach a leader's streams, until the next."""

CLAIM_SECONDS = 15.0
SETTLE_SECONDS = 120.0
"""How long home may take to get the last delta of a session."""


class Carried(Contract, Standing):
    """See the module and Contract."""

    name = "carry"

    def __init__(self, resources: Resources) -> None:
        super().__init__(resources)
        self._attention = threading.Event()
        self.relay = StreamRelay(self._service, lambda why: self._attention.set())
        self._settled = False
        self._moving_no_more = threading.Event()
        self.losses: list[Loss] = []
        self._unheard: float | None = None
        self._looked = self._claimed = self._frozen = self._attached_at = time.monotonic()
        self._threads: list[threading.Thread] = []
        self._outgoing: OutboundConnections | None = None
        self._paused = 0.0
        self._held = HELD_SECONDS
        self._led_since = float("-inf")
        self._started = False
        # From `open` on; `_origin` is the signed checkpoint that the leader goes back to.
        self._origin: Manifest
        self._leader: Place

    def open(self, found: Sequence[Candidate], accepted: OwnerOverrides) -> None:
        """Have home lead, and its streams reached. Without home in reach nobody leads, until a
        move to a surrogate, which goes on from the medium's copy."""
        home = self._settings.require_home()
        assert self._of.home is not None
        self._home, links, there = self._of.home, self._of.links, self._of.reached is not None
        bulk = links.get(chunks_link(HOME), home, Lane.BULK)
        in_use = lambda: [self._origin] if isinstance(self._leader, Surrogate) else []  # noqa: E731
        self._copies = MachineCopies(self._settings, self._home, bulk, self._sticks, in_use)
        sources = Sources(self._settings, links, self._sticks, ActivityGate())
        self.mover = Mover(self._settings, self._service, links, self._home, sources)
        self.planner = Planner(self._settings, self._service, self._home, self)
        left = self.mover.left()
        newest = None
        if there:
            if left is None:
                self._home.launch()
            newest = self._newest()
            self._origin = newest.manifest
        else:
            self._origin = self._copies.resting(accepted)
        quiet = lambda: self.relay.counts().quiet_seconds  # noqa: E731
        self._shipping = self._copies.ship(self._origin, quiet)
        self._leader = left or (self._home if there else AtRest(self._home.link))
        if newest:
            self._copies.begin(newest, led_on=left is None)
        self._requests = FrontRequests(self._origin.contract.idempotent, self._safe_until)
        self._started = True
        if not isinstance(self._leader, AtRest):
            self._reach()
        if egress := self._origin.contract.egress:
            self._outgoing = OutboundConnections(self.relay, self._way_out(egress))
        for name, work in (("leader", self._watch), ("copies", self._make_copies)):
            thread = threading.Thread(target=work, name=f"{name} of {self._service}", daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def manifest(self) -> Manifest:
        """The checkpoint that home has signed last."""
        return self._shipping.copy.manifest

    @property
    def behind(self) -> float:
        """Seconds by which copies may be behind."""
        return float(self._origin.contract.behind)

    @property
    def ending(self) -> bool:
        """A move under way ends then."""
        return self._moving_no_more.is_set()

    @property
    def leader(self) -> str:
        """Where the replica is that leads; `medium` while none does."""
        return self._leader.name

    def open_fronts(self, chosen: Sequence[LocalPort]) -> list[Front]:
        ports = self._origin.contract.ports
        origin = ServiceOrigin.of(self._service, self._settings.state)
        return [
            TcpPort(self.relay, one, self._requests, origin)
            for one in served(self._service, ports, chosen)
        ]

    def use(self) -> Use:
        counts = self.relay.counts()
        return Use(counts.turns, counts.open, 0.0, {})

    def admit(self, surrogate: str, route: Route | None) -> None:
        """Raises SurrogateNotTrusted as well."""
        self._require_open()
        if surrogate == self._leader.name:
            raise StateError(f"{self._service} is at {surrogate} already")
        if surrogate != HOME and not self._settings.surrogate(surrogate).trusted:
            raise SurrogateNotTrusted(surrogate, self._service)
        if route and route not in self.routes(silent=True):
            ways = ", ".join(way.value for way in self.routes(silent=True))
            what = f"{self._service} cannot go there by {route.value}"
            raise StateError(what, why=f"{self.leader} leads", fix=f"go by {ways}")

    def held_seconds(self, surrogate: str) -> float | None:
        """To a trusted surrogate, some time after the last move; a copy at rest waits for the
        person."""
        stayed = time.monotonic() - self._led_since
        trusted = self._settings.surrogate(surrogate).trusted
        if stayed < STAY_SECONDS or not trusted or isinstance(self._leader, AtRest):
            return None
        return self._held

    def routes(self, *, silent: bool) -> set[Route]:
        return {self._route(self._leader)}

    @staticmethod
    def _route(leader: Place) -> Route:
        if isinstance(leader, Surrogate):
            return Route.HANDOVER
        return Route.FRESH if leader.name == HOME else Route.REPLAY

    def givers(self, *, silent: bool) -> list[Surrogate]:
        return [self._leader] if isinstance(self._leader, Surrogate) else []

    def plugged(self, stick: Stick) -> None:
        self._copies.plugged(stick)

    def on_medium(self, manifest: Manifest) -> bool:
        there = self._copies.on_medium
        return there is not None and there.id == manifest.id

    def bring(self, surrogate: str, route: Route, *, use_media: bool, progress: Progress) -> Went:
        began = time.monotonic()
        if surrogate == HOME:
            return self._go_home(began)
        if isinstance(self._leader, AtRest):
            return self._go_from_medium(surrogate, began)
        if self._copies.on_medium and self._is_lost_without_home():
            return self._replace_from_medium(surrogate, began)
        return self._go(surrogate, began, use_media=use_media)

    def drop(self, surrogate: str) -> None:
        with self.changing():
            if surrogate != self._leader.name:
                self.mover.end(surrogate)

    def status(self) -> dict[str, Any]:
        counts, safe = self.relay.counts(), self._safe_until()
        rests = isinstance(self._leader, AtRest)
        return {
            "rows": {self.leader: {"state": "rests" if rests else "leads", "operation": None}},
            "behind_seconds": self.behind,
            "copies": self._copies.status(0.0 if rests else elapsed() - safe, rests=rests),
            "deltas": self._shipping.kept,
            "delta_bytes": self._shipping.sent_bytes,
            "delta_paused_seconds": self._paused,
            "delta_failure": self._shipping.failure,
            "streams": dataclasses.asdict(counts),
            "losses": [str(loss) for loss in self.losses],
            "lost_seconds": [round(loss.seconds, 1) for loss in self.losses],
        }

    def settle(self) -> UnsentOperations | None:
        """Bring the service home: what was done at a surrogate is there then. Never fails."""
        self._moving_no_more.set()
        if not self._started:
            return None
        with self.changing():
            if self._settled:
                return None
            self._settled = True
            try:
                self._settle()
            except SatchelError as error:
                logger.error("%s", error)
            self._closing.set()
        return None

    def close(self) -> None:
        self.settle()
        self._closing.set()
        self._attention.set()
        for thread in self._threads:
            thread.join()
        self.relay.close()
        if self._outgoing:
            self._outgoing.close()
        if self._started:
            self._copies.close()

    def _safe_until(self) -> float:
        """Up to when what was answered is not lost with the leader, by `elapsed`."""
        return elapsed() if self._leader.name == HOME else self._shipping.copy.at

    def _way_out(self, egress: EgressRule) -> Callable[[int], socket.socket]:
        """How connections of the guest's go out: here, or at home."""
        return Egress(egress.hosts).connect if egress.at == "client" else self._home.way_out

    def _require_open(self, giver: str = "") -> None:
        if self.ending:
            raise StateError(f"the session of {self._service} has ended")

    def _newest(self) -> SignedManifest:
        return newest_at_home(self._home, self._settings.allowed_signers)

    def _settle(self) -> None:
        """Home leads, and the medium has what home has. Raises where that cannot be: a machine at a
        surrogate is left there then, and the next session goes on with it."""
        if isinstance(self._leader, AtRest):
            return
        if isinstance(self._leader, Surrogate):
            try:
                self._go_home(time.monotonic())
            except SatchelError as error:
                raise UnavailableError(
                    f"{self._service} does not come home, and is left at {self.leader}",
                    why=str(error),
                    fix="the next session continues with it there",
                ) from error
        elif self._copies.on_medium:
            self._copies.take_at_home(led_on=False)
        self._copies.wait_for_medium(SETTLE_SECONDS)

    # Who leads

    def _go(self, surrogate: str, began: float, *, use_media: bool) -> Went:
        leader = self._leader
        made = self.mover.bring(
            surrogate,
            lambda: self._begin(leader),
            self._require_open,
            beside=isinstance(leader, Surrogate),
            standby=True,
            use_media=use_media,
        )
        place, begun, steps = made.place, made.begin.manifest, self.mover.trace.steps()
        try:
            place.look_for_door()
            self._have_home_get(leader, begun)
            steps.done("home gets what it begins with")
            took = hand_over(leader, place, begun.volumes, steps)
            self._held = took["held_seconds"]
        except BaseException:
            self.mover.put_away(place)
            raise
        self._lead(place)
        if leader.name == HOME:
            self._origin = begun
        self.mover.leave(leader)
        return self._went(place, began, asked_seconds=made.begin.seconds, **took)

    def _begin(self, leader: Place) -> Begin:
        """What a replica elsewhere begins with: a freeze of the leader, which goes on."""
        begin = self.planner.begin(self._route(leader), self._origin)
        touched = begin.touched or self._home.touched() if leader.name == HOME else begin.touched
        return dataclasses.replace(begin, touched=touched)

    def _have_home_get(self, leader: Place, begun: Manifest) -> None:
        """What a move begins with is what later deltas are since, so home has to have that very
        state. A home that is out of reach gets it later."""
        if not isinstance(leader, Surrogate):
            self._copies.have(self._newest(), elapsed(), led_on=False)
            return
        if not self._home.answers():
            logger.warning("home has no copy of %s yet: it is out of reach", self._service)
            return
        if self._shipping.wait(SETTLE_SECONDS):
            offered = leader.delta_to(self.manifest.volumes, begun)
            self._shipping.send(offered, leader.fetch(offered), elapsed())
        if not self._shipping.wait(SETTLE_SECONDS):
            logger.warning("home has no copy of %s yet: %s", self._service, self._shipping.failure)

    def _go_from_medium(self, surrogate: str, began: float) -> Went:
        begin = Begin(self._origin)
        made = self.mover.bring(surrogate, lambda: begin, self._require_open)
        self._lead(made.place)
        stalled, fetched = made.status.stalls.seconds, made.status.fetched_bytes
        took = {"held_seconds": time.monotonic() - began, "stalled_seconds": stalled}
        return self._went(made.place, began, fetched_bytes=fetched, **took)

    def _went(self, place: Surrogate, began: float, **took: Any) -> Went:
        seconds = time.monotonic() - began
        return Went(self._leader.name, place.replica, Route.HANDOVER, seconds, **took)

    def _is_lost_without_home(self) -> bool:
        """Whether neither the leader answers nor home, which would go on in its place."""
        return self._leader.name != HOME and not self._leader.lives() and not self._home.answers()

    def _replace_from_medium(self, surrogate: str, began: float) -> Went:
        """A leader is lost, and the person says where to go on without home. What home has not
        signed is lost. Raises StateOlder where the medium lacks what home has."""
        copy = self._copies.resting(NOTHING)
        made: list[Went] = []

        def lead() -> None:
            self._origin = copy
            made.append(self._go_from_medium(surrogate, began))

        self._replace(surrogate, "nothing answers there, and home neither", lead)
        return made[0]

    def _go_home(self, began: float) -> Went:
        leader = self._leader
        if isinstance(leader, AtRest) or not self._home.answers_within(HOME_SECONDS):
            raise UnavailableError(f"{self._service} cannot go home", why="home is out of reach")
        assert isinstance(leader, Surrogate)
        if self._shipping.wait(SETTLE_SECONDS):
            self._copy()
        if not self._shipping.wait(SETTLE_SECONDS):
            why = self._shipping.failure or "it takes too long"
            raise UnavailableError("home cannot be brought up to date", why=why)
        held, at = time.monotonic(), elapsed()
        offered = leader.delta(self.manifest.volumes, hold=True)
        try:
            data = offered.data or leader.fetch(offered)
            kept = self._shipping.kept
            self._shipping.send(offered, data, at)
            if not self._shipping.wait(SETTLE_SECONDS) or self._shipping.kept == kept:
                why = self._shipping.failure or "it takes too long"
                raise UnavailableError("home does not get the last delta", why=why)
            self._home.relaunch()
        except BaseException:
            leader.go_on()
            raise
        took = time.monotonic() - held
        self._copies.have(self._newest(), elapsed(), led_on=not self._settled)
        self._origin = self.manifest
        self._lead(self._home)
        self.mover.leave(leader)
        sizes, paused = (offered.offer.size,), offered.offer.paused_seconds
        times = {"held_seconds": took, "paused_seconds": paused}
        return self._went(leader, began, deltas=sizes, **times)

    def _lead(self, place: Place) -> None:
        self._leader, self._unheard = place, None
        self._frozen = self._led_since = time.monotonic()
        try:
            self._reach()
        except SatchelError as error:
            logger.warning("%s", error)
            self._attention.set()

    def _reach(self) -> None:
        """Have the streams go to who leads."""
        self._attached_at = time.monotonic()
        self.relay.attach(self._leader.carrier())

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._attention.wait(POLL_SECONDS)
            self._attention.clear()
            if self._closing.is_set() or not self._changing.acquire(blocking=False):
                continue
            try:
                self._look()
            except SatchelError as error:
                logger.info("%s", error)
            finally:
                self._changing.release()
            self.mover.tidy()
            self._closing.wait(AGAIN_SECONDS)

    def _look(self) -> None:
        """See whether the leader is there, and whether its streams are reached."""
        now, counts = time.monotonic(), self.relay.counts()
        if isinstance(self._leader, AtRest):
            self._look_for_home()
            return
        if now - self._claimed > CLAIM_SECONDS:
            self._claimed = now
            self._home.link.want()
            with contextlib.suppress(UnavailableError):
                self._home.claim()
        if counts.attached and counts.quiet_seconds < QUIET_SECONDS:
            self._unheard = None
            return
        if counts.attached and now - self._looked < QUIET_SECONDS:
            return
        self._looked = now
        lives = self._leader.lives()
        if lives:
            self._unheard = None
            waits = counts.carried and now - self._attached_at < ATTACH_SECONDS
            if not counts.attached and not waits:
                self._reach()
            return
        self._unheard = self._unheard or now
        self._judge(lives, now - self._unheard)

    def _judge(self, lives: bool | None, silent_seconds: float) -> None:
        """A leader said that it cannot go on (False), or nothing for so long."""
        if self._leader.name == HOME:
            self._leader.link.connect()
            if lives is False:
                self._home.launch()
            self._reach()
            return
        if lives is False:
            self._fall_back("its machine cannot continue")
        elif not self._leader.link.answers():
            self._fall_back("nothing answers there")
        elif silent_seconds > HUNG_SECONDS:
            self._fall_back(f"it says nothing for {silent_seconds:.0f} s")
        else:
            try:
                self._leader.link.connect()
            except UnavailableError as error:
                if silent_seconds < UNREACHED_SECONDS:
                    raise
                self._fall_back(str(error))

    def _fall_back(self, why: str) -> None:
        """Home goes on from its newest copy; not while home is out of reach as well."""
        if not self._home.answers():
            self._home.link.want()
            return

        def lead() -> None:
            self._home.relaunch()
            newest = self._newest()
            self._origin = newest.manifest
            self._copies.have(newest, elapsed(), led_on=True)
            self._lead(self._home)

        self._replace(HOME, why, lead)

    def _replace(self, successor: str, why: str, lead: Callable[[], None]) -> None:
        """The leader is lost: another one goes on from the newest copy. Tell what is lost."""
        began, lost, leader = time.monotonic(), elapsed(), self._leader
        self._shipping.drop()
        copied = self._shipping.copy.at
        self.relay.begin_anew()
        requests = self._requests.lost(copied)
        lead()
        loss = Loss.of(
            leader.name,
            copied,
            lost,
            requests,
            why=why,
            after_seconds=time.monotonic() - began,
            successor=successor,
        )
        send_again(self.relay, requests.again)
        self.losses.append(loss)
        logger.error("%s", loss)
        self.mover.leave(leader)

    def _look_for_home(self) -> None:
        """Nobody leads yet. Home does, once it is there."""
        if not self._home.answers():
            self._home.link.want()
            return
        self._home.claim()
        self._home.launch()
        newest = self._newest()
        self._origin = newest.manifest
        self._copies.have(newest, elapsed(), led_on=True)
        self._lead(self._home)

    # Copies

    def _make_copies(self) -> None:
        while not self._closing.wait(POLL_SECONDS):
            if time.monotonic() - self._frozen < self.behind:
                continue
            with self._changing:
                leads_home = isinstance(self._leader, Home)
                if self.ending or self._shipping.waiting or isinstance(self._leader, AtRest):
                    continue
                if leads_home and not self._copies.on_medium:
                    continue
                try:
                    if leads_home:
                        self._frozen = time.monotonic()
                        self._copies.take_at_home(led_on=True)
                    else:
                        self._copy()
                except SatchelError as error:
                    self._frozen = time.monotonic()
                    logger.warning("no copy of %s: %s", self._service, error)

    def _copy(self) -> None:
        """Have home get what has changed since its copy. Nothing is on its way there."""
        self._frozen, at = time.monotonic(), elapsed()
        offered = self._leader.delta(self.manifest.volumes)
        self._paused = offered.offer.paused_seconds
        self._shipping.send(offered, self._leader.fetch(offered), at)
