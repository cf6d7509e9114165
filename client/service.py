# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session from its start to its end: which checkpoint, home, which surrogate, whatever the
service's contract is.

A move ends the old replica only when the new one takes part.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from client.contracts import Contract, Resources, contract_of
from client.fronts import Front, port_row
from client.fronts.ports import LocalPort
from client.medium.sticks import NamedMedia
from client.moves.fits import Fit, fits
from client.moves.mover import Went
from client.moves.planner import Plan
from client.moves.prestage import Prestager
from client.moves.routes import Route
from client.moves.tracing import MOVE, MoveTrace
from client.places.home import Home
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import NOTHING, OwnerOverrides, candidates
from client.session.shutdown import UnsentOperations
from client.state.log_keys import LogKeys
from images import Manifest
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.names import check_name
from satchel.progress import Progress, silent

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
"""Fields of a replica's row that its surrogate reports."""


class ServiceSession:
    """One service in use by this client. Thread-safe; `close` ends everything it began.

    One at a time for a service and a run folder: see client.platform.running.only_session.
    """

    def __init__(self, settings: ClientSettings, service: str, *, media: NamedMedia) -> None:
        """Raises BadName."""
        self.settings = settings
        self.service = check_name(service, "service")
        self._of = Resources(settings, service, media)
        self.here = self._of.here
        self._contract: Contract | None = None
        self._prestager: Prestager | None = None
        self._fronts: list[Front] = []
        self._moves: list[Went] = []

    @property
    def contract(self) -> Contract:
        """The contract of the service. Raises StateError before `start`."""
        if self._contract is None:
            raise StateError(f"the session of {self.service} has not started")
        return self._contract

    @property
    def ending(self) -> bool:
        """Whether the session ends."""
        return self._contract is not None and self._contract.ending

    @property
    def leader(self) -> str:
        """See Contract."""
        return self.contract.leader

    @property
    def manifest(self) -> Manifest:
        """The checkpoint that new replicas begin with."""
        return self.contract.manifest

    @property
    def parked(self) -> bool:
        """Whether the session sends nothing until a program uses the service."""
        return self.contract.parked

    @property
    def port(self) -> int:
        """The local port of the first front."""
        return self._fronts[0].port

    def start(self, *, take_over: bool = False, accepted: OwnerOverrides = NOTHING) -> None:
        """Find the checkpoint, let home take part. Once.

        Without home the medium must have a checkpoint, without media home must have one. A home
        that cannot be reached takes part when it can. Raises MediaNotFound, NotFoundError,
        AccessError for a wrong key or a manifest that the owner did not sign, ConflictError when
        another client holds the service or has used it, JournalGap, and unless it is accepted
        OperationsDoubtful, StateOlder and CheckpointPartial; `close` is due all the same.
        """
        sticks = self._of.sticks
        sticks.open()
        if not sticks:
            self.settings.require_home(otherwise="; or name media that have a checkpoint")
        self._of.reached = self._reach_home(take_over)
        signers = self.settings.allowed_signers
        found = candidates(self.service, sticks.media, self._of.reached, signers)
        self._contract = contract_of(found[0].manifest, self._of)
        self._contract.open(found, accepted)
        self._prestager = Prestager(
            self.settings,
            self.service,
            self._of.links,
            self._of.power,
            self._contract.mover.sources.offer,
        )
        self._of.ahead = lambda: self._ahead.under_way
        sticks.start(self._contract.plugged)

    def open_fronts(self, chosen: Sequence[LocalPort] = ()) -> list[Front]:
        """Listen for programs, for each port of the service, at those that are chosen, else at
        those of the recipe. Raises ConflictError when one is taken, UsageError for a port that the
        service does not have, UnsupportedError for a front that this version does not have."""
        self._fronts += self.contract.open_fronts(chosen)
        return self._fronts

    def move(
        self,
        surrogate: str,
        *,
        use_media: bool = True,
        route: Route | None = None,
        progress: Progress = silent,
        traced: bool = False,
    ) -> Went:
        """Have a replica there, or home alone with the name `home`; then end those elsewhere.
        traced: before any ends, all hosts report their spans to `trace`.

        By default by the route that is predicted to be the fastest, and where that fails by the
        next one. progress: told how much has come, in bytes, of what only the giver of a hand-over
        has. After an error of Contract's `admit` and `bring` the old replicas execute.
        """
        contract, mover, prestager = self.contract, self.contract.mover, self._ahead
        prestager.end(surrogate)
        with contract.changing():
            mover.trace = MoveTrace()
            steps = mover.trace.steps()
            contract.admit(surrogate, route)
            home = surrogate == HOME
            plan = None if home else self.plan(surrogate, use_media=use_media, route=route)
            steps.done("plan")
            chosen = plan.of(route) if plan else None
            way = route or (chosen.route if chosen else Route.REPLAY)
            try:
                went = contract.bring(surrogate, way, use_media=use_media, progress=progress)
            except SatchelError as error:
                others = [p for p in plan.routes if p.route is Route.REPLAY] if plan else []
                if route is not None or way is Route.REPLAY or contract.ending or not others:
                    raise
                logger.warning("by %s: %s; going by replay", way.value, error)
                (chosen,) = others
                went = contract.bring(surrogate, Route.REPLAY, use_media=use_media, progress=silent)
            if plan and chosen:
                contract.planner.note(plan, chosen, went)
            if traced:
                mover.gather(home=contract.home_takes_part())
            for name in contract.others(surrogate):
                with mover.trace.spans.span(f"end the replica at {name}", MOVE):
                    contract.drop(name)
            self._of.savings.fetched(surrogate, went.fetched_bytes)
            if lead := contract.lead:
                self._of.savings.gained(lead)
            if here := mover.places.get(surrogate):
                prestager.expect(surrogate, contract.manifest, here.quiet)
            self._moves.append(went)
            return went

    @property
    def trace(self) -> MoveTrace:
        """The trace of the last move."""
        return self.contract.mover.trace

    def go_ahead(self, here: str, other: str | None) -> str | None:
        """The client is about to leave a surrogate: stage the checkpoint at the expected next
        surrogate, or else at `other`, at once. Return that surrogate, or None."""
        return self._ahead.expect(here, self.manifest, lambda: True, other=other)

    def elsewhere(self) -> list[str]:
        """The surrogates where no replica is."""
        return sorted(set(self.settings.surrogates) - set(self.contract.mover.places))

    def plan(self, surrogate: str, *, use_media: bool = True, route: Route | None = None) -> Plan:
        """The routes to a replica there, or the one given, with what each is going to take. Raises
        NotFoundError for a surrogate that is not known."""
        contract = self.contract
        media = use_media and contract.on_medium(contract.manifest)
        return contract.planner.plan(surrogate, contract.manifest, media=media, route=route)

    def fits(self, surrogates: Sequence[str]) -> list[Fit]:
        """Ask the surrogates which of them can run the machine; see client.moves.fits."""
        return fits(self.settings, self.manifest.machine, surrogates)

    def status(self) -> dict[str, Any]:
        """Everything that `satchel status` shows."""
        surrogates = self.contract.mover.status()
        told = self.contract.status()
        rows: dict[str, dict[str, Any]] = {
            name: {"name": name, "state": str(s.get("state", "unknown")), "operation": None}
            for name, s in surrogates.items()
        }
        for name, row in told.pop("rows").items():
            rows[name] = {"name": name} | row
        ofs = {name: {key: s.get(key) for key in OF_SURROGATES} for name, s in surrogates.items()}
        nothing = dict.fromkeys(OF_SURROGATES)
        return {
            "service": self.service,
            "contract": self.contract.name,
            "leader": self.leader,
            "checkpoint": self.manifest.id,
            **self._medium(),
            "parked": self.parked,
            "port": self._fronts[0].port if self._fronts else None,
            "url": self._fronts[0].url if self._fronts else None,
            "urls": [front.url for front in self._fronts],
            "replicas": [row | ofs.get(name, nothing) for name, row in rows.items()],
            "surrogates": surrogates,
            "ports": [port_row(front) for front in self._fronts],
            "moves": [went.to_json() for went in self._moves],
            "staged": self._ahead.status(),
            **self.here.status(),
            "first_responses": self.contract.use().firsts,
            "quarantined": [],
            **told,
        }

    def settle(self) -> UnsentOperations | None:
        """Accept nothing more, and make no more replicas; what home lacks then."""
        return self._contract.settle() if self._contract else None

    def close(self) -> None:
        """End every replica on surrogates, give the lease back, close links and the medium.

        Calls that wait for a response end with a StateError. Never fails.
        """
        self.settle()
        for front in self._fronts:
            front.close()
        if self._contract:
            self._contract.close()
        if self._prestager:
            self._prestager.close()
        self._of.close()

    @property
    def _ahead(self) -> Prestager:
        if self._prestager is None:
            raise StateError(f"the session of {self.service} has not started")
        return self._prestager

    def _reach_home(self, take_over: bool) -> Home | None:
        """Home, if there is one and it answers now; a link to it in any case."""
        if not self.settings.home.destination:
            return None
        link, keys = self._of.links.get(HOME, self.settings.home), self.settings.media_keys
        self._of.home = home = Home(link, self.service, self.settings.client_id, keys)
        try:
            link.connect()
            log_keys = home.claim(take_over=take_over)
            if log_keys is not None:
                LogKeys(self.settings.state / "log-keys").keep(self.service, log_keys)
            if not self._of.sticks and not home.has_checkpoint():
                logger.warning("home boots %s for the first time: that takes minutes", self.service)
                home.launch()
        except UnavailableError as error:
            if not self._of.sticks:
                raise
            logger.warning("home: %s; going on with the medium alone", error)
            return None
        self._of.sticks.require_standing()
        return home

    def _medium(self) -> dict[str, Any]:
        """Each medium, and the facts of the one with the log; None if there is no medium now."""
        rows = self._of.sticks.status()
        main = rows[0] if rows else dict.fromkeys(("path", "generation", "free_bytes", "damaged"))
        return {
            "media": main["path"],
            "media_generation": main["generation"],
            "media_free_bytes": main["free_bytes"],
            "damaged_chunks_on_media": main["damaged"],
            "sticks": rows,
        }
