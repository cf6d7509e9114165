# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a session knows when it plans a move: see client.moves.routes for what follows from it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from client.moves.handing import Begin, begin_at, begin_at_home
from client.moves.history import History
from client.moves.mover import Went
from client.moves.routes import (
    CACHE,
    MoveRecord,
    Prediction,
    Route,
    Situation,
    break_even,
    predict,
    replay_pace,
    was_there,
)
from client.places.home import Home
from client.places.surrogate import Surrogate
from client.platform.settings import HOME, ClientSettings
from client.session.feed import FINAL, Feed, FeedState
from client.session.journal import Journal
from client.session.session import Session
from images import Manifest
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.timestamps import timestamp_now

logger = logging.getLogger(__name__)

GIVER_SECONDS = 2.0
"""How long planning waits for a surrogate that may be a giver: after a walk its link takes a second
to stand again. One that takes longer is no good giver: the person may be out of its reach."""

ASKED_GIVER_SECONDS = 20.0
"""The same where a hand-over was asked for."""

HANDOVER_POLL_SECONDS = 0.1

CHANGED_BLOCK_BYTES = 1200
"""What a changed block takes in a hand-over, compressed with its like."""


@dataclass(frozen=True)
class Plan:
    """The routes to a replica on a surrogate, the fastest first. break_even: see routes;
    stay: what an operation takes without a move, in seconds, by replica, the fastest first."""

    surrogate: str
    situation: Situation
    routes: list[Prediction]
    break_even: int | None = None
    stay: dict[str, float] = field(default_factory=dict)
    checkpoint: str = ""

    def of(self, route: Route | None) -> Prediction | None:
        """The prediction for that route, None where it is none; by default the fastest."""
        return next((p for p in self.routes if route in (None, p.route)), None)

    def to_json(self) -> dict[str, Any]:
        """For `satchel plan`."""
        return {
            "surrogate": self.surrogate,
            "operations": self.situation.replayed,
            "seconds_per_operation": self.situation.pace,
            "routes": [asdict(p) | {"route": p.route.value} for p in self.routes],
            "break_even_operations": self.break_even,
            "stay": self.stay,
        }


class Standing:
    """The replicas that take part in a service now, and the work of one elsewhere.

    journal: of a replayed service, or None; stateful: whether its operations follow each other
    """

    journal: Journal | None = None
    stateful = True

    def routes(self, *, silent: bool) -> set[Route]:
        """The possible routes. silent: also those whose giver is silent."""
        raise NotImplementedError

    def givers(self, *, silent: bool) -> list[Surrogate]:
        """The replicas on surrogates that can be handed over, the furthest first. silent: also
        those that are silent, as after a walk. They may be out of reach, so only a move by
        hand-over waits for them."""
        raise NotImplementedError

    def replayed(self, checkpoint: Manifest) -> int:
        """Operations that a replica of that checkpoint would execute again."""
        return 0

    def paces(self) -> dict[str, float]:
        """See Plan.stay."""
        return {}

    def first_read(self, surrogate: str) -> Future[float] | None:
        """The seconds of the first read of a stateless service's replica there."""
        return None


class ReplayedStanding(Standing):
    """The replicas of a replayed service. surrogates: those that have one"""

    def __init__(self, session: Session, surrogates: Mapping[str, Surrogate]) -> None:
        self._session = session
        self._surrogates = surrogates
        self.journal, self.stateful = session.journal, session.stateful

    def routes(self, *, silent: bool) -> set[Route]:
        feed = self._session.feed(HOME) if self.stateful else None
        fresh = feed is not None and _takes_part(feed, silent=silent)
        return {Route.REPLAY, Route.HANDOVER} | ({Route.FRESH} if fresh else set())

    def givers(self, *, silent: bool) -> list[Surrogate]:
        """The ones that have joined."""
        if not self.stateful:
            return []
        there = dict(self._surrogates)  # one may be ended meanwhile
        feeds = [self._session.feed(name) for name in there]
        joined = [f for f in feeds if f and _takes_part(f, silent=silent)]
        return [there[f.name] for f in sorted(joined, key=lambda feed: -feed.cursor)]

    def replayed(self, checkpoint: Manifest) -> int:
        return max(0, self._session.last - checkpoint.operation) if self.stateful else 0

    def paces(self) -> dict[str, float]:
        joined = [f for f in self._session.feeds() if f.state is FeedState.JOINED]
        paces = {feed.name: pace for feed in joined if (pace := feed.pace.median()) is not None}
        return dict(sorted(paces.items(), key=lambda item: item[1]))

    def first_read(self, surrogate: str) -> Future[float] | None:
        feed = self._session.feed(surrogate)
        return feed.first_read if feed else None


