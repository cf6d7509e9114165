# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Waits of programs for home, which end whatever they wait for."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable

from shares.node.hub.hub import Hub

log = logging.getLogger(__name__)


class HomeWait:
    """One wait for home, over one membership after the other. Not thread-safe.

    The time counts while home is not reached, and while it has the request and does not answer:
    another node may not give its blocks back.
    """

    def __init__(self, hub: Callable[[], Hub], about: str) -> None:
        """hub: of the latest membership; about: the operation, for the log"""
        self._hub, self._about = hub, about
        self._by = hub()
        self._wait = self._by.wait()
        self._before = 0.0

    def require(self, limit: float | None, *, busy: bool = False) -> None:
        """Raise OSError(EIO), and log it, if the wait takes longer than `limit` seconds. While home
        is connected it gets some time in any case. Call this often. busy: as for Wait."""
        hub = self._hub()
        if hub is not self._by:
            self._before += self._wait.seconds()
            self._by, self._wait = hub, hub.wait()
        late = self._wait.over(limit, before=self._before, busy=busy) if limit is not None else 0.0
        if late:
            why = "home has not answered" if hub.connected else "home is not reached"
            log.warning("%s: %s for %.0f s", self._about, why, late)
            raise OSError(errno.EIO, why)
