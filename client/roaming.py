# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session goes along with its person: it notices a surrogate that is near, and moves there.

Every few seconds, and when this device has another route, it looks how far home and each known
surrogate are. A surrogate is worth a move if what it saves of each operation, over the operations
to be expected, is more than the least gain, and the move fetches no more bytes than the owner
allows. The old replica is ended when the new one has joined, as by `satchel move`.

By the policy `known` that happens by itself; by `ask` it is only said, and by `off` nobody looks.
Only surrogates that client.toml names are moved to: others have to be paired with first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from client.moves.routes import Prediction
from client.platform.settings import HOME
from client.platform.signal_quality import SignalQuality, signal_dbm
from client.service import ServiceSession
from satchel.errors import SatchelError
from wire import Peer, RouteWatch, round_trip

logger = logging.getLogger(__name__)

SCAN_SECONDS = 3.0

AGAIN_SECONDS = 30.0
"""How long a surrogate where a move failed is left alone."""

HORIZON_SECONDS = 600.0
"""For how long a person is expected to stay."""

EXPECTED_OPERATIONS = 60
"""In that time, of a session that has not had more so far."""

LEAST_GAIN_SECONDS = 0.5
"""What a move has to save in all that time."""

LEAST_SAVED_SECONDS = 0.004
"""And of each operation: less is the noise of two hosts that are equally far."""

AT_ONCE = 8


@dataclass(frozen=True)
class MoveOffer:
    """A surrogate that is worth a move. saved_seconds: of each operation; bytes: that the move is
    going to fetch; seconds: that it is going to take."""

    surrogate: str
    saved_seconds: float
    bytes: int
    seconds: float


def expected_operations(answered: int, seconds: float) -> float:
    """How many there will be within the horizon, after so many in so many seconds."""
    return max(EXPECTED_OPERATIONS, HORIZON_SECONDS * answered / max(seconds, HORIZON_SECONDS))


def worth(
    surrogate: str,
    *,
    here: float | None,
    there: float,
    operations: float,
    route: Prediction,
    allowed: int,
    held: float = 0.0,
) -> MoveOffer | None:
    """The offer, or None for what is not worth it.

    here, there: round trips in seconds to who answers now, and to the surrogate; here is None
    where nobody answers, and then any surrogate is worth it. allowed: bytes; held: seconds for
    which programs wait meanwhile
    """
    fetched = sum(route.bytes.values())
    saved = HORIZON_SECONDS if here is None else here - there
    if fetched > allowed or route.seconds > HORIZON_SECONDS:
        return None
    if saved < LEAST_SAVED_SECONDS or saved * operations < LEAST_GAIN_SECONDS + held:
        return None
    return MoveOffer(surrogate, saved, fetched, route.seconds)


