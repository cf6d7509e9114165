# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The copies of a carried machine: at home, by deltas through this client, and on all media.

Home comes first. A state counts when home has signed it; then the media get it, and this client
remembers which one that was. So a session without home can tell whether a medium has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from client.medium.fetching import refresh_folder
from client.medium.sticks import Stick, Sticks
from client.places.home import Home
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import OwnerOverrides, candidates, require_all_of_it, verified
from client.state.last_seen import KnownCopy, LastSeenStore, require_newest
from client.streams.delta_shipper import DeltaShipper
from client.streams.medium_copy import MediumCopy
from images import Manifest
from media import SignedManifest
from satchel.errors import UnavailableError
from satchel.timestamps import elapsed
from wire import Link


class MachineCopies:
    """The copies of one session. Thread-safe, but for its begin and end.

    shipping: deltas on their way home, once there is one
    """

    shipping: DeltaShipper

    def __init__(
        self,
        settings: ClientSettings,
        home: Home,
        bulk: Link,
        sticks: Sticks,
        in_use: Callable[[], Sequence[Manifest]],
    ) -> None:
        """bulk: a link to home; in_use: checkpoints with which replicas began that run."""
        self._service = home.service
        self._home = home
        self._bulk = bulk
        self._signers = settings.allowed_signers
        self._known = LastSeenStore(settings.state / "latest-copies", KnownCopy.decode)
        self._accepted: SignedManifest | None = None
        self._settings, self._sticks, self._in_use = settings, sticks, in_use
        self._newest: SignedManifest | None = None
        self._lock = threading.Lock()  # guards the next one
        self._media: dict[str, MediumCopy] = {}
        for stick in sticks.of_service():
            self._copy_on(stick)

    @property
    def on_medium(self) -> Manifest | None:
        """The newest signed state on a medium."""
        found = [copy.manifest for copy in self._copies() if copy.manifest]
        return max(found, key=lambda one: one.created, default=None)

    def plugged(self, stick: Stick) -> None:
        """A medium came, or came back: it gets the state of home."""
        if stick.newest:
            copy = self._copy_on(stick)
            if self._newest:
                copy.want(self._newest)

    def _copy_on(self, stick: Stick) -> MediumCopy:
        folder = refresh_folder(self._settings, self._service, stick.uuid)
        give_way = lambda: self.shipping.give_way()  # noqa: E731, PLW0108
        with self._lock:
            before = self._media.get(stick.uuid)
            made = MediumCopy(stick, self._service, folder, self._bulk, give_way, self._in_use)
            self._media[stick.uuid] = made
        if before:
            before.close()
        return made

    def _copies(self) -> list[MediumCopy]:
        with self._lock:
            return list(self._media.values())

    def resting(self, accepted: OwnerOverrides) -> Manifest:
        """The newest copy on a medium, from which a surrogate continues without home. Raises
        NotFoundError, AccessError for one that the owner did not sign, and unless it is accepted
        StateOlder and CheckpointPartial."""
        found = candidates(self._service, self._sticks.media, None, self._signers)
        copy = found[0].manifest
        require_all_of_it(found, copy, None, accepted=accepted.part)
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
        """A session begins with home: bring the media up to home's state.
        led_on: home's machine leads."""
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
        """Return when all media are level with home; without one that was pulled out, if another
        one is. Raises UnavailableError after so long."""
        copies = self._copies()
        alone = len(copies) == 1
        lacking = [copy for copy in copies if not copy.wait(seconds if copy.there or alone else 0)]
        if len(lacking) == len(copies) > 0 or any(copy.there for copy in lacking):
            why = lacking[0].failure or "it takes too long"
            raise UnavailableError("the medium lacks the newest copy", why=why)

    def status(self, home_behind: float, *, rests: bool) -> list[dict[str, Any]]:
        """A row for each place. home_behind: seconds; rests: the medium's is the newest."""
        newest = self.shipping.copy.manifest.id
        at_home = {"checkpoint": newest, "seconds_behind": round(home_behind, 1)}
        rows: list[dict[str, Any]] = [
            {"place": HOME} | at_home | {"failure": self.shipping.failure}
        ]
        for copy in self._copies():
            place = "medium" if len(rows) == 1 else f"medium at {copy.root}"
            rows.append(copy.status(place, rests=rests))
        return rows

    def close(self) -> None:
        """End both; what lacks something then will lack it. The medium has one state or another,
        whatever was under way."""
        for copy in self._copies():
            copy.close()
        self.shipping.close()

    def _kept(self, new: SignedManifest, delta: bytes | None, *, led_on: bool = False) -> None:
        """Home has a new copy. delta: since the one before, where it came through here. Have the
        medium get it; returns at once."""
        self._known.put(self._service, KnownCopy(new.manifest.id, led_on))
        self._newest = new
        for copy in self._copies():
            copy.want(new, delta)
