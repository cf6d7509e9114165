# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a session ends with home: what it lacks is sent if it takes it, and said otherwise.

Home takes part with every operation, so at the end there is little to send, if anything. A home
that takes it is waited for as long as it goes on taking; one that is silent is asked for a sign of
life, which one gives at once that is there, and not for more.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from satchel.errors import NotFoundError, SatchelError, StateError

if TYPE_CHECKING:
    from client.places.home import Home
    from client.session.session import Session

logger = logging.getLogger(__name__)

QUIET_SECONDS = 2.0
"""How long home is waited for that takes nothing."""

MOST_SECONDS = 10.0
"""How long a home is waited for that takes one after the other."""


@dataclass(frozen=True)
class UnsentOperations:
    """Operations `first` to `last`, of which this client does not know that home has them on disk.

    log: the folder of the log that has them
    """

    first: int
    last: int
    log: str

    def __str__(self) -> str:
        """For people."""
        which = f"operations {self.first} to {self.last} are"
        which = f"operation {self.last} is" if self.first == self.last else which
        return f"{which} not at home yet; the log at {self.log} has what is missing there"


class Shutdown:
    """The end of one session. Thread-safe: whoever asks first begins it, all hear how it went."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._settled = False
        self._silent = False
        self._unsent: UnsentOperations | None = None

    def settle(self, session: Session, home: Home | None) -> UnsentOperations | None:
        """Have the session accept nothing more; what home lacks then, where it does not come to
        have it soon. None without a home, which nothing is kept for."""
        session.refuse(
            StateError(
                f"the session of {self._service} has ended",
                fix=f"start it again with `satchel run {self._service}`",
            )
        )
        with self._lock:
            if not self._settled and home is not None:
                self._unsent = self._send(session, home)
                if self._unsent:
                    logger.warning("%s: %s", self._service, self._unsent)
            self._settled = True
            return self._unsent

    def release(self, home: Home) -> None:
        """Give the lease back, where home answers. Never fails."""
        if not home.link.alive or home.link.resting:
            return
        if self._silent or not home.answers():
            logger.warning("the lease was not given back: home does not answer")
            return
        try:
            home.release()
        except NotFoundError:
            return  # home has no such service
        except SatchelError as error:
            logger.warning("the lease was not given back: %s", error)

    def _send(self, session: Session, home: Home) -> UnsentOperations | None:
        journal, deadline = session.journal, time.monotonic() + MOST_SECONDS
        lacking, before = journal.stable < journal.last, -1
        if lacking and home.link.alive:
            self._silent = not home.answers()
            while not self._silent and before < journal.stable and time.monotonic() < deadline:
                before = journal.stable
                lacking = not session.wait_stable(QUIET_SECONDS)
        if not lacking:
            return None
        first = max(journal.stable, journal.base) + 1
        return UnsentOperations(first, journal.last, str(journal.place))
