# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who has copies of a carried machine: home, by deltas that go through here, and the medium.

Home comes first. A state counts when home has signed it; then the medium gets it, and this client
remembers which one that was. So a session without home can tell whether the medium has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from client.carry.delta_shipper import DeltaShipper
from client.medium.copies import MediumCopy
from client.medium.fetching import refresh_folder
from client.places.home import Home
from client.platform.settings import HOME, ClientSettings
from client.session.checkpoints import OwnerOverrides, verified
from client.state.last_seen import KnownCopy, LastSeenStore, require_newest
from images import Manifest
from media import Media, SignedManifest
from satchel.errors import SatchelError, UnavailableError
from satchel.timestamps import elapsed
from wire import Link

logger = logging.getLogger(__name__)


class MachineCopies:
    """Of one session. Thread-safe, but for what begins and ends it.

    shipping: deltas on their way home, once there is one
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
        self._medium: MediumCopy | None = None
        self._accepted: SignedManifest | None = None
        if media is not None:
            folder = refresh_folder(settings, home.service)
            give_way = lambda: self.shipping.give_way()  # noqa: E731, PLW0108
            self._medium = MediumCopy(media, home.service, folder, bulk, give_way, in_use)

    @property
    def on_medium(self) -> Manifest | None:
        """The newest signed state on the medium, as far as it was looked for."""
        return self._medium.manifest if self._medium else None

    def resting(self, accepted: OwnerOverrides) -> Manifest:
        """The medium's copy, from which a surrogate goes on without home. Raises NotFoundError,
        AccessError for one that the owner did not sign, and unless it is accepted StateOlder and
        CheckpointPartial."""
        assert self._medium is not None
        self._medium.require_all_of_it(self._signers, accepted=accepted.part)
        copy = self._medium.signed(self._signers)
        require_newest(self._known.get(self._service), copy.manifest, accepted.older)
        self._accepted = copy if accepted.older == copy.manifest.id else None
        return copy.manifest

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
        """A session begins with home: see what the medium has, and have it get what home has.
        led_on: home's machine leads."""
        if self._medium:
            try:
                self._medium.signed(self._signers)
            except SatchelError as error:
                logger.warning("the medium gets no copies: %s", error)
                self._medium.failure = str(error)
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
        """Return when the medium has what home has. Raises UnavailableError after so long."""
        if self._medium and not self._medium.wait(seconds):
            why = self._medium.failure or "it takes too long"
            raise UnavailableError("the medium lacks the newest copy", why=why)

    def status(self, home_behind: float, *, rests: bool) -> list[dict[str, Any]]:
        """A row for each place. home_behind: seconds; rests: nobody has led since the medium's."""
        newest = self.shipping.copy.manifest.id
        at_home = {"checkpoint": newest, "seconds_behind": round(home_behind, 1)}
        failure = {"failure": self.shipping.failure}
        rows: list[dict[str, Any]] = [{"place": HOME} | at_home | failure]
        return rows + ([self._medium.status(rests=rests)] if self._medium else [])

    def close(self) -> None:
        """End both; what lacks something then will lack it."""
        if self._medium:
            self._medium.close()
        self.shipping.close()

    def _kept(self, new: SignedManifest, delta: bytes | None, *, led_on: bool = False) -> None:
        """Home has a new copy. delta: since the one before, where it came through here."""
        self._known.put(self._service, KnownCopy(new.manifest.id, led_on))
        if self._medium and self._medium.manifest:
            self._medium.want(new, delta)
