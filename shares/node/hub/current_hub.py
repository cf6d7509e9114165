# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home as a node reaches it, over one membership after the other."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from satchel.polling import FAST_POLL_SECONDS
from shares.node.hub.hub import Hub
from shares.node.hub.waits import HomeWait

WAIT_SECONDS = 0.25

T = TypeVar("T")


class CurrentHub:
    """The hub of the membership of the moment. Thread-safe.

    latest: of the membership that was the last one, which may be over. wait: seconds for which a
    home that is not reached is waited for, None: for ever. asked: when home was needed last,
    monotonic; wanted: set when it is needed and there is no membership
    """

    def __init__(self, hub: Hub, wait: float | None) -> None:
        self.latest = hub
        self.wait = wait
        self._joined = threading.Event()
        self._joined.set()
        self._over: OSError | None = None
        self.asked = time.monotonic()
        self.wanted = threading.Event()

    @property
    def joined(self) -> bool:
        """Whether there is a membership, as far as the node knows."""
        return self._joined.is_set()

    @property
    def connected(self) -> bool:
        return self.latest.connected

    def get(self) -> Hub:
        """Between two memberships this waits for the next one. Raises OSError where there is none
        any more."""
        self.asked = time.monotonic()
        if not self.joined:
            self.wanted.set()
        self._joined.wait(self.wait)
        self.require()
        return self.latest

    def require(self) -> None:
        """Raises OSError where there is no share any more."""
        if self._over is not None:
            raise OSError(*self._over.args)

    def ask(self, question: Callable[[Hub], T]) -> T:
        """What changes nothing is asked again of the next membership, if this one ends."""
        began = time.monotonic()
        hub = self.get()
        try:
            return question(hub)
        except OSError as error:
            if error.errno != errno.EIO or hub.connected:
                raise
            while self.latest is hub or not self.joined:
                self.require()
                if self.wait is not None and time.monotonic() - began > self.wait:
                    raise
                time.sleep(FAST_POLL_SECONDS)
            return question(self.latest)

    def wait_until(self, over: Callable[[float], bool]) -> None:
        """over: waits for so many seconds at most, and says whether it is. Raises OSError: EIO
        where that takes too long, or why there is no share any more."""
        wait = HomeWait(lambda: self.latest, "what was made here")
        while not over(WAIT_SECONDS):
            self.require()
            wait.require(self.wait)

    def limit_wait(self, seconds: float) -> None:
        """For a home that is not reached nobody waits longer any more."""
        self.wait = seconds if self.wait is None else min(self.wait, seconds)

    def lost(self) -> None:
        """The membership is over: until `go_on`, what needs home waits."""
        self._joined.clear()

    def go_on(self, hub: Hub) -> None:
        """There is a new membership."""
        self.latest = hub
        self._joined.set()

    def end(self, why: OSError) -> None:
        """There is no share any more: whoever waits for home, or asks it, raises this."""
        self._over = why
        self._joined.set()
