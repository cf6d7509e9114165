# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A replica at a surrogate, and the shares lent to it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from client.places.place import (
    DELTA_SECONDS,
    SIGN_SECONDS,
    Place,
    Wish,
    answers_limit,
    wish_of,
)
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
    AccessError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    UnavailableError,
)
from satchel.ids import OperationNumber, ReplicaId
from wire import (
    AnswerSigner,
    EdgeShare,
    HandoverState,
    Link,
    PeerTimeout,
    ReplicaStatus,
    SourceAddress,
    Statement,
)

if TYPE_CHECKING:
    from client.places.home import Home
    from images import Manifest

logger = logging.getLogger(__name__)

STATUS_SECONDS = 30.0

REMOVE_SECONDS = 30.0

DAEMON_SECONDS = 4.0
"""How long a surrogate that is asked whether it is there may take to say so, busy as it may be."""

GO_SECONDS = 90.0

GRANT_SECONDS = 10.0
"""How long home may take to say what a surrogate may use: without that it uses nothing."""

HAND_OVER_SECONDS = 300.0
"""How long a surrogate may take to freeze a machine, once it has finished an operation."""


class ReplicaEnded(NotFoundError):
    """The replica on a surrogate has ended or cannot continue."""


class SurrogateSilent(UnavailableError):
    """The surrogate does not answer: it is off, unreachable, or hangs."""


class AnswerUnsigned(IntegrityError):
    """A surrogate that signs its answers sent one without a signature."""


class SurrogateNotTrusted(AccessError):
    """The surrogate may not run carried services."""

    def __init__(self, surrogate: str, service: str) -> None:
        super().__init__(
            f"{service} cannot be carried to {surrogate}",
            why="no replica checks a carried service's answers, so its surrogate must be trusted",
            fix=f"if you trust it: `trusted = true` in [surrogates.{surrogate}] of client.toml",
        )


class Surrogate(Place):
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
        """early: whether early answers are wanted."""
        super().__init__(name, link, f"/v1/replicas/{replica}")
        self._early = early
        self._reads = "reads" if stateful else "operations"
        self.replica = replica
        self.signer: AnswerSigner | None = None
        self.givers: tuple[Surrogate, ...] = ()
        self._service = service

    @property
    def patience(self) -> float:
        """The peer's `lost_seconds`."""
        return self.link.lost_seconds

    def execute(
        self, operations: Sequence[Operation]
    ) -> Iterator[Response | AnswerPreview | LongAnswerStart]:
        wish = wish_of(self._early, operations)
        for answer in answers_in(self._send("operations", operations, wish)):
            if isinstance(answer, Response):
                self._verify(answer, operations, "operation")
            if not isinstance(answer, ReadDigest):
                yield answer

    def compare(self, samples: Samples, operations: Sequence[Operation]) -> Iterator[Answered]:
        raise AssertionError("only home compares")

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
            yield from self.link.http.post_stream(
                f"{self.path}/{where}{'?' if wishes else ''}{'&'.join(wishes)}",
                encode_operations(operations),
                timeout=None,
                limit=answers_limit((len(operations) + bool(wish)) * (2 if self.signer else 1)),
                idempotent=True,
            )
        except UnavailableError:
            self.link.connect()
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
        answer = self.link.http.get_json(f"{self.path}?wait={wait}", timeout=wait + timeout)
        return ReplicaStatus.from_json(answer)

    def quiet(self) -> bool:
        """Whether nothing is being fetched ahead of its machine, as far as is known."""
        try:
            return self.status().quiet_seconds == 0
        except UnavailableError:
            return False

    def hand_over(self) -> HandoverState:
        """Have it frozen, so that it can go on elsewhere; there it goes on too."""
        answer = self.link.post_json(f"{self.path}/hand-over", {}, timeout=HAND_OVER_SECONDS)
        return HandoverState.from_json(answer)

    def more(self, data: bytes, *, go: bool = False) -> ReplicaStatus:
        """A delta for one that stands by; `go`: its last one, returns when it runs."""
        path, seconds = f"{self.path}/more", GO_SECONDS if go else DELTA_SECONDS
        answer = self.link.http.post_bytes(f"{path}?go=1" if go else path, data, timeout=seconds)
        return ReplicaStatus.from_bytes(answer)

    def _ready(self) -> bool:
        return self.status(timeout=SIGN_SECONDS).state == "ready"

    def remove(self) -> None:
        """Raises SurrogateSilent soon where nothing answers there."""
        if not self._answers():
            raise self.silent()
        with contextlib.suppress(NotFoundError):
            self.link.http.delete(self.path, timeout=REMOVE_SECONDS)

    def silent(self) -> SurrogateSilent:
        """The error for a replica that cannot be ended because its surrogate is silent."""
        return SurrogateSilent(f"cannot end the replica at {self.name}", why="it is silent")

    def _answers(self) -> bool:
        """Whether the surrogate is there, looked at now: its host, and then its daemon, as programs
        may hang while the host's kernel answers for them. A daemon that has ended does not hang:
        its host still has to be told what is not needed there any more."""
        if not self.link.answers():
            return False
        try:
            self.status(timeout=DAEMON_SECONDS)
        except PeerTimeout:
            return False
        except SatchelError:
            return True
        return True


def lend_calls(home: Home | None, manifest: Manifest, surrogate: Link) -> SourceAddress | None:
    """Let a surrogate reach home's keeper of what the guests of this service ask of their shares,
    and of no other service; None where they have none, or without home. Raises StateError without
    a connection to the surrogate.
    """
    if home is None or not manifest.machine.get("shares"):
        return None
    here = home.link.reach(f"calls/{home.service}")
    return SourceAddress("calls", surrogate.lend("calls", here))


def lend_edge(home: Home | None, manifest: Manifest, surrogate: Link) -> EdgeShare | None:
    """Let a node of the service's share stand at the surrogate, where home has granted it; None
    where it has not, or is not reached. As `lend_calls`."""
    if home is None or not manifest.machine.get("shares"):
        return None
    try:
        path = f"/v1/share-grants/{home.service}/{surrogate.name}"
        granted = home.link.http.get_json(path, timeout=GRANT_SECONDS)
    except SatchelError as error:
        logger.warning("no node of a share at %s: %s", surrogate.name, error)
        return None
    if not isinstance(granted, dict) or not granted:
        return None
    ends = []
    for name in ("edge", "edge-calls"):
        here = home.link.reach(f"{name}/{home.service}/{surrogate.name}")
        ends.append({"name": name, "socket": surrogate.lend(name, here)})
    return EdgeShare.from_json(granted | {"node": ends[0], "calls": ends[1]})
