# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a session to the surrogate that the person named with `--at`.

A surrogate that does not answer does not end a session that home answers: it goes on with home, and
the surrogate is tried again.
"""

from __future__ import annotations

import logging
import threading

from client.platform.settings import HOME
from client.service import ServiceSession
from satchel.errors import SatchelError, UnavailableError

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""From an attempt that failed to the next one."""


class Arrival:
    """The attempts to move one session to one surrogate. `begin`, then `close`."""

    def __init__(self, session: ServiceSession, surrogate: str) -> None:
        self._session = session
        self._surrogate = surrogate
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._retry, name="arrival", daemon=True)

    def begin(self) -> None:
        """Move the session there. If the surrogate does not answer but home does, log that and try
        again from time to time. Raises SatchelError otherwise, unless the session is ending."""
        try:
            self._session.move(self._surrogate)
        except UnavailableError as error:
            if self._session.ending:
                return
            if self._session.leader != HOME:
                raise
            logger.warning(
                "%s; %s continues with home, and %s is tried again every %.0f s",
                error,
                self._session.service,
                self._surrogate,
                AGAIN_SECONDS,
            )
            self._thread.start()
        except SatchelError:
            if not self._session.ending:
                raise

    def close(self) -> None:
        """Try no more. Settle the session before: that ends a move that is under way."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _retry(self) -> None:
        while not self._closing.wait(AGAIN_SECONDS):
            if self._session.ending or self._session.leader in self._session.settings.surrogates:
                return  # the person, or the session by itself, moved elsewhere meanwhile
            try:
                self._session.move(self._surrogate)
            except SatchelError as error:
                logger.info("%s: %s", self._surrogate, error)
                continue
            logger.warning("%s is at %s now", self._session.service, self._surrogate)
            return