class RoamingAgent:
    """Of one session that has started. `start`, then `close`; its thread moves the session."""

    def __init__(self, session: ServiceSession, tell: Callable[[str], None]) -> None:
        """tell: told in one line, for the person, what is offered or done; returns soon"""
        self._session = session
        self._tell = tell
        self._settings = session.settings
        self._began = time.monotonic()
        self._closing, self._attention = threading.Event(), threading.Event()
        self._failed: dict[str, float] = {}
        self._receptions: dict[str, SignalQuality] = {}
        self._offered: str | None = None
        self._gone_ahead: str | None = None
        self._thread = threading.Thread(target=self._run, name="roaming")
        self._routes: RouteWatch | None = None

    def start(self) -> None:
        """Look from now on, unless the policy is `off` or nobody is known."""
        if self._settings.auto != "off" and self._settings.surrogates:
            self._routes = RouteWatch(self._attention.set)
            self._thread.start()

    def close(self) -> None:
        """Move no more. A move that is under way ends first: close the runner's replicas before."""
        self._closing.set()
        self._attention.set()
        if self._routes:
            self._routes.close()
            self._thread.join()

    def _run(self) -> None:
        called = False
        while not self._closing.is_set():
            try:
                if called or not self._session.parked:
                    self._look()
            except SatchelError as error:
                if self._session.ending:
                    return
                logger.info("roaming: %s", error)
            called = self._attention.wait(SCAN_SECONDS)
            self._attention.clear()

    def _look(self) -> None:
        trips = self._round_trips()
        here = self._here()
        if here:
            reception = self._receptions.setdefault(here, SignalQuality())
            if why := reception.leaving(trips.get(here), signal_dbm()):
                self._leave(here, why, trips)
        offer = self._best(here, trips)
        if offer is None:
            self._offered = None
        elif self._settings.auto == "ask":
            self._ask(offer)
        else:
            self._move(offer)

    def _round_trips(self) -> dict[str, float | None]:
        reached, known = self._session.here.reached, self._settings.surrogates
        peers: dict[str, Peer] = {name: reached(peer) for name, peer in known.items()}
        if self._settings.home.destination:
            peers[HOME] = self._settings.home
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip(peers, pool.map(_round_trip, peers.values()), strict=True))

    def _here(self) -> str | None:
        """The surrogate with a replica, if there is one."""
        there = set(self._settings.surrogates) - set(self._session.elsewhere())
        return min(there, default=None)

    def _best(self, here: str | None, trips: Mapping[str, float | None]) -> MoveOffer | None:
        """The nearest that is worth it."""
        now = trips.get(here) if here else None
        now = trips.get(HOME) if now is None else now
        exchanges, seconds = self._session.contract.use().exchanges, time.monotonic() - self._began
        operations = expected_operations(exchanges, seconds)
        for name, there in _nearest(trips, here):
            if time.monotonic() - self._failed.get(name, float("-inf")) < AGAIN_SECONDS:
                continue
            held = self._session.contract.held_seconds(name)
            route = None if held is None else self._session.plan(name).of(None)
            if held is None or route is None:
                continue
            found = worth(
                name,
                here=now,
                there=there,
                operations=operations,
                route=route,
                allowed=self._settings.auto_mib << 20,
                held=held,
            )
            if found:
                return found
        return None

    def _ask(self, offer: MoveOffer) -> None:
        if offer.surrogate != self._offered:
            self._offered = offer.surrogate
            command = f"satchel move {self._session.service} --to {offer.surrogate}"
            self._tell(f"{_said(offer)}: `{command}`")

    def _move(self, offer: MoveOffer) -> None:
        self._tell(f"going there: {_said(offer)}")
        try:
            brought = self._session.move(offer.surrogate)
        except SatchelError as error:
            self._failed[offer.surrogate] = time.monotonic()
            if not self._session.ending:
                self._tell(f"{offer.surrogate} is no good now: {error}")
            return
        self._gone_ahead = None
        self._tell(f"{offer.surrogate} answers, after {brought.seconds:.1f} s")

    def _leave(self, here: str, why: str, trips: Mapping[str, float | None]) -> None:
        """What is needed goes ahead to the next place, once for each stay."""
        if self._gone_ahead == here:
            return
        self._gone_ahead = here
        others = [name for name, _ in _nearest(trips, here)]
        ahead = self._session.go_ahead(here, others[0] if others else None)
        self._tell(f"leaving {here}: {why}" + (f"; {ahead} gets what is needed" if ahead else ""))


def roaming_told(service: str) -> Callable[[str], None]:
    """For a session's log, which a person at a terminal sees."""
    return lambda line: logger.info("%s: %s", service, line)


def _nearest(trips: Mapping[str, float | None], here: str | None) -> list[tuple[str, float]]:
    """Surrogates other than this one that answer, the nearest first."""
    found = {name: trip for name, trip in trips.items() if trip is not None}
    others = [(name, trip) for name, trip in found.items() if name not in (here, HOME)]
    return sorted(others, key=lambda each: each[1])


def _said(offer: MoveOffer) -> str:
    saves = f"{1000 * offer.saved_seconds:.0f} ms of each operation"
    if offer.saved_seconds >= HORIZON_SECONDS:
        saves = "all that waits"
    return f"{offer.surrogate} is near, saves {saves} and fetches {offer.bytes >> 20} MiB"


def _round_trip(peer: Peer) -> float | None:
    return round_trip(peer.host, peer.port)
