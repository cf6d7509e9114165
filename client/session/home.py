# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a client asks of home, for one service. Every call may raise what its link raises."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from replay import (
    MAX_PAYLOAD,
    Answered,
    KeyRing,
    Operation,
    Response,
    Samples,
    answers_in,
    decode_operations,
    decode_piece,
    encode_operations,
    responses_in,
)
from satchel.errors import IntegrityError, NotFoundError, SatchelError, UnavailableError
from satchel.ids import OperationNumber
from wire import (
    EdgeShare,
    Link,
    PeerTimeout,
    PeerUnreachable,
    ServiceStatus,
    SignedStatement,
    SourceAddress,
    TouchReport,
    send_destination,
)

if TYPE_CHECKING:
    from images import Manifest
    from media import SealKeys

HISTORY_BATCH = 64

Wish = Literal["", "early", "long"]
"""What is to come before a response: early answers, or that a long one has begun."""

logger = logging.getLogger(__name__)

SLOW_SECONDS = 600.0
"""How long home may take to execute a batch before it is asked again."""

CHECKPOINT_SECONDS = 900.0
"""How long home may take to make a checkpoint."""

ANSWER_SECONDS = 2.0
"""How long a home that is asked whether it is there may take to say so."""

FORGET_SECONDS = 10.0
"""How long a host may take to hear that nobody wants more of an answer."""

GRANT_SECONDS = 10.0
"""How long home may take to say what a surrogate may use: without that it uses nothing."""

STATEMENT_SECONDS = 10.0
"""How long home may take to sign what it has answered."""

REVOKED_LIMIT = 4096
"""How many revoked media home may name."""

LEASE_SECONDS = 10.0
"""How long giving the lease back may take: the session is over anyway."""


class RemoteLongAnswers:
    """A `client.session.long_answer.AnswerSource` over a link: what is executed below `path`
    there."""

    def __init__(self, link: Link, path: str) -> None:
        self._link = link
        self._path = f"{path}/operations"

    def piece(self, number: OperationNumber, after: int, length: int) -> tuple[bytes, bool]:
        """See Source."""
        path = f"{self._path}/{number}/answer?after={after}&length={length}"
        return decode_piece(self._link.http.get_bytes(path, limit=length + 1))

    def forget(self, number: OperationNumber) -> None:
        """See Source."""
        with contextlib.suppress(SatchelError):
            self._link.http.delete(f"{self._path}/{number}/answer", timeout=FORGET_SECONDS)


