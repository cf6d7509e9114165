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
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from client.medium.fetching import from_home
from client.medium.sticks import Stick, Sticks, extend_log, settle_log
from client.moves.replicas import Replicas
from client.places.home import Home
from client.platform.power import Power, Urgency
from client.platform.settings import HOME
from client.session.feed import FINAL
from client.session.journal import Journal
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
        sticks: Sticks,
        folder: Callable[[str], Path],
        log_on: Callable[[Media], Journal],
        bulk: Link,
        read: Callable[[], SignedManifest],
        on_medium: Callable[[Manifest], None],
        every_seconds: float,
        power: Power,
    ) -> None:
        """folder: see Refresher, from a medium's UUID; log_on: opens the log on a medium; bulk: a
        link to home; read: home's newest checkpoint, its signature verified; on_medium: told of
        each checkpoint that has come onto a medium; every_seconds: from one to the next, at least;
        power: says when it waits."""
        self._session = session
        self._home = home
        self._replicas = replicas
        self._sticks, self._folder, self._log_on = sticks, folder, log_on
        self._fetch = from_home(bulk, self._turn)
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
        """Whether a medium lacks operations of the session and may get them now."""
        return bool(self._lacking()) and not self._power.holds(Urgency.LATER)

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
        if now - self._taken < self._every_seconds or not self._lacking():
            return False
        waited = now - self._taken > OVERDUE_SECONDS
        return (waited or now - self._quiet_since >= PAUSE_SECONDS) and self._home_is_level()

    def _home_is_level(self) -> bool:
        """Whether home takes part and has executed what the session had when the pause began."""
        feed = self._session.feed(HOME)
        return feed is not None and feed.state not in FINAL and feed.cursor >= self._last

    def _lacking(self) -> list[Stick]:
        """The media that lack operations. Where one of them has failed, it waits for new ones."""
        newest, last = self._replicas.manifest.operation, self._session.last
        found = []
        for stick in self._sticks.of_service():
            assert stick.newest is not None
            main = stick is self._sticks.main
            if (main and self._session.journal.beside) or not stick.there:
                continue
            behind = not main and not stick.failure and stick.newest.operation < last
            if last > newest or behind:
                found.append(stick)
        return found

    def bring(self) -> None:
        """Have home take a checkpoint where it has executed more, and all media get it. Raises what
        home, the link and the media raise; each has its old state or the new one."""
        newest = self._read()
        if newest.manifest.operation < self._session.last:
            self._home.take_copy()
            newest = self._read()
        manifest = newest.manifest
        if manifest.operation > self._session.journal.last:
            raise StateError("home is ahead of this session", why="another client has used it")
        self._session.journal.sync()
        failure: SatchelError | None = None
        for stick in self._lacking():
            try:
                self._bring_onto(stick, newest)
            except SatchelError as error:
                stick.failure, failure = str(error), failure or error
        if failure:
            raise failure

    def _bring_onto(self, stick: Stick, newest: SignedManifest) -> None:
        """The log of another medium than the session's is extended before the checkpoint comes and
        cut after that, so it leads on from what is there at any moment."""
        journal, manifest = self._session.journal, newest.manifest
        if stick is self._sticks.main:
            oldest = self._refresh(stick, newest)
            with self._replicas.changing():
                self._replicas.manifest = manifest
                self._cut(oldest)
        else:
            stick.require_log_folder(self._home.service)
            with closing(self._log_on(stick.media)) as log:
                extend_log(journal, log, stick)
                oldest = self._refresh(stick, newest)
                settle_log(journal, log, stick, manifest, oldest)
        stick.newest, stick.failure = manifest, None

    def _refresh(self, stick: Stick, newest: SignedManifest) -> OperationNumber:
        """Return the operation of the oldest checkpoint that is there then."""
        service, folder = self._home.service, self._folder(stick.uuid)
        refresher = Refresher(stick.media, service, folder, self._fetch)
        written = refresher.bring(newest, in_use=self._replicas.in_use())
        self._on_medium(newest.manifest)
        before = self.brought
        self.brought = TrickleStats(before.checkpoints + 1, before.bytes + written.media_bytes)
        return oldest_on(stick.media, service, newest.manifest.operation)

    def _cut(self, oldest: OperationNumber) -> None:
        """Called with `changing`: no replica is being brought up from an older checkpoint."""
        live = [f.cursor for f in self._session.feeds() if f.state not in FINAL]
        self._session.journal.cut(OperationNumber(min([oldest, *live])))
