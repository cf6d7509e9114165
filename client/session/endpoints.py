# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replica at home or on a surrogate, as a feed sees it: HTTP over a link that may break.

Whatever a link's own watcher does, an endpoint that gets no answer connects again at once: it has
something to send.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from client.platform.settings import HOME
from client.session.home import HomeService, RemoteLongAnswers, Wish, answers_limit
from client.session.journal import Journal, JournalParted
from replay import (
    Answered,
    AnswerPreview,
    LongAnswerStart,
    Operation,
    ReadDigest,
    Response,
    Samples,
    answers_in,
    encode_operations,
    responses_in,
)
from satchel.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    UnavailableError,
)
from satchel.ids import OperationNumber, ReplicaId
from wire import AnswerSigner, HandoverState, Link, Links, PeerTimeout, ReplicaStatus, Statement

if TYPE_CHECKING:
    from client.platform.settings import ClientSettings

FOREVER = float("inf")

STATUS_SECONDS = 30.0

REMOVE_SECONDS = 30.0

SIGN_SECONDS = 4.0
"""How long a surrogate that is asked whether it is there may take to say so, busy as it may be."""

HAND_OVER_SECONDS = 300.0
"""How long a surrogate may take to freeze a machine, once it has finished an operation."""


class ReplicaEnded(NotFoundError):
    """The replica on a surrogate has ended or cannot continue."""


class SurrogateSilent(UnavailableError):
    """The surrogate does not answer: it is off, unreachable, or hangs."""


class AnswerUnsigned(IntegrityError):
    """A surrogate that signs its answers sent one without a signature."""


class HomeEndpoint:
    """Home's first-class replica: logs on disk, then executes; waited for without end.

    Whenever it is asked where it is, home hears that this client goes on holding the service. At
    the first time, and where home has more than this client was told, the two histories are
    compared: what another client has done meanwhile is nothing of this one's that home has.
    """

    name = HOME
    patience = FOREVER

    def __init__(
        self,
        home: HomeService,
        journal: Journal,
        acknowledge: Callable[[OperationNumber], None],
        *,
        stateful: bool,
        early: bool = False,
    ) -> None:
        """early: the service tells early what it is going to answer, and that is wanted."""
        self._home = home
        self._early = early
        self._journal = journal
        self._acknowledge = acknowledge
        self._stateful = stateful
        self._compared = False

    def execute(
        self, operations: Sequence[Operation]
    ) -> Iterator[Response | AnswerPreview | LongAnswerStart]:
        answers = self.compare(Samples(), operations)
        return (answer for answer in answers if not isinstance(answer, ReadDigest))

    def compare(self, samples: Samples, operations: Sequence[Operation]) -> Iterator[Answered]:
        logged, wish = not operations, _wish(self._early, operations)
        try:
            for response in self._home.execute(operations, wish, samples):
                if not logged:  # home logs all of them before it executes the first
                    self._acknowledge(operations[-1].number)
                logged = True
                yield response
        except UnavailableError:
            self._home.link.connect()
            self.position()
            raise
        if not logged:
            self._acknowledge(operations[-1].number)

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        return self._home.long.piece(number, after, length)

    def forget(self, number: OperationNumber) -> None:
        self._home.long.forget(number)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        ask = self._home.read if self._stateful else self._home.execute
        try:
            return [answer for answer in ask(operations) if isinstance(answer, Response)]
        except UnavailableError:
            self._home.link.connect()
            self.position()
            raise

    def position(self) -> OperationNumber:
        """Raises ConflictError when another client holds the service or has used it.

        A stateless service has no position: nothing that it is asked follows anything.
        """
        self._home.claim()
        status = self._home.status()
        if not self._stateful:
            return self._journal.base
        if not self._compared or status.last_logged > self._journal.stable:
            compare(self._home, self._journal, status.last_logged)
            self._compared = True
        self._acknowledge(status.last_logged)
        return OperationNumber(max(status.last_executed, self._journal.base))


def _wish(early: bool, operations: Sequence[Operation]) -> Wish:
    """early: the service tells early answers, and they are wanted. Of several nobody looks at the
    first ones; a long one may be among them all the same."""
    return "long" if not early else "early" if len(operations) == 1 else ""


def compare(home: HomeService, journal: Journal, logged: OperationNumber) -> None:
    """Raises ConflictError unless home's log is a beginning of the journal.

    One operation is looked at, the last that both have. Its time and seed are random, so two logs
    that have it in common have all before it in common.
    """
    if logged > journal.last:
        raise ConflictError(
            f"home has operations of {home.service} that this client has not",
            why=f"home's log ends with {logged}, the journal with {journal.last}",
            fix="stop the session and start it again",
        )
    mine = journal.get(logged)
    if mine is not None and home.digest(logged) not in (mine.digest, None):
        raise JournalParted(
            logged,
            "in home's log",
            fix=f"home's log counts: `satchel log {home.service}` lists the operations "
            "that only this device has, and `--drop` moves them out of the way",
        )


