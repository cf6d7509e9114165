# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Has the services that are wanted run: after a start of the daemon, a wish, and a crash."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from homeserver.services.service import Service
from satchel.errors import SatchelError

logger = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""How often it looks for machines that have ended."""

PAUSES = (30.0, 60.0, 120.0, 240.0, 480.0, 600.0)
"""Seconds before each further attempt for a service that fails again and again."""

STEADY_SECONDS = 600.0
"""A machine that ran for so long did not fail because of its start."""


class Alarm(Protocol):
    """Gives notices to the owner."""

    def report(self, subject: str, text: str) -> None:
        """Open a notice, or change its text."""

    def resolve(self, subject: str) -> None:
        """Close the notice."""


@dataclass
class _Attempts:
    """The starts of one service. failures: how many failed in a row; due: the time of the next
    attempt; started: that of the last success, or when a machine that somebody else started
    was seen, None without one; both monotonic."""

    failures: int = 0
    due: float = 0.0
    started: float | None = None

    def fail(self, now: float) -> float:
        """Note a failure; the seconds until the next attempt."""
        pause = PAUSES[min(self.failures, len(PAUSES) - 1)]
        self.failures, self.due, self.started = self.failures + 1, now + pause, None
        return pause


class Launcher:
    """Launches wanted services one at a time, as each needs the processors for its start. A service
    that fails is tried again after longer and longer pauses. One thread."""

    def __init__(
        self,
        wanted: Callable[[], Sequence[Service]],
        is_wanted: Callable[[str], bool],
        alarm: Alarm,
    ) -> None:
        """wanted: the services that are; is_wanted: whether one still is, asked right before its
        start; alarm: gets notices of services that fail"""
        self._wanted = wanted
        self._is_wanted = is_wanted
        self._alarm = alarm
        self._attempts: dict[str, _Attempts] = {}
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="launcher", daemon=True)

    def start(self) -> None:
        """Begin. Harmless the second time."""
        with self._lock:
            if not self._closing and self._thread.ident is None:
                self._thread.start()

    def wake(self, name: str) -> None:
        """Try that service at once, whatever pause it has."""
        with self._lock:
            self._attempts.pop(name, None)
        self._awake.set()

    def close(self) -> None:
        """Launch nothing more. A launch that is under way ends when its service is closed."""
        with self._lock:
            self._closing = True
        self._awake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            self._awake.clear()
            for service in self._wanted():
                if not self._closing:
                    self._look(service)
            self._awake.wait(POLL_SECONDS)

    def _look(self, service: Service) -> None:
        now = time.monotonic()
        with self._lock:
            attempts = self._attempts.setdefault(service.name, _Attempts())
        if service.present:
            if attempts.started is None:
                attempts.started = now
            if now - attempts.started > STEADY_SECONDS:
                self._alarm.resolve(f"service {service.name}")
            return
        if attempts.started is not None:
            steady = now - attempts.started > STEADY_SECONDS
            attempts.failures = 0 if steady else attempts.failures
            pause = 0.0 if steady else attempts.fail(now)
            attempts.started = None
            self._alarm.report(
                f"service {service.name}", f"it ended; it starts again in {pause:.0f} s"
            )
        if now < attempts.due:
            return
        try:
            if service.launch(wanted=lambda: self._is_wanted(service.name)):
                attempts.started = time.monotonic()
        except Exception as error:
            if self._closing or not self._is_wanted(service.name):
                return
            pause = attempts.fail(time.monotonic())
            unexpected = None if isinstance(error, SatchelError | OSError) else error
            if unexpected:
                logger.error("service %s", service.name, exc_info=unexpected)
            self._alarm.report(
                f"service {service.name}",
                f"it does not start, next attempt in {pause:.0f} s: {error}",
            )
