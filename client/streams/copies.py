# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The copies of a carried machine: at home, by deltas through this client, and on the medium.

Home comes first. A state counts when home has signed it; then the medium gets it, and this client
remembers which one that was. So a session without home can tell whether the medium has it. Nothing
of a delta is asked of home again: its blocks are laid over the checkpoint on the medium, and the
tables that come out are those that home has signed, or they are of no use. Where deltas are missing
in between, home is asked for the rest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from client.medium.fetching import from_home, refresh_folder
from client.places.home import Home
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import OwnerOverrides, candidates, require_all_of_it, verified
from client.state.last_seen import KnownCopy, LastSeenStore, require_newest
from client.streams.delta_shipper import DeltaShipper
from images import Manifest
from media import Media, Refresher, SignedManifest
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.timestamps import elapsed
from wire import Link

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0

DELTA_BYTES = 64 << 20
"""Bytes of deltas that are kept until the medium has them; then home is asked for their content."""


class MachineCopies:
    """The copies of one session. Thread-safe, but for its begin and end.

    shipping: deltas on their way home, once there is one; on_medium: the newest signed state on the
    medium, as far as it was looked for
    """

    shipping: DeltaShipper

    def __init__(
        self,
        settings: ClientSettings,
        home: Home,
        bulk: Link,
        media: Media | None,
        in_use: Callable[[], Sequence[Manifest]],
    ) -> None:
        """bulk: a link to home; in_use: checkpoints with which replicas began that run."""
        self._service = home.service
        self._home = home
        self._bulk = bulk
        self._signers = settings.allowed_signers
        self._known = LastSeenStore(settings.state / "latest-copies", KnownCopy.decode)
        self._accepted: SignedManifest | None = None
        self._media = media
        self._in_use = in_use
        self._folder = refresh_folder(settings, home.service)
        self._changed = threading.Condition()  # guards what follows
        self._wanted: SignedManifest | None = None
        self._deltas: list[bytes] = []
        self._closing = threading.Event()
        self.on_medium: Manifest | None = None
        self._written_bytes = 0
        self._failure: str | None = None
        self._thread: threading.Thread | None = None

    def resting(self, accepted: OwnerOverrides) -> Manifest:
        """The medium's copy, from which a surrogate continues without home. Raises NotFoundError,
        AccessError for one that the owner did not sign, and unless it is accepted StateOlder and
        CheckpointPartial."""
        found = candidates(self._service, self._media, None, self._signers)
        copy = found[0].manifest
        require_all_of_it(found, copy, None, accepted=accepted.part)
        self.on_medium = copy
        require_newest(self._known.get(self._service), copy, accepted.older)
        if accepted.older == copy.id:
            self._accepted = SignedManifest(copy, found[0].signature)
        return copy

    def ship(self, first: Manifest, quiet_seconds: Callable[[], float]) -> DeltaShipper:
        """Begin to send deltas; see DeltaShipper."""
        self.shipping = DeltaShipper(
            self._home,
            self._bulk,
            self._signers,
            first,
            quiet_seconds,
            on_kept=self._kept,
            older=self._accepted,
        )
        return self.shipping

    def begin(self, newest: SignedManifest, *, led_on: bool) -> None:
        """A session begins with home: bring the medium up to home's state.
        led_on: home's machine leads."""
        if self._media:
            try:
                found = candidates(self._service, self._media, None, self._signers)
                self.on_medium = found[0].manifest
            except SatchelError as error:
                logger.warning("the medium gets no copies: %s", error)
                self._failure = str(error)
        self._kept(newest, None, led_on=led_on)

    def have(self, new: SignedManifest, at: float, *, led_on: bool) -> None:
        """Home has made a checkpoint by itself. at: when it was frozen; led_on: home's machine
        goes on after it, with what a person does."""
        self.shipping.have(new.manifest, at)
        self._kept(new, None, led_on=led_on)

    def take_at_home(self, *, led_on: bool) -> None:
        """Have home copy its machine, which leads. Raises as home does."""
        at = elapsed()
        manifest, signature = self._home.take_copy()
        found = verified(self._service, manifest, signature, HOME, self._signers)
        self.have(SignedManifest(found, signature), at, led_on=led_on)

    def wait_for_medium(self, seconds: float) -> None:
        """Return when the medium is level with home. Raises UnavailableError after so long."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._wanted is None, seconds):
                why = self._failure or "it takes too long"
                raise UnavailableError("the medium lacks the newest copy", why=why)

    def status(self, home_behind: float, *, rests: bool) -> list[dict[str, Any]]:
        """A row for each place. home_behind: seconds; rests: the medium's is the newest."""
        newest = self.shipping.copy.manifest.id
        at_home = {"checkpoint": newest, "seconds_behind": round(home_behind, 1)}
        rows: list[dict[str, Any]] = [
            {"place": HOME} | at_home | {"failure": self.shipping.failure}
        ]
        if self._media:
            rows.append({"place": "medium"} | self._medium_row(rests=rests))
        return rows

    def _medium_row(self, *, rests: bool) -> dict[str, Any]:
        there, behind = self.on_medium, None
        if there is not None:
            at = datetime.fromisoformat(there.created).timestamp()
            behind = 0.0 if rests else max(0.0, round(time.time() - at, 1))
        return {
            "checkpoint": there.id if there else None,
            "seconds_behind": behind,
            "written_bytes": self._written_bytes,
            "failure": self._failure,
        }

    def close(self) -> None:
        """End both; what lacks something then will lack it. The medium has one state or another,
        whatever was under way."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread:
            self._thread.join()
        self.shipping.close()

    def _kept(self, new: SignedManifest, delta: bytes | None, *, led_on: bool = False) -> None:
        """Home has a new copy. delta: since the one before, where it came through here. Have the
        medium get it; returns at once."""
        self._known.put(self._service, KnownCopy(new.manifest.id, led_on))
        if self._media is None or self.on_medium is None:
            return
        with self._changed:
            self._wanted = new
            if self._thread is None:
                work = (self._media,)
                self._thread = threading.Thread(
                    target=self._run, args=work, name="medium", daemon=True
                )
                self._thread.start()
            if delta is not None and sum(map(len, self._deltas)) + len(delta) <= DELTA_BYTES:
                self._deltas.append(delta)
            self._changed.notify_all()

    def _turn(self) -> None:
        if self._closing.is_set():
            raise StateError("the session has ended")
        self.shipping.give_way()

    def _run(self, media: Media) -> None:
        fetch = from_home(self._bulk, self._turn)
        refresher = Refresher(media, self._service, self._folder, fetch)
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._closing.is_set())
                new, deltas = self._wanted, list(self._deltas)
            if new is None or self._closing.is_set():
                return
            try:
                self._bring(refresher, new, deltas)
            except SatchelError as error:
                self._failure = str(error)
                logger.info("the medium has no newer copy: %s", error)
                self._closing.wait(RETRY_SECONDS)

    def _bring(self, refresher: Refresher, new: SignedManifest, deltas: list[bytes]) -> None:
        self._turn()
        began = time.monotonic()
        written = refresher.bring(new, deltas, self._in_use())
        logger.debug("%s on the medium in %.2f s", new.manifest.id, time.monotonic() - began)
        with self._changed:
            self.on_medium, self._failure = new.manifest, None
            self._written_bytes += written.media_bytes
            del self._deltas[: len(deltas)]
            if self._wanted is new:
                self._wanted = None
            self._changed.notify_all()