class Planner:
    """Of one session. Thread-safe."""

    def __init__(
        self, settings: ClientSettings, service: str, home: Home | None, now: Standing
    ) -> None:
        self._settings = settings
        self._service = service
        self._home = home
        self._now = now
        self._history = History.of(settings.state, service)
        self._refused: set[str] = set()
        self._fresh = ""

    def refuse_hand_overs(self, surrogate: str) -> None:
        """Plan no hand-over from that surrogate in this session."""
        self._refused.add(surrogate)

    def plan(
        self, surrogate: str, checkpoint: Manifest, *, media: bool, route: Route | None = None
    ) -> Plan:
        """media: whether they have the checkpoint and may be used; route: the only one that
        matters, by default all do.

        Asks another surrogate where a hand-over matters. Raises NotFoundError for an unknown one.
        """
        self._settings.surrogate(surrogate)
        givers = self._givers(silent=route is Route.HANDOVER)
        others = [g for g in givers if g.name != surrogate]
        giver = others[0] if others and route in (None, Route.HANDOVER) else None
        made, of_others = self._history.moves(), self._history.of_others()
        patience = ASKED_GIVER_SECONDS if route else GIVER_SECONDS
        changed = _changed(giver, patience) if giver else None
        possible = self._now.routes(silent=route is Route.FRESH)
        now = self._situation(
            surrogate,
            checkpoint,
            made,
            media=media,
            home=Route.FRESH in possible,
            giver=giver,
            changed=changed,
        )
        routes = predict(now, surrogate, made, of_others)
        least = break_even(now, surrogate, made, of_others)
        routes = [p for p in routes if p.route in possible and route in (None, p.route)]
        return Plan(surrogate, now, routes, least, self._now.paces(), checkpoint.id)

    def begin(self, route: Route, checkpoint: Manifest) -> Begin:
        """Have what a route begins with. Raises StateError where there is no such route, and what
        whoever is asked raises."""
        if route is Route.REPLAY:
            return Begin(checkpoint)
        if route is Route.HANDOVER and (givers := self._givers(silent=True)):
            return begin_at(givers[0], checkpoint, self._now.journal)
        if route is Route.FRESH and self._home and self._now.stateful:
            begin = begin_at_home(self._home, self._settings.allowed_signers)
            self._fresh = begin.manifest.id
            return begin
        needs = {
            Route.HANDOVER: "no surrogate that may hand over has a replica that takes part and "
            "keeps state",
            Route.FRESH: "it needs home, and a service that keeps state",
        }
        what = f"{self._service} cannot go there by {route.value}"
        raise StateError(what, why=needs[route], fix=f"go by {Route.REPLAY.value}")

    def note(self, plan: Plan, prediction: Prediction, went: Went) -> None:
        """Remember a move. One of a stateless service has read nothing by then: it is remembered
        when it has, with the seconds that the first read takes."""
        stateful = self._now.stateful
        made = MoveRecord(
            at=timestamp_now(),
            surrogate=plan.surrogate,
            checkpoint=self._fresh if prediction.route is Route.FRESH else plan.checkpoint,
            route=prediction.route,
            near=HOME if prediction.route is Route.FRESH else plan.situation.near,
            bytes=sum(prediction.bytes.values()),
            asked_seconds=went.asked_seconds,
            replayed=went.replayed if stateful else 1,
            replay_seconds=went.replay_seconds if stateful else 0.0,
            seconds=went.seconds,
            predicted=prediction.seconds,
        )
        if stateful:
            self._history.add(made)
        elif first := self._now.first_read(plan.surrogate):
            first.add_done_callback(
                lambda read: self._history.add(replace(made, seconds=went.seconds + read.result()))
            )

    def _situation(
        self,
        surrogate: str,
        checkpoint: Manifest,
        made: Sequence[MoveRecord],
        *,
        media: bool,
        home: bool,
        giver: Surrogate | None,
        changed: int | None,
    ) -> Situation:
        replaying = replay_pace(made)
        near = "media" if media else HOME
        if was_there(surrogate, checkpoint.id, made):
            near = CACHE
        return Situation(
            replayed=self._now.replayed(checkpoint),
            pace=replaying or min(self._now.paces().values(), default=None),
            first=sum(root.size for root in checkpoint.first_roots()),
            changed=changed,
            home=home,
            near=near,
            giver=giver.name if giver else "",
            answers=not self._now.stateful,
        )

    def _givers(self, *, silent: bool) -> list[Surrogate]:
        found = self._now.givers(silent=silent)
        return [giver for giver in found if giver.name not in self._refused]


def _takes_part(feed: Feed, *, silent: bool) -> bool:
    """Whether that replica has joined. silent: and also while nothing is heard of it."""
    if feed.state in FINAL:
        return False
    return feed.state is FeedState.JOINED or (silent and feed.joined.is_set())


def _changed(giver: Surrogate, patience: float) -> int | None:
    """Bytes that it would have to hand over; None where it does not answer in so many seconds."""
    deadline = time.monotonic() + patience
    while True:
        try:
            volumes = giver.status(
                timeout=max(HANDOVER_POLL_SECONDS, deadline - time.monotonic())
            ).volumes
            break
        except UnavailableError as error:
            if time.monotonic() > deadline:
                logger.info("%s hands nothing over: %s", giver.name, error)
                return None
            time.sleep(HANDOVER_POLL_SECONDS)
        except SatchelError as error:
            logger.info("%s hands nothing over: %s", giver.name, error)
            return None
    return sum(part.dirty for volume in volumes for part in volume.parts) * CHANGED_BLOCK_BYTES
