# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How long a replica is waited for that is on its way to taking part: as long as it gets further.

For example, one that has a thousand operations to execute over a slow uplink takes half an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from client.session.feed import FINAL, Feed, FeedState
from satchel.errors import UnavailableError

STANDSTILL_SECONDS = 900.0
"""After so long in one place a replica is given up."""

JOIN_POLL_SECONDS = 2.0


class Standstill:
    """Since when something gets no further. For one thread."""

    def __init__(self) -> None:
        self._place: object = None
        self._since = time.monotonic()

    def at(self, place: object) -> bool:
        """Whether it has been in that place, or in none, for too long."""
        now = time.monotonic()
        if place != self._place:
            self._place, self._since = place, now
        return now - self._since > STANDSTILL_SECONDS


def await_joined(feed: Feed, look: Callable[[], None]) -> None:
    """Until a replica keeps up. look: is called now and then, and may raise what ends the wait.
    Raises what put it into quarantine, and UnavailableError when it is lost or gets no further."""
    standstill = Standstill()
    while not feed.joined.wait(JOIN_POLL_SECONDS):
        look()
        if feed.state is FeedState.QUARANTINED and feed.error:
            raise feed.error
        if feed.state in FINAL or standstill.at(feed.cursor):
            raise UnavailableError(
                f"the replica at {feed.name} does not catch up",
                why=str(feed.error or f"it gets no further than operation {feed.cursor}"),
            )