class HomeService:
    """One service at home, over a link that may not stand. Thread-safe as the link is."""

    def __init__(self, link: Link, service: str, client: str, keys: SealKeys) -> None:
        """keys: of media; they hear from home which are refused"""
        self.link = link
        self.service = service
        self.client = client
        self._keys = keys
        self._path = f"/v1/services/{service}"
        self.long = RemoteLongAnswers(link, self._path)

    def answers(self) -> bool:
        """Whether home is there, looked at now, in a few seconds at most: its host, and then its
        daemon, as programs may hang while the host's kernel answers for them. Never fails."""
        if not self.link.answers():
            return False
        try:
            self.link.connect()  # it may have come back a moment ago
        except SatchelError:
            return False
        try:
            self.link.http.get_json(self._path, timeout=ANSWER_SECONDS)
        except (PeerTimeout, PeerUnreachable):
            return False
        except SatchelError:
            return True
        return True

    def answers_within(self, seconds: float) -> bool:
        """As `answers`, but the daemon of a host that is there may be busy for so long."""
        until = time.monotonic() + seconds
        while not self.answers():
            if not self.link.answers() or time.monotonic() > until:
                return False
        return True

    def claim(self, *, take_over: bool = False) -> KeyRing | None:
        """Hold the service, or continue to hold it. Return the keys of its log; None for a service
        without one. Media that home has revoked are refused here from then on. Raises ConflictError
        when another client holds it, IntegrityError, OSError."""
        lease = {"client": self.client, "take_over": take_over}
        answer = self.link.http.post_json(f"{self._path}/lease", lease, idempotent=True)
        try:
            revoked = _uuids_in(answer.get("revoked_media", []))
            for uuid in sorted(revoked.difference(self._keys.revoked())):
                logger.warning("home has revoked the medium %s; it is refused from now on", uuid)
                self._keys.revoke(uuid)
            said = str(answer.get("log_keys", ""))
            return KeyRing.from_bytes(said.encode()) if said else None
        except (AttributeError, TypeError, ValueError) as error:
            raise IntegrityError("home's answer is not a lease", why=str(error)) from None

    def release(self) -> None:
        """Hold it no more."""
        self.link.http.delete(f"{self._path}/lease/{self.client}", timeout=LEASE_SECONDS)

    def status(self) -> ServiceStatus:
        return ServiceStatus.from_json(self.link.http.get_json(self._path))

    def ask(self, path: str, timeout: float) -> Any:
        """What home answers at that path below the service's."""
        return self.link.http.get_json(f"{self._path}/{path}", timeout=timeout)

    def checkpoint(self) -> tuple[bytes, bytes]:
        """The newest manifest and its signature, neither of them verified."""
        return manifest_in(self.link.http.get_json(f"{self._path}/checkpoint"))

    def launch(self) -> None:
        """Have home's replica run, from the newest checkpoint if it does not. Raises as home."""
        self.link.http.post_json(f"{self._path}/launch", {}, timeout=CHECKPOINT_SECONDS)

    def has_checkpoint(self) -> bool:
        """Whether home has one of the service."""
        try:
            return bool(self.checkpoint())
        except NotFoundError:
            return False

    def want(self) -> None:
        """Have home's replica run soon, without waiting for it. Raises as home."""
        self.link.http.post_json(f"{self._path}/want", {})

    def relaunch(self) -> None:
        """Have home's replica go on from the newest checkpoint, whatever it is doing. Raises as
        home does."""
        self.link.http.post_json(f"{self._path}/stop", {}, timeout=CHECKPOINT_SECONDS)
        self.launch()

    def way_out(self, number: int) -> socket.socket:
        """A connection from home to that destination of the service's guest. Raises
        UnavailableError where home is not reached; one that home does not make ends at once."""
        way = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            way.connect(bytes(self.link.reach(f"egress/{self.service}")))
            send_destination(way, number)
        except OSError as error:
            way.close()
            raise UnavailableError("nothing goes out at home", why=str(error)) from error
        return way

    def touched(self) -> dict[str, tuple[int, ...]]:
        """What home's machine has touched since it was resumed. Raises what the link raises."""
        return TouchReport.from_json(self.link.http.get_json(f"{self._path}/touched")).touched

    def teach(self, touched: TouchReport, timeout: float) -> None:
        """Tell home what a machine at a surrogate has touched. Raises what the link raises."""
        path = f"{self._path}/touched"
        self.link.http.post_json(path, touched.to_json(), timeout=timeout)

    def take_checkpoint(self) -> None:
        """Have home take one now. Raises as home does."""
        body = {"media": "", "doubtful": "refuse"}
        self.link.post_json(f"{self._path}/checkpoint", body, timeout=CHECKPOINT_SECONDS)

    def take_copy(self) -> tuple[bytes, bytes]:
        """Have home take a checkpoint and learn nothing of it, so that its machine is used by
        nobody else: a manifest and its signature, neither of them verified. Raises as home does."""
        path = f"{self._path}/copy"
        return manifest_in(self.link.http.post_json(path, {}, timeout=CHECKPOINT_SECONDS))

    def operations(self, after: OperationNumber) -> Iterator[Operation]:
        """The operations that home has logged after that number. NotFoundError: they were cut."""
        while batch := self._operations(after, HISTORY_BATCH):
            yield from batch
            after = batch[-1].number

    def digest(self, number: OperationNumber) -> bytes | None:
        """Return the digest of home's operation of that number, which its log may have cut; None if
        home no longer knows. Raises IntegrityError for a malformed answer."""
        said = self.link.http.get_json(f"{self._path}/operations/{number}/digest")["digest"]
        try:
            return bytes.fromhex(said) or None
        except (TypeError, ValueError) as error:
            raise IntegrityError("home's answer is not a digest", why=str(error)) from None

    def statement(self, number: OperationNumber) -> SignedStatement:
        """What home has answered to that operation. NotFoundError: it does not know any more."""
        path = f"{self._path}/operations/{number}/statement"
        return SignedStatement.from_json(self.link.http.get_json(path, timeout=STATEMENT_SECONDS))

    def execute(
        self, operations: Sequence[Operation], wish: Wish = "", samples: Samples | None = None
    ) -> Iterator[Answered]:
        """Log, then execute; the responses that home still knows, as they come. Fewer where home
        cannot go on: asked for the others, it says why. samples: what home compares meanwhile; a
        digest for each comes last."""
        return answers_in(self._send("operations", operations, wish, samples))

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute what changes nothing, and log nothing; a response for each."""
        return list(responses_in(self._send("reads", operations)))

    def _send(
        self,
        where: str,
        operations: Sequence[Operation],
        wish: Wish = "",
        samples: Samples | None = None,
    ) -> Iterator[bytes]:
        sampled = samples.encode() if samples and samples.reads else b""
        return self.link.http.post_stream(
            f"{self._path}/{where}{f'?{wish}=1' if wish else ''}",
            sampled + encode_operations(operations),
            headers={"X-Satchel-Client": self.client},
            timeout=SLOW_SECONDS,
            limit=answers_limit(len(operations) + bool(wish) + bool(sampled)),
            idempotent=True,
        )

    def _operations(self, after: OperationNumber, limit: int) -> list[Operation]:
        path = f"{self._path}/operations?after={after}&limit={limit}"
        return decode_operations(self.link.http.get_bytes(path, limit=answers_limit(limit)))


def manifest_in(answer: Any) -> tuple[bytes, bytes]:
    """The manifest and the signature that home answers, unverified. Raises IntegrityError."""
    texts = [answer.get(key) for key in ("manifest", "signature")] if answer else [None]
    if not all(isinstance(text, str) for text in texts):
        raise IntegrityError("home's answer is not a checkpoint", why="no manifest in it")
    manifest, signature = (str(text).encode() for text in texts)
    return manifest, signature


def lend_calls(
    home: HomeService | None, manifest: Manifest, surrogate: Link
) -> SourceAddress | None:
    """Let a surrogate reach home's keeper of what the guests of this service ask of their shares,
    and of no other service; None where they have none, or without home. Raises StateError without
    a connection to the surrogate.
    """
    if home is None or not manifest.machine.get("shares"):
        return None
    here = home.link.reach(f"calls/{home.service}")
    return SourceAddress("calls", surrogate.lend("calls", here))


def lend_edge(home: HomeService | None, manifest: Manifest, surrogate: Link) -> EdgeShare | None:
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


def answers_limit(count: int) -> int:
    """Bytes that so many operations or responses have at most, with their headers."""
    return count * (MAX_PAYLOAD + 64)


def _uuids_in(found: Any) -> set[str]:
    """Raises ValueError for what is no list of UUIDs."""
    if not isinstance(found, list) or len(found) > REVOKED_LIMIT:
        raise ValueError(f"revoked_media is not a list of at most {REVOKED_LIMIT}")
    if not all(isinstance(one, str) for one in found):
        raise ValueError("revoked_media contains something other than a UUID")
    return {str(UUID(one)) for one in found}
