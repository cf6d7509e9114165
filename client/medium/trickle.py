# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's checkpoints of a replayed service come onto the medium while the person thinks.

A pause begins when the last operation is answered. In it home takes a checkpoint, unless its newest
one has everything, and the medium gets what it lacks of that. Nothing is learnt of these: the
working set is what was foreseen before, as it is now. It is made at both ends, as it has more bytes
than what changed. The next replica begins there: it replays what came since, and not the whole day.
Then the log is cut: it still leads on from the medium's older generation, and from where each
replica is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from client.medium.fetching import from_home
from client.moves.replicas import Replicas
from client.places.home import Home
from client.platform.power import Power, Urgency
from client.platform.settings import HOME
from client.session.feed import FINAL
from client.session.session import Session
from images import Manifest
from media import Media, Refresher, SignedManifest, oldest_on
from satchel.errors import SatchelError, StateError
from satchel.ids import OperationNumber
from satchel.polling import POLL_SECONDS
from wire import Link, Priority

logger = logging.getLogger(__name__)


PAUSE_SECONDS = 2.0
"""How long nothing may be asked of the service until that counts as a pause."""

OVERDUE_SECONDS = 300.0
"""After that nobody waits for a pause."""


@dataclass(frozen=True)
class TrickleStats:
    """What came onto the medium so far. bytes: written to its packs."""

    checkpoints: int = 0
    bytes: int = 0
    failure: str | None = None


class Trickle:
    """Of one session with a medium and a home. Thread-safe; `close` ends its thread."""

    def __init__(
        self,
        session: Session,
        home: Home,
        replicas: Replicas,
        media: Media,
        folder: Path,
        bulk: Link,
        read: Callable[[], SignedManifest],
        on_medium: Callable[[Manifest], None],
        every_seconds: float,
        power: Power,
    ) -> None:
        """folder: see Refresher; bulk: a link to home; read: home's newest checkpoint, its
        signature verified; on_medium: told of each checkpoint that has come onto the medium;
        every_seconds: from one to the next, at least; power: says when it waits."""
        self._session = session
        self._home = home
        self._replicas = replicas
        self._media = media
        self._refresher = Refresher(media, home.service, folder, from_home(bulk, self._turn))
        self._read = read
        self._on_medium = on_medium
        self._every_seconds, self._power = every_seconds, power
        self._closing = threading.Event()
        self._last = session.last
        self._quiet_since = self._taken = time.monotonic()
        self.brought = TrickleStats()
        self._thread = threading.Thread(target=self._run, name="trickle", daemon=True)
        self._thread.start()

    @property
    def due(self) -> bool:
        """Whether the medium lacks operations of the session and may get them now."""
        lacks = self._session.last > self._replicas.manifest.operation
        held = self._session.journal.beside or self._power.holds(Urgency.LATER)
        return lacks and not held

    def close(self) -> None:
        """End it. What is under way ends at its next piece; the medium has one state or the other.
        Nothing happens the second time."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(POLL_SECONDS):
            if not self._due():
                continue
            self._taken = time.monotonic()
            try:
                self.bring()
            except SatchelError as error:
                if not self._closing.is_set():
                    logger.info("the medium gets no newer checkpoint: %s", error)
                    self.brought = TrickleStats(
                        self.brought.checkpoints, self.brought.bytes, str(error)
                    )

    def _turn(self) -> None:
        """Operations go first, and a device that can afford nothing else waits."""
        self._power.wait(Urgency.LATER, self._closing)
        if self._closing.is_set():
            raise StateError("the session has ended")
        self._session.operations.give_way(Priority.BACKGROUND)

    def _due(self) -> bool:
        """Whether there is something to bring, and now is the time."""
        session, now = self._session, time.monotonic()
        if session.last != self._last or session.operations.under_way:
            self._last, self._quiet_since = session.last, now
        if self._power.holds(Urgency.LATER):
            return False
        if session.journal.beside or now - self._taken < self._every_seconds:
            return False
        if session.last <= self._replicas.manifest.operation:
            return False
        waited = now - self._taken > OVERDUE_SECONDS
        return (waited or now - self._quiet_since >= PAUSE_SECONDS) and self._home_is_level()

    def _home_is_level(self) -> bool:
        """Whether home takes part and has executed what the session had when the pause began."""
        feed = self._session.feed(HOME)
        return feed is not None and feed.state not in FINAL and feed.cursor >= self._last

    def bring(self) -> None:
        """Have home take a checkpoint where it has executed more, and the medium get it. Raises
        what home, the link and the medium raise; the medium has its old state or the new one."""
        newest = self._read()
        if newest.manifest.operation < self._session.last:
            self._home.take_copy()
            newest = self._read()
        manifest = newest.manifest
        if manifest.operation > self._session.journal.last:
            raise StateError("home is ahead of this session", why="another client has used it")
        self._session.journal.sync()
        written = self._refresher.bring(newest, in_use=self._replicas.in_use())
        self._on_medium(manifest)
        before = self.brought
        self.brought = TrickleStats(before.checkpoints + 1, before.bytes + written.media_bytes)
        with self._replicas.changing():
            self._replicas.manifest = manifest
            self._cut(manifest.operation)

    def _cut(self, operation: OperationNumber) -> None:
        """Called with `changing`: no replica is being brought up from an older checkpoint."""
        oldest = oldest_on(self._media, self._home.service, operation)
        live = [f.cursor for f in self._session.feeds() if f.state not in FINAL]
        self._session.journal.cut(OperationNumber(min([oldest, *live])))
