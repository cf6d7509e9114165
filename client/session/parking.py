# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session that nobody uses leaves home until somebody does.

Home has every operation, nothing is under way, and no surrogate has a replica: then the lease is
given back and the links to home rest, so that nothing is said any more. The first operation
has home's feed wake them, claim the lease and compare the histories, as at the beginning. Another
client may have used the service meanwhile: that ends this session, as ever.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from client.places.home import Home
from client.platform.settings import HOME
from client.session.feed import FeedState
from client.session.session import Session
from satchel.errors import SatchelError
from satchel.polling import IDLE_POLL_SECONDS
from wire import Link

logger = logging.getLogger(__name__)


class SessionParking:
    """Of one session with a home. Thread-safe; `close` ends its thread."""

    def __init__(
        self,
        session: Session,
        home: Home,
        bulk: Link,
        busy: Callable[[], bool],
        idle_seconds: float,
    ) -> None:
        """bulk: the other link to home; busy: whether something else is still to be had of home;
        idle_seconds: from the last use on."""
        self._session, self._home, self._bulk, self._busy = session, home, bulk, busy
        self._idle_seconds = idle_seconds
        self._bulk_stood = False
        self._used: tuple[int, int] = (0, 0)
        self._since = time.monotonic()
        self._closing = threading.Event()
        self._changing = threading.Lock()  # links do not rest while the feed connects
        self._thread = threading.Thread(target=self._run, name="session parking", daemon=True)
        self._thread.start()

    @property
    def parked(self) -> bool:
        """Whether home is told nothing until the next use, and the lease is given back."""
        feed = self._session.feed(HOME)
        return feed is not None and feed.resting and self._home.link.resting

    def close(self) -> None:
        """End it. Nothing happens the second time."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(min(IDLE_POLL_SECONDS, self._idle_seconds / 4)):
            if self._idle() and not self.parked:
                self._park()

    def _idle(self) -> bool:
        session, now = self._session, time.monotonic()
        used = session.last, session.tally.answered
        if used != self._used or session.operations.under_way or self._busy():
            self._used, self._since = used, now
        return now - self._since >= self._idle_seconds and self._home_has_all()

    def _home_has_all(self) -> bool:
        session = self._session
        feeds: Sequence[str] = [feed.name for feed in session.feeds()]
        feed = session.feed(HOME)
        if feed is None or feeds != [HOME] or feed.state is not FeedState.JOINED:
            return False
        if not session.stateful:
            return True
        return feed.cursor >= session.journal.last and session.journal.stable >= session.last

    def _park(self) -> None:
        feed = self._session.feed(HOME)
        with self._changing:
            if feed is None or not feed.rest(self._wake):
                return
            logger.info("nobody uses the service: home hears nothing until somebody does")
            with suppress(SatchelError):
                self._home.release()
            self._bulk_stood = self._bulk.alive
            self._bulk.rest()
            self._home.link.rest()

    def _wake(self) -> None:
        """On the feed's thread, before it says anything. Raises what connecting does."""
        with self._changing:
            logger.info("the service is used: home is reached again")
            self._since = time.monotonic()
            if self._bulk_stood:
                self._bulk.want()
            self._home.link.connect()
