# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Deltas on their way home, one after the other, in the background: streams go first.

Home keeps each as a checkpoint that its owner's key has signed. The bytes of a delta are here until
it does: a link that breaks, or a surrogate that is lost meanwhile, costs nothing of what has come.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from client.places.home import Home, manifest_in
from client.places.place import OfferedDelta
from client.platform.settings import HOME
from client.session.checkpoints import newest_at_home, verified
from images import Manifest
from media import SignedManifest
from satchel.errors import ConflictError, SatchelError, UnavailableError
from satchel.timestamps import elapsed
from wire import Link

logger = logging.getLogger(__name__)

PIECE = 64 << 10
"""Bytes that go at once: what a stream has to say does not wait behind more."""

QUIET_SECONDS = 0.02
GIVE_WAY_SECONDS = 0.1
"""How long a piece waits for streams that have something to say, at most."""

RETRY_SECONDS = 1.0
KEEP_SECONDS = 120.0


@dataclass(frozen=True)
class HomeCopy:
    """The newest state that home has. at: when it was frozen, in seconds since 1970"""

    manifest: Manifest
    at: float


@dataclass(frozen=True)
class _Parcel:
    offered: OfferedDelta
    data: bytes
    at: float
    drops: int


class DeltaShipper:
    """See the module. Thread-safe; one delta after the other, in the order of `send`."""

    def __init__(
        self,
        home: Home,
        bulk: Link,
        allowed_signers: Path,
        first: Manifest,
        quiet_seconds: Callable[[], float],
        *,
        on_kept: Callable[[SignedManifest, bytes], None],
        older: SignedManifest | None = None,
    ) -> None:
        """bulk: a link to home; first: what home has now; quiet_seconds: since streams carried
        bytes; on_kept: told of each checkpoint that home has made of a delta, with that; older:
        `first`, where the person gives up what home has beyond it."""
        self._home = home
        self._bulk = bulk
        self._signers = allowed_signers
        self._quiet_seconds = quiet_seconds
        self._on_kept = on_kept
        self._older = older
        self._parcels: queue.Queue[_Parcel | None] = queue.Queue()
        self._changed = threading.Condition()
        self._waiting = 0
        self._drops = 0
        self._refused = False
        self._closing = threading.Event()
        self.copy = HomeCopy(first, elapsed())
        self.sent_bytes = 0
        self.kept = 0
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="deltas", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Deltas that home does not have yet."""
        return self._waiting

    def send(self, offered: OfferedDelta, data: bytes, at: float) -> None:
        """Have home keep this delta. It is since the tables of the last one that was sent, or
        earlier ones. at: when it was frozen. Returns at once."""
        with self._changed:
            self._waiting += 1
        self._parcels.put(_Parcel(offered, data, at, self._drops))

    def wait(self, seconds: float) -> bool:
        """Whether home has all that was sent, in so many seconds; at once where home refuses it,
        because it has gone on by itself."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0 or self._refused, seconds)
            return self._waiting == 0

    def have(self, manifest: Manifest, at: float) -> None:
        """Home has made a checkpoint by itself."""
        self.copy = HomeCopy(manifest, at)

    def drop(self) -> None:
        """Give up what is on its way: whoever leads next goes on from what home has."""
        self._drops += 1
        while True:
            try:
                self._parcels.get_nowait()
            except queue.Empty:
                break
        with self._changed:
            self._waiting = 0
            self._changed.notify_all()

    def close(self) -> None:
        """End it; what home lacks then it will lack."""
        self._closing.set()
        self._parcels.put(None)
        self._thread.join(RETRY_SECONDS + KEEP_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            parcel = self._parcels.get()
            if parcel is None:
                return
            self._ship(parcel)
            with self._changed:
                self._waiting = max(0, self._waiting - 1)
                self._changed.notify_all()

    def _ship(self, parcel: _Parcel) -> None:
        while not self._closing.is_set() and parcel.drops == self._drops:
            try:
                self._send_all(parcel)
                self._keep(parcel)
                self.failure = None
                return
            except (UnavailableError, ConflictError) as error:
                self.failure = str(error)
                logger.info("a delta waits: %s", error)
                self._closing.wait(RETRY_SECONDS)
            except SatchelError as error:
                self.failure = str(error)
                logger.error("a delta is lost: %s", error)
                return

    def _send_all(self, parcel: _Parcel) -> None:
        self._bulk.connect()
        path = f"/v1/services/{self._home.service}/deltas/{parcel.offered.offer.digest}"
        at = int(self._bulk.http.get_json(path)["size"])
        while at < len(parcel.data):
            self.give_way()
            piece = parcel.data[at : at + PIECE]
            self._bulk.http.post_bytes(f"{path}?offset={at}", piece)
            at += len(piece)
            self.sent_bytes += len(piece)

    def _keep(self, parcel: _Parcel) -> None:
        offer = parcel.offered.offer
        path = f"/v1/services/{self._home.service}/deltas/{offer.digest}/keep"
        body = {"parent": self.copy.manifest.id, "volumes": offer.volumes}
        if self._older:
            texts = (self._older.manifest.to_bytes(), self._older.signature)
            body["older"] = [text.decode("ascii") for text in texts]
        try:
            answer = self._bulk.http.post_json(path, body, timeout=KEEP_SECONDS)
            manifest, signature = manifest_in(answer)
            new = SignedManifest(self._verified(manifest, signature), signature)
        except ConflictError:
            # Home may have kept it, and its answer was lost.
            new = newest_at_home(self._home, self._signers)
            ours = new.manifest.parent == self.copy.manifest.id
            if not ours or new.manifest.volumes != parcel.offered.tables:
                self._tell(refused=True)
                raise
        self.copy = HomeCopy(new.manifest, parcel.at)
        self._older = None
        self.kept += 1
        self._tell(refused=False)
        self._on_kept(new, parcel.data)

    def _tell(self, *, refused: bool) -> None:
        with self._changed:
            self._refused = refused
            self._changed.notify_all()

    def _verified(self, manifest: bytes, signature: bytes) -> Manifest:
        return verified(self._home.service, manifest, signature, HOME, self._signers)

    def give_way(self) -> None:
        """Return when streams have nothing to say, or after GIVE_WAY_SECONDS."""
        deadline = time.monotonic() + GIVE_WAY_SECONDS
        while self._quiet_seconds() < QUIET_SECONDS and time.monotonic() < deadline:
            self._closing.wait(QUIET_SECONDS / 2)
