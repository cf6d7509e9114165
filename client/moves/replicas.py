# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The replicas of a replayed service at surrogates: how one comes to take part, and leaves.

One that the mover has made gets its cursor into the journal, and catches up. One that was handed
over takes part when it needs its giver no more. A failure leaves nothing behind, here or there.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from client.moves.handing import Begin
from client.moves.mover import AWAIT_INDEPENDENT, AWAIT_JOINED, Made, Mover, Went
from client.moves.planner import Planner, ReplayedStanding
from client.moves.routes import Route
from client.places.home import Home
from client.places.surrogate import Surrogate
from client.platform.settings import ClientSettings
from client.session.feed import FINAL
from client.session.joining import Standstill, await_joined
from client.session.session import Session
from images import Manifest, blob_root
from satchel.errors import ConflictError, IntegrityError, StateError, UnavailableError
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent
from wire import ReplicaStatus

logger = logging.getLogger(__name__)

INDEPENDENCE_POLL_SECONDS = 0.1


class Replicas:
    """See the module. Thread-safe.

    manifest: the checkpoint that they are resumed from
    without_media: the surrogates whose replica was brought up from home alone
    """

    def __init__(
        self,
        settings: ClientSettings,
        service: str,
        session: Session,
        home: Home | None,
        mover: Mover,
        manifest: Manifest,
        held: tuple[threading.RLock, threading.Event],
    ) -> None:
        """held: the lock over a change; an event, set when no more are brought up"""
        self.manifest = manifest
        self.mover = mover
        now = ReplayedStanding(session, mover.places)
        self.planner = Planner(settings, service, home, now)
        self.without_media: set[str] = set()
        self._service = service
        self._session = session
        self._begun: dict[str, Manifest] = {}
        self._changing, self._closing = held

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold both locks over a change of the replicas, or of the checkpoint they begin with."""
        with self.mover.turn(), self._changing:
            yield

    @property
    def closing(self) -> bool:
        """Whether no more are brought up."""
        return self._closing.is_set()

    def close(self) -> None:
        """End all. Never fails."""
        with self.changing():
            for name in self.names():
                self.drop(name)

    def names(self) -> list[str]:
        """The surrogates where one is, or is being brought up."""
        return list(self.mover.places)

    def in_use(self) -> list[Manifest]:
        """The signed checkpoints that the replicas there go back to."""
        return list(self._begun.values())

    def at(self, surrogate: str) -> Surrogate | None:
        """The one there, if there is one."""
        return self.mover.places.get(surrogate)

    def bring_up(
        self,
        surrogate: str,
        *,
        use_media: bool = True,
        route: Route = Route.REPLAY,
        progress: Progress = silent,
    ) -> Went:
        """Resume a replica on a surrogate and let it catch up; returns when it has joined.

        progress: told how much has come, in bytes, of what only the giver of a hand-over has, once
        nothing else is waited for. Raises as `Mover.bring`, ConflictError when one takes part there
        already, StateError when nobody can hand it over, and IntegrityError when it cannot be where
        it says that it is.
        """
        with self.changing():
            self._make_room(surrogate)
            (self.without_media.discard if use_media else self.without_media.add)(surrogate)
            try:
                made = self.mover.bring(
                    surrogate,
                    partial(self._begin, surrogate, route),
                    self._still_wanted,
                    beside=route is Route.HANDOVER,
                    use_media=use_media,
                )
                return self._join(made, route, progress)
            except BaseException:
                self.drop(surrogate)
                raise

    def drop(self, surrogate: str) -> None:
        """End the replica on a surrogate and the link to it. Never fails: it may be gone."""
        with self.changing():
            if feed := self._session.feed(surrogate):
                feed.end()
            self.end(surrogate)
            self._session.drop(surrogate)

    def end(self, surrogate: str) -> None:
        """End the replica there, if there is one; what it was to the session stays."""
        self._begun.pop(surrogate, None)
        self.mover.end(surrogate)

    def _begin(self, surrogate: str, route: Route) -> Begin:
        """A hand-over is asked for while the links are made: one that nobody takes changes nothing.
        A checkpoint of home's would be another one to begin from, for no move."""
        begin = self.planner.begin(route, self.manifest)
        if route is Route.FRESH:
            self.manifest = begin.manifest
        giver = begin.giver.name if begin.giver else ""
        self._begun[surrogate] = self._begun.get(giver, self.manifest)
        return begin

    def _make_room(self, surrogate: str) -> None:
        """A lost replica gives way to a new one at the same place; one that takes part does not."""
        if surrogate in self.mover.places:
            feed = self._session.feed(surrogate)
            if feed and feed.state not in FINAL:
                raise ConflictError(
                    f"{self._service} has a replica at {surrogate} already",
                    why=f"it is {feed.state.value}",
                )
            self.drop(surrogate)

    def _join(self, made: Made, route: Route, progress: Progress) -> Went:
        place, begin, steps = made.place, made.begin, self.mover.trace.steps()
        giver = begin.giver.name if begin.giver else ""
        running, stateful = time.monotonic() - made.began, self._session.stateful
        cursor = self._cursor(made.status) if stateful else self._session.journal.base
        feed = self._session.add(place, cursor)
        await_joined(feed, lambda: self._still_wanted(giver))
        steps.done(AWAIT_JOINED)
        caught_up = time.monotonic() - made.began
        replayed = self._session.journal.last - cursor if stateful else 0
        each = feed.catch_up.seconds_each()
        if giver:
            self._await_independent(place, giver, _changed_bytes(begin), progress)
            steps.done(AWAIT_INDEPENDENT)
        return Went(
            surrogate=place.name,
            replica=place.replica,
            route=route,
            seconds=time.monotonic() - made.began,
            running_seconds=running,
            fetched_bytes=_fetched(place, made.status),
            replayed=replayed,
            asked_seconds=begin.seconds,
            paused_seconds=begin.paused_seconds,
            replay_seconds=min(caught_up - running, replayed * each if each else math.inf),
        )

    def _cursor(self, status: ReplicaStatus) -> OperationNumber:
        """Where a replica is. Raises IntegrityError where it cannot be there."""
        number, last = status.last_operation, self._session.journal.last
        if number > last:
            what = f"replica {status.replica} says that it has executed operation {number}"
            raise IntegrityError(what, why=f"the last one is {last}")
        return number

    def _await_independent(
        self, place: Surrogate, giver: str, size: int, progress: Progress
    ) -> None:
        """Until a replica that was handed over needs the surrogate no more that did so."""
        standstill = Standstill()
        while not (status := place.status()).independent:
            progress(min(status.fetched_bytes.get(giver, 0), size), size)
            self._still_wanted(giver)
            if standstill.at(status.fetched_bytes):
                what = f"the replica at {place.name} still needs {giver}"
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


def _fetched(place: Surrogate, before: ReplicaStatus) -> dict[str, int]:
    """By source, now, or as it was before where the surrogate is gone already: a replica that has
    joined and is lost is the session's affair, and no reason to end it."""
    try:
        return place.status().fetched_bytes
    except UnavailableError:
        return before.fetched_bytes
