# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session from its start to its end: which checkpoint, which replicas, where from.

Bringing up a replica on a surrogate, in order: a link to it, the media and home offered to it
over that link, the signed manifest sent, the wait until it runs, its cursor into the journal. The
replicas that are there answer meanwhile; a move ends the old one only when the new one has caught
up.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chunkstore import Media
from client.endpoints import HOME, HomeEndpoint, SurrogateEndpoint
from client.journal import Journal
from client.links import Link, Links
from client.session import Session
from client.settings import ClientSettings
from client.sources import MediaChunks, Provider
from images import SIGNATURE_NAMESPACE, Manifest
from replay import decode_operations
from satchel.errors import NotFoundError, SatchelError, UnavailableError
from satchel.ids import OperationNumber, ReplicaId
from wire import ChunkClient, CreateReplica, HostStatus, Lane, SourceAddress, verify_signer

logger = logging.getLogger(__name__)

READY_SECONDS = 900.0
"""How long a replica may take from its request until it runs."""

HISTORY_BATCH = 256

OWNER = "owner"
"""Who signs checkpoints, as allowed_signers calls it."""


@dataclass(frozen=True)
class BroughtUp:
    """What bringing up a replica took. Seconds count from the request; bytes are by source."""

    surrogate: str
    replica: ReplicaId
    running_seconds: float
    joined_seconds: float
    fetched_bytes: dict[str, int]
    replayed: int


