# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The strategy of a session: which places execute, and how programs reach them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from client.fronts import Front
from client.fronts.ports import LocalPort
from client.medium.sticks import NamedMedia, Stick, Sticks
from client.moves.mover import Mover, Went
from client.moves.planner import Planner
from client.moves.routes import Route
from client.places.here import SurrogatesHere
from client.places.home import Home
from client.platform.power import Power
from client.platform.settings import ClientSettings
from client.session.checkpoints import Candidate, OwnerOverrides
from client.session.shutdown import Shutdown, UnsentOperations
from client.state.savings import HeadStart, Savings
from images import Manifest
from satchel.progress import Progress
from wire import Links


class Resources:
    """Links, media and home of a session, for its contract.

    sticks: opened by the session; home: where one is configured, and `reached` where it
    answered at the beginning; ahead: whether something is brought to a surrogate beforehand
    """

    def __init__(self, settings: ClientSettings, service: str, media: NamedMedia) -> None:
        self.settings, self.service = settings, service
        self.sticks = Sticks(settings, service, media)
        self.here = SurrogatesHere(settings, settings.run / f"{service}.here")
        self.links = Links(settings.run / "l" / service, reached=self.here.reached)
        self.power = Power(settings.later_waits)
        self.ending = Shutdown(service)
        self.savings = Savings.of(settings.state, service)
        self.home: Home | None = None
        self.reached: Home | None = None
        self.ahead: Callable[[], bool] = lambda: False

    def close(self) -> None:
        """Give the lease back, close links and media."""
        if self.home:
            self.ending.release(self.home)
        self.power.close()
        self.links.close()
        self.sticks.close()


@dataclass(frozen=True)
class Use:
    """The use of a service so far. exchanges: operations answered, or turns of streams; under_way:
    those that continue; seconds: of all answered ones; firsts: first answers by replica."""

    exchanges: int
    under_way: int
    seconds: float
    firsts: dict[str, int]


class Contract(Protocol):
    """A contract of one session. Thread-safe. `open` is called once, before everything else.

    mover, planner: from `open` on; lead: the head start that surrogates gave, if counted
    """

    name: str
    mover: Mover
    planner: Planner
    _of: Resources
    _settings: ClientSettings
    _service: str
    _sticks: Sticks
    _closing: threading.Event
    _changing: threading.RLock  # over a change of replicas

    def __init__(self, resources: Resources) -> None:
        self._of = resources
        self._settings, self._service = resources.settings, resources.service
        self._sticks = resources.sticks
        self._closing = threading.Event()
        self._changing = threading.RLock()

    def open(self, found: Sequence[Candidate], accepted: OwnerOverrides) -> None:
        """Choose the checkpoint to go on from, and let home take part. Raises as
        client.session.checkpoints, and what home raises; `close` is due all the same."""

    def plugged(self, stick: Stick) -> None:
        """A medium came, or came back. Returns soon; never fails."""

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold both locks over a change of replicas: the mover's turn, then the contract's."""
        with self.mover.turn(), self._changing:
            yield

    @property
    def ending(self) -> bool:
        """Whether the session ends."""
        return self._closing.is_set()

    @property
    def manifest(self) -> Manifest:
        """The checkpoint that new replicas begin with."""

    @property
    def leader(self) -> str:
        """The place that executes now: a surrogate, home, or `medium` for a copy at rest."""

    @property
    def parked(self) -> bool:
        """Whether the session sends nothing until a program uses the service."""
        return False

    @property
    def lead(self) -> HeadStart | None:
        return None

    def open_fronts(self, chosen: Sequence[LocalPort]) -> list[Front]:
        """Listen for programs. Raises ConflictError, UsageError, UnsupportedError."""

    def use(self) -> Use:
        """How much the service was used."""

    def admit(self, surrogate: str, route: Route | None) -> None:
        """Allow a move there, by that route if one was chosen. Raises StateError and
        AccessError where that cannot be."""

    def held_seconds(self, surrogate: str) -> float | None:
        """Seconds that programs would wait while a session moves there by itself; None if it may
        not do so now."""
        return 0.0

    def on_medium(self, manifest: Manifest) -> bool:
        """Whether the medium has that checkpoint."""

    def bring(self, surrogate: str, route: Route, *, use_media: bool, progress: Progress) -> Went:
        """Have a replica there take part, within `changing`. The replicas that took part before
        execute until this returns, and also if it raises."""

    def others(self, surrogate: str) -> list[str]:
        """The surrogates that are to be left once a replica there takes part."""
        return []

    def drop(self, surrogate: str) -> None:
        """End the replica there. Never fails: it may be gone."""

    def home_takes_part(self) -> bool:
        """Whether home's machine executes as well."""
        return True

    def status(self) -> dict[str, Any]:
        """The part of a session's status that depends on the contract."""

    def settle(self) -> UnsentOperations | None:
        """Accept nothing more; return the operations that home lacks."""

    def close(self) -> None:
        """End all that it began. Never fails."""