class SurrogateEndpoint:
    """A second-class replica. Its link is made again for a while; then the replica is lost.

    signer: who signs its answers; set, one without a good signature ends it (AnswerUnsigned,
    SignatureInvalid). givers: the replicas that handed this one's machine over, the first one
    resumed from a signed checkpoint; none if this one was.
    """

    def __init__(
        self,
        name: str,
        link: Link,
        replica: ReplicaId,
        service: str,
        *,
        stateful: bool,
        early: bool = False,
    ) -> None:
        """early: see HomeEndpoint."""
        self.name = name
        self._early = early
        self._reads = "reads" if stateful else "operations"
        self.replica = replica
        self.signer: AnswerSigner | None = None
        self.givers: tuple[SurrogateEndpoint, ...] = ()
        self._service = service
        self._link = link
        self._path = f"/v1/replicas/{replica}"
        self._long = RemoteLongAnswers(link, self._path)

    @property
    def patience(self) -> float:
        """The peer's `lost_seconds`."""
        return self._link.lost_seconds

    def execute(
        self, operations: Sequence[Operation]
    ) -> Iterator[Response | AnswerPreview | LongAnswerStart]:
        wish = _wish(self._early, operations)
        for answer in answers_in(self._send("operations", operations, wish)):
            if isinstance(answer, Response):
                self._verify(answer, operations, "operation")
            if not isinstance(answer, ReadDigest):
                yield answer

    def compare(self, samples: Samples, operations: Sequence[Operation]) -> Iterator[Answered]:
        raise AssertionError("only home compares")

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        return self._long.piece(number, after, length)

    def forget(self, number: OperationNumber) -> None:
        self._long.forget(number)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        responses = list(responses_in(self._send(self._reads, operations, "")))
        for response in responses:
            self._verify(response, operations, "read" if self._reads == "reads" else "operation")
        return responses

    def statement(self, asked: Operation, kind: str, answered: bytes) -> Statement:
        """What the surrogate signs where it answers that so. kind: as Statement has it; answered:
        the digest of its response."""
        digest = hashlib.sha256(asked.encode()).digest()
        return Statement(self._service, self.replica, kind, asked.number, digest, answered)

    def _verify(self, response: Response, operations: Sequence[Operation], kind: str) -> None:
        if self.signer is None:
            return
        asked = [op for op in operations if op.number == response.number]
        if not asked:
            raise IntegrityError(f"{self.name} answers {response.number}, which was not requested")
        if not response.signature:
            raise AnswerUnsigned(
                f"{self.name} has not signed its answer to {kind} {response.number}",
                why="it has a key, and signs all others",
                fix="use another surrogate",
            )
        self.signer.verify(self.statement(asked[0], kind, response.digest), response.signature)

    def _send(self, where: str, operations: Sequence[Operation], wish: Wish) -> Iterator[bytes]:
        try:
            wishes = [f"{word}=1" for word in (wish, "signed" if self.signer else "") if word]
            yield from self._link.http.post_stream(
                f"{self._path}/{where}{'?' if wishes else ''}{'&'.join(wishes)}",
                encode_operations(operations),
                timeout=None,
                limit=answers_limit((len(operations) + bool(wish)) * (2 if self.signer else 1)),
                idempotent=True,
            )
        except UnavailableError:
            self._link.connect()
            self.position()
            raise

    def position(self) -> OperationNumber:
        """Raises ReplicaEnded for a replica that will not answer any more."""
        status = self.status()
        if status.state != "ready":
            why = str(status.error.to_error()) if status.error else f"it is {status.state}"
            raise ReplicaEnded(f"the replica at {self.name} cannot continue", why=why)
        return status.last_operation

    def status(self, *, wait: float = 0.0, timeout: float = STATUS_SECONDS) -> ReplicaStatus:
        """The replica now; with `wait`, as soon as it is ready or has failed, in seconds."""
        answer = self._link.http.get_json(f"{self._path}?wait={wait}", timeout=wait + timeout)
        return ReplicaStatus.from_json(answer)

    def ask(self, path: str, timeout: float) -> Any:
        """What the surrogate answers at that path below the replica's, unverified."""
        return self._link.http.get_json(f"{self._path}/{path}", timeout=timeout)

    def quiet(self) -> bool:
        """Whether nothing is being fetched ahead of its machine, as far as is known."""
        try:
            return self.status().quiet_seconds == 0
        except UnavailableError:
            return False

    def hand_over(self) -> HandoverState:
        """Have it frozen, so that it can go on elsewhere; there it goes on too."""
        answer = self._link.post_json(f"{self._path}/hand-over", {}, timeout=HAND_OVER_SECONDS)
        return HandoverState.from_json(answer)

    def remove(self) -> None:
        """End the replica. Raises SatchelError where that cannot be known to have happened,
        SurrogateSilent soon where nothing answers there."""
        if not self._answers():
            raise SurrogateSilent(f"cannot end the replica at {self.name}", why="it is silent")
        with contextlib.suppress(NotFoundError):
            self._link.http.delete(self._path, timeout=REMOVE_SECONDS)

    def _answers(self) -> bool:
        """Whether the surrogate is there, looked at now: its host, and then its daemon, as programs
        may hang while the host's kernel answers for them. A daemon that has ended does not hang:
        its host still has to be told what is not needed there any more."""
        if not self._link.answers():
            return False
        try:
            self.status(timeout=SIGN_SECONDS)
        except PeerTimeout:
            return False
        except SatchelError:
            return True
        return True


def services_at_home(
    settings: ClientSettings,
) -> tuple[list[dict[str, Any]], SatchelError | None]:
    """What home says of each of its services, or why that is not known."""
    with Links(settings.run / "l" / f"ls-{os.getpid()}") as links:
        try:
            link = links.open(HOME, settings.require_home())
            return list(link.http.get_json("/v1/services")), None
        except SatchelError as error:
            return [], error
