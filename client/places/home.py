# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a client asks of home, for one service. Every call may raise what its link raises."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from client.places.place import SIGN_SECONDS, Place, Wish, answers_limit
from client.platform.settings import HOME
from replay import (
    Answered,
    KeyRing,
    Operation,
    Response,
    Samples,
    answers_in,
    decode_operations,
    encode_operations,
    responses_in,
)
from satchel.errors import IntegrityError, NotFoundError, SatchelError, UnavailableError
from satchel.ids import OperationNumber
from wire import (
    Link,
    Links,
    PeerTimeout,
    PeerUnreachable,
    ServiceStatus,
    SignedStatement,
    TouchReport,
    send_destination,
)

if TYPE_CHECKING:
    from client.platform.settings import ClientSettings
    from media import SealKeys

HISTORY_BATCH = 64

logger = logging.getLogger(__name__)

SLOW_SECONDS = 600.0
"""How long home may take to execute a batch before it is asked again."""

CHECKPOINT_SECONDS = 900.0
"""How long home may take to make a checkpoint."""

ANSWER_SECONDS = 2.0
"""How long a home that is asked whether it is there may take to say so."""

STATEMENT_SECONDS = 10.0
"""How long home may take to sign what it has answered."""

REVOKED_LIMIT = 4096
"""How many revoked media home may name."""

LEASE_SECONDS = 10.0
"""How long giving the lease back may take: the session is over anyway."""


class Home(Place):
    """One service at home, over a link that may not stand. Thread-safe as the link is."""

    def __init__(self, link: Link, service: str, client: str, keys: SealKeys) -> None:
        """keys: of media; they hear from home which are refused"""
        super().__init__(HOME, link, f"/v1/services/{service}")
        self.service = service
        self.client = client
        self._keys = keys

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
            self.link.http.get_json(self.path, timeout=ANSWER_SECONDS)
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
        answer = self.link.http.post_json(f"{self.path}/lease", lease, idempotent=True)
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
        self.link.http.delete(f"{self.path}/lease/{self.client}", timeout=LEASE_SECONDS)

    def status(self) -> ServiceStatus:
        return ServiceStatus.from_json(self.link.http.get_json(self.path))

    def checkpoint(self) -> tuple[bytes, bytes]:
        """The newest manifest and its signature, neither of them verified."""
        return manifest_in(self.link.http.get_json(f"{self.path}/checkpoint"))

    def launch(self) -> None:
        """Have home's replica run, from the newest checkpoint if it does not. Raises as home."""
        self.link.http.post_json(f"{self.path}/launch", {}, timeout=CHECKPOINT_SECONDS)
        self._door = None  # another machine's streams may be reached elsewhere

    def has_checkpoint(self) -> bool:
        """Whether home has one of the service."""
        try:
            return bool(self.checkpoint())
        except NotFoundError:
            return False

    def want(self) -> None:
        """Have home's replica run soon, without waiting for it. Raises as home."""
        self.link.http.post_json(f"{self.path}/want", {})

    def relaunch(self) -> None:
        """Have home's replica go on from the newest checkpoint, whatever it is doing. Raises as
        home does."""
        self.link.http.post_json(f"{self.path}/stop", {}, timeout=CHECKPOINT_SECONDS)
        self.launch()

    def remove(self) -> None:
        self.link.http.post_json(f"{self.path}/stop", {})

    def _ready(self) -> bool:
        self.ask("streams", SIGN_SECONDS)
        return True

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
        return TouchReport.from_json(self.link.http.get_json(f"{self.path}/touched")).touched

    def teach(self, touched: TouchReport, timeout: float) -> None:
        """Tell home what a machine at a surrogate has touched. Raises what the link raises."""
        path = f"{self.path}/touched"
        self.link.http.post_json(path, touched.to_json(), timeout=timeout)

    def take_checkpoint(self) -> None:
        """Have home take one now. Raises as home does."""
        body = {"media": "", "doubtful": "refuse"}
        self.link.post_json(f"{self.path}/checkpoint", body, timeout=CHECKPOINT_SECONDS)

    def take_copy(self) -> tuple[bytes, bytes]:
        """Have home take a checkpoint and learn nothing of it, so that its machine is used by
        nobody else: a manifest and its signature, neither of them verified. Raises as home does."""
        path = f"{self.path}/copy"
        return manifest_in(self.link.http.post_json(path, {}, timeout=CHECKPOINT_SECONDS))

    def operations(self, after: OperationNumber) -> Iterator[Operation]:
        """The operations that home has logged after that number. NotFoundError: they were cut."""
        while batch := self._operations(after, HISTORY_BATCH):
            yield from batch
            after = batch[-1].number

    def digest(self, number: OperationNumber) -> bytes | None:
        """Return the digest of home's operation of that number, which its log may have cut; None if
        home no longer knows. Raises IntegrityError for a malformed answer."""
        said = self.link.http.get_json(f"{self.path}/operations/{number}/digest")["digest"]
        try:
            return bytes.fromhex(said) or None
        except (TypeError, ValueError) as error:
            raise IntegrityError("home's answer is not a digest", why=str(error)) from None

    def statement(self, number: OperationNumber) -> SignedStatement:
        """What home has answered to that operation. NotFoundError: it does not know any more."""
        path = f"{self.path}/operations/{number}/statement"
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
            f"{self.path}/{where}{f'?{wish}=1' if wish else ''}",
            sampled + encode_operations(operations),
            headers={"X-Satchel-Client": self.client},
            timeout=SLOW_SECONDS,
            limit=answers_limit(len(operations) + bool(wish) + bool(sampled)),
            idempotent=True,
        )

    def _operations(self, after: OperationNumber, limit: int) -> list[Operation]:
        path = f"{self.path}/operations?after={after}&limit={limit}"
        return decode_operations(self.link.http.get_bytes(path, limit=answers_limit(limit)))


def manifest_in(answer: Any) -> tuple[bytes, bytes]:
    """The manifest and the signature that home answers, unverified. Raises IntegrityError."""
    texts = [answer.get(key) for key in ("manifest", "signature")] if answer else [None]
    if not all(isinstance(text, str) for text in texts):
        raise IntegrityError("home's answer is not a checkpoint", why="no manifest in it")
    manifest, signature = (str(text).encode() for text in texts)
    return manifest, signature


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


def _uuids_in(found: Any) -> set[str]:
    """Raises ValueError for what is no list of UUIDs."""
    if not isinstance(found, list) or len(found) > REVOKED_LIMIT:
        raise ValueError(f"revoked_media is not a list of at most {REVOKED_LIMIT}")
    if not all(isinstance(one, str) for one in found):
        raise ValueError("revoked_media contains something other than a UUID")
    return {str(UUID(one)) for one in found}
