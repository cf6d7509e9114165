# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is done about a replica that answered otherwise than home.

It is in quarantine from that answer on: see client.session.session. Here the evidence is kept, the
user told in one line, and another replica brought up in its place from the checkpoint: RESTARTS
times, until somebody moves there again.

A machine that was handed over may have been false before it came. Nobody but its surrogates has
seen it, so nothing is proved against the one that runs it. The case counts for the first giver,
and no giver of it hands over again in this session.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

from client.moves.replicas import Replicas
from client.places.home import Home
from client.places.surrogate import Surrogate
from client.platform.settings import ClientSettings
from client.session.comparison import Divergence
from client.session.evidence import Case, Evidence
from client.session.journal import Journal
from client.session.proof import Proof
from client.session.verification import ReplicaDiverged
from satchel.errors import SatchelError
from satchel.ids import ReplicaId

logger = logging.getLogger(__name__)

RESTARTS = 2
"""How often in one session a replica is brought up again at a place where it diverged."""


@dataclass(frozen=True)
class QuarantineRecord:
    """A replica that answered `operation` otherwise than home, or the first giver of its machine.

    evidence: its folder, None if it could not be kept; restarted: whether another one came up in
    its place, None while that is under way.
    """

    surrogate: str
    replica: ReplicaId
    operation: int
    evidence: str | None
    restarted: bool | None = None


class Quarantine:
    """Of one session. Thread-safe."""

    def __init__(
        self,
        settings: ClientSettings,
        service: str,
        replicas: Replicas,
        journal: Journal,
        home: Home | None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._service = service
        self._replicas = replicas
        self._journal = journal
        self._evidence = Evidence(settings.state / "evidence", settings.evidence_mib << 20)
        self._cases: list[QuarantineRecord] = []
        self._restarts: Counter[str] = Counter()

    def put(self, divergence: Divergence) -> None:
        """A replica has diverged. Returns at once: what is to be done takes long, so another thread
        does it."""
        endpoint = divergence.feed.endpoint
        assert isinstance(endpoint, Surrogate), "home is believed"
        work = (endpoint, divergence)
        threading.Thread(target=self._replace, args=work, name=f"replace-{endpoint.name}").start()

    def forgive(self, surrogate: str) -> None:
        """Somebody moves there: what happened there before counts no more. The caller holds
        `Replicas.changing`."""
        self._restarts.pop(surrogate, None)

    def status(self) -> list[dict[str, Any]]:
        """Every case so far."""
        return [asdict(case) for case in self._cases]

    def _replace(self, endpoint: Surrogate, divergence: Divergence) -> None:
        """Keep the evidence, tell the user in one line, bring up another replica if it may be."""
        with self._replicas.changing():
            case, name = self._keep_evidence(endpoint, divergence), endpoint.name
            for giver in endpoint.givers:
                self._replicas.planner.refuse_hand_overs(giver.name)
            restarted, free = False, bool(endpoint.givers)
            if not self._replicas.closing and self._replicas.at(name) is endpoint:
                again = free or self._restarts[name] < RESTARTS
                logger.error(
                    "%s: the replica at %s%s answered operation %d otherwise than home and is in "
                    "quarantine; evidence: %s; %s",
                    *(
                        self._service,
                        name,
                        f", which {case.surrogate} handed over," if free else "",
                    ),
                    *(case.operation, case.evidence or "none could be kept"),
                    _whether_again(again),
                )
                restarted = self._restart(name, free=free)
            self._cases[self._cases.index(case)] = replace(case, restarted=restarted)

    def _restart(self, name: str, *, free: bool) -> bool:
        """Whether a replica there has joined again. free: the first attempt does not count."""
        while free or self._restarts[name] < RESTARTS:
            self._restarts[name] += not free
            free = False
            try:
                self._replicas.bring_up(name, use_media=name not in self._replicas.without_media)
                return True
            except ReplicaDiverged as error:
                again = self._restarts[name] < RESTARTS
                logger.error("%s: %s; %s", self._service, error, _whether_again(again))
            except SatchelError as error:
                logger.error("%s: no replica at %s: %s", self._service, name, error)
                return False
        self._replicas.end(name)
        return False

    def _keep_evidence(self, endpoint: Surrogate, divergence: Divergence) -> QuarantineRecord:
        number, place = divergence.operation, None
        proof = self._proof(endpoint, divergence)
        found = Case(
            service=self._service,
            checkpoint=self._replicas.manifest.id,
            surrogate=endpoint.name,
            replica=endpoint.replica,
            journal=self._journal.place,
            operation=divergence.asked or self._journal.get(number),
            divergence=divergence,
            proof=proof,
            givers=tuple(giver.name for giver in endpoint.givers),
        )
        try:
            place = str(self._evidence.keep(found))
        except OSError as error:
            logger.warning("evidence cannot be kept: %s", error)
        if proof:
            self._count(endpoint.name)
        counts = endpoint.givers[0] if endpoint.givers else endpoint
        case = QuarantineRecord(counts.name, counts.replica, number, place)
        self._cases.append(case)
        return case

    def _count(self, surrogate: str) -> None:
        """One more proof against it."""
        try:
            peer = self._settings.surrogate(surrogate)
            if self._replicas.mover.keys.proved(surrogate, peer).banned:
                logger.error("%s is banned: it was proved too often to lie", surrogate)
        except (SatchelError, OSError) as error:
            logger.warning("a proof against %s is not counted: %s", surrogate, error)

    def _proof(self, endpoint: Surrogate, divergence: Divergence) -> Proof | None:
        """None if not both sign their answers, or if the machine was handed over: home has no
        digest of what was handed over. Reads prove nothing: which operations an answer shows is in
        no statement."""
        said, asked = divergence.said, self._journal.get(divergence.operation)
        signer, home = endpoint.signer, self._home
        if divergence.asked or asked is None or signer is None or home is None:
            return None
        if endpoint.givers:
            return None
        try:
            statement = endpoint.statement(asked, "operation", said.digest)
            signed = home.statement(asked.number)
            return Proof.of(endpoint.name, statement, signer.public, said.signature, signed)
        except SatchelError as error:
            logger.warning("%s: no proof against %s: %s", self._service, endpoint.name, error)
            return None


def _whether_again(again: bool) -> str:
    if again:
        return "another one is brought up"
    return f"that was attempt {RESTARTS + 1}, no other one is brought up"