class Runner:
    """One service in use by this client. Thread-safe; `close` ends everything it began."""

    def __init__(self, settings: ClientSettings, service: str, *, media: Path | None) -> None:
        self.settings = settings
        self.service = service
        self.media = media
        self._links = Links(settings, service)
        self._surrogates: dict[str, SurrogateEndpoint] = {}
        self._moving = threading.Lock()
        self.home_link: Link | None = None
        self.manifest: Manifest
        self.session: Session

    def start(self, *, take_over: bool = False) -> None:
        """Find the checkpoint, open the journal, let home take part.

        Without home the media must have a checkpoint, without media home must have one.
        Raises NotFoundError, AccessError for a manifest that the owner did not sign, ConflictError
        when another client holds the service, JournalGap for media older than home's log.
        """
        try:
            self._reach_home(take_over)
            candidates = self._manifests()
            newest = candidates[0]
            self.session = Session(
                self._journal(newest),
                stateful=bool(newest.adapter["stateful"]),
                response_seconds=self.settings.response_seconds,
            )
            self.manifest = self._choose(candidates)
            if self.home_link:
                self._join_home(self.home_link)
        except BaseException:
            self._links.close()
            raise

    def bring_up(self, surrogate: str, *, use_media: bool = True) -> BroughtUp:
        """Resume a replica on a surrogate and let it catch up; returns when it has joined.

        Raises what admission there raises, and UnavailableError when it does not come up.
        """
        began = time.monotonic()
        peer = self.settings.surrogate(surrogate)
        link = self._links.open(surrogate, peer)
        chunks = self._links.open(f"{surrogate}-chunks", peer, Lane.BULK)
        forwarded = HostStatus.from_json(link.get_json("/v1/status")).forwarded
        replica = ReplicaId(f"{self.service}-{secrets.token_hex(4)}")
        request = CreateReplica(
            replica=replica,
            service=self.service,
            manifest=self.manifest.to_json(),
            sources=self._offer(chunks, forwarded, use_media=use_media),
        )
        link.post_json("/v1/replicas", request.to_json())
        endpoint = SurrogateEndpoint(surrogate, link, replica)
        try:
            status = self._await_running(endpoint, began)
            running = time.monotonic() - began
            cursor = status.last_operation if self.session.stateful else self.session.journal.last
            feed = self.session.add(endpoint, cursor)
            if not feed.joined.wait(READY_SECONDS):
                raise UnavailableError(f"the replica at {surrogate} does not catch up")
        except BaseException:
            self.session.drop(surrogate)
            endpoint.remove()
            raise
        self._surrogates[surrogate] = endpoint
        return BroughtUp(
            surrogate=surrogate,
            replica=replica,
            running_seconds=running,
            joined_seconds=time.monotonic() - began,
            fetched_bytes=endpoint.status().fetched_bytes,
            replayed=self.session.journal.last - cursor if self.session.stateful else 0,
        )

    def move(self, surrogate: str, *, use_media: bool = True) -> BroughtUp:
        """Bring up a replica there, then end those on other surrogates (make before break)."""
        with self._moving:
            brought = self.bring_up(surrogate, use_media=use_media)
            for name in [name for name in self._surrogates if name != surrogate]:
                self.drop(name)
            return brought

    def drop(self, surrogate: str) -> None:
        """End the replica on a surrogate and the link to it. Never fails: it may be gone."""
        endpoint = self._surrogates.pop(surrogate, None)
        self.session.drop(surrogate)
        if endpoint:
            try:
                endpoint.remove()
            except SatchelError as error:
                logger.warning("replica %s was left behind: %s", endpoint.replica, error)
        self._links.drop(surrogate)
        self._links.drop(f"{surrogate}-chunks")

    def status(self) -> dict[str, Any]:
        """Everything that `satchel status` shows."""
        session, journal = self.session, self.session.journal
        return {
            "service": self.service,
            "checkpoint": self.manifest.id,
            "checkpoint_operation": self.manifest.operation,
            "stateful": session.stateful,
            "last_operation": journal.last,
            "stable_operation": journal.stable,
            "media": str(self.media) if self.media else None,
            "journal_failure": str(journal.failure) if journal.failure else None,
            "replicas": [
                {"name": f.name, "state": f.state.value, "operation": f.cursor}
                for f in session.feeds()
            ],
            "first_responses": dict(session.tally.first_responses),
            "divergences": session.tally.divergences,
            "surrogates": {n: self._surrogate_status(e) for n, e in self._surrogates.items()},
        }

    def close(self) -> None:
        """End every replica on surrogates, give the lease back, close links and journal."""
        for name in list(self._surrogates):
            self.drop(name)
        self.session.close()
        if self.home_link:
            try:
                self.home_link.delete(f"/v1/services/{self.service}/lease/{self.settings.name}")
            except SatchelError as error:
                logger.warning("the lease was not given back: %s", error)
        self._links.close()

    def _surrogate_status(self, endpoint: SurrogateEndpoint) -> dict[str, Any]:
        try:
            return endpoint.status().to_json()
        except SatchelError as error:
            return {"error": str(error)}

    def _reach_home(self, take_over: bool) -> None:
        if not self.settings.home.destination:
            return
        try:
            self.home_link = self._links.open(HOME, self.settings.home)
        except UnavailableError as error:
            if self.media is None:
                raise
            logger.warning("home: %s; going on with the media alone", error)
            return
        lease = {"client": self.settings.name, "take_over": take_over}
        self.home_link.post_json(f"/v1/services/{self.service}/lease", lease)

    def _manifests(self) -> list[Manifest]:
        """Signed checkpoints that can be had, media's first."""
        found = []
        if self.media is not None:
            folder = Media.checkpoints_folder(self.media, self.service)
            for signature in sorted(folder.glob("*.json.sig")):
                manifest = signature.with_suffix("").read_bytes()
                found.append(self._verified(manifest, signature.read_bytes(), str(folder)))
        if self.home_link is not None:
            answer = self.home_link.get_json(f"/v1/services/{self.service}/checkpoint")
            manifest = str(answer["manifest"]).encode()
            found.append(self._verified(manifest, str(answer["signature"]).encode(), "home"))
        if not found:
            raise NotFoundError(
                f"no checkpoint of {self.service} on media or at home",
                fix=f"`satchel-home checkpoint {self.service} --media PATH` at home",
            )
        return found

    def _verified(self, manifest: bytes, signature: bytes, place: str) -> Manifest:
        verify_signer(
            manifest,
            signature,
            allowed_signers=self.settings.allowed_signers,
            signer=OWNER,
            namespace=SIGNATURE_NAMESPACE,
        )
        decoded = Manifest.from_bytes(manifest)
        if decoded.service != self.service:
            raise NotFoundError(
                f"the checkpoint from {place} is of {decoded.service}, not of {self.service}"
            )
        return decoded

    def _journal(self, newest: Manifest) -> Journal:
        if not newest.adapter["stateful"]:
            return Journal(None, None)
        spare = self.settings.data / "log" / self.service
        folder = Media.log_folder(self.media, self.service) if self.media else spare
        return Journal(folder, spare, self.settings.durability)

    def _choose(self, candidates: list[Manifest]) -> Manifest:
        """The first checkpoint from which the journal, with what home has, leads to now."""
        journal = self.session.journal
        if not self.session.stateful:
            return candidates[0]
        for manifest in candidates:
            if journal.base == journal.last < manifest.operation:
                journal.start_from(manifest.operation)
            if journal.base <= manifest.operation <= journal.last:
                self._take_history(journal)
                return manifest
        raise NotFoundError(
            f"no checkpoint of {self.service} goes together with the operation log",
            why=f"the log begins after operation {journal.base}",
            fix=f"refresh the media: `satchel-home checkpoint {self.service} --media PATH`",
        )

    def _take_history(self, journal: Journal) -> None:
        """Operations that home has logged and this client has not seen."""
        while self.home_link is not None:
            path = f"/v1/services/{self.service}/operations?after={journal.last}"
            operations = decode_operations(
                self.home_link.get_bytes(f"{path}&limit={HISTORY_BATCH}")
            )
            if not operations:
                return
            journal.extend(operations)

    def _join_home(self, link: Link) -> None:
        endpoint = HomeEndpoint(
            link,
            self.service,
            self.settings.name,
            self.session.acknowledge,
            stateful=self.session.stateful,
        )
        cursor = endpoint.position()
        if not self.session.stateful:
            cursor = self.session.journal.last
        self.session.add(endpoint, OperationNumber(max(cursor, self.session.journal.base)))

    def _offer(self, link: Link, folder: str, *, use_media: bool) -> tuple[SourceAddress, ...]:
        """Forward this client's sources to the surrogate, the nearest first."""
        providers: list[tuple[str, Provider]] = []
        if self.media is not None and use_media:
            providers.append(("media", MediaChunks(self.media)))
        if self.home_link is not None:
            bulk = self._links.open("home-chunks", self.settings.home, Lane.BULK)
            providers.append((HOME, ChunkClient(bulk.http).fetch))
        return tuple(SourceAddress(n, link.offer(n, provider, folder)) for n, provider in providers)

    def _await_running(self, endpoint: SurrogateEndpoint, began: float) -> Any:
        while time.monotonic() - began < READY_SECONDS:
            status = endpoint.status(wait=10.0)
            if status.state == "ready":
                return status
            if status.error is not None:
                raise status.error.to_error()
        raise UnavailableError(
            f"the replica at {endpoint.name} does not run after {READY_SECONDS:.0f} s"
        )
