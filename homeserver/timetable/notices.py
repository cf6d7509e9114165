# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Tells the owner of problems, and reminds them once a day."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from homeserver.timetable.channels import Channel
from homeserver.timetable.record import Notice, TimetableRecord
from satchel.errors import SatchelError
from satchel.timestamps import format_unix

logger = logging.getLogger(__name__)

TITLE = "Satchel at home"

REMIND_SECONDS = 86400.0
"""A notice that stays open is sent again after this time."""


class Notices:
    """Thread-safe. `report` and `resolve` never wait for a channel; `deliver` does."""

    def __init__(self, record: TimetableRecord, channels: Mapping[str, Channel]) -> None:
        """channels: by the places that the settings name"""
        self._record = record
        self._channels = channels
        self._delivering = threading.Lock()

    def report(self, subject: str, text: str) -> None:
        """Open the notice of a problem, or change its text. subject: such as `checkpoint notes`"""
        known = self._record.notices.get(subject)
        logger.warning("%s: %s", subject, text)
        if known is None or known.text != text:
            since = known.since if known else time.time()
            told = known.told if known else 0.0
            self._record.note(subject, Notice(text, since, told))

    def resolve(self, subject: str) -> None:
        """Close the notice."""
        if subject in self._record.notices:
            logger.info("%s: right again", subject)
            self._record.note(subject, None)

    def rows(self) -> list[dict[str, Any]]:
        """Return the open notices, the oldest first."""
        found = sorted(self._record.notices.items(), key=lambda item: item[1].since)
        return [
            {"subject": subject, "text": n.text, "since": format_unix(n.since)}
            for subject, n in found
        ]

    def deliver(self) -> None:
        """Send new notices, and again those that were sent REMIND_SECONDS ago."""
        now = time.time()
        with self._delivering:
            for subject, notice in self._record.notices.items():
                if notice.told <= now < notice.told + REMIND_SECONDS:
                    continue
                arrived = not all(self._tell(subject, notice.text).values())
                current = self._record.notices.get(subject)
                if self._channels and arrived and current:
                    self._record.note(subject, replace(current, told=now))

    def test(self) -> dict[str, str]:
        """Send a test by each channel; by its place, why it failed, or nothing."""
        with self._delivering:
            return self._tell("notify test", "notices of this home arrive here")

    def _tell(self, subject: str, text: str) -> dict[str, str]:
        failed = {}
        for place, channel in self._channels.items():
            try:
                channel(TITLE, f"{subject}: {text}")
                failed[place] = ""
            except SatchelError as error:
                logger.warning("%s was told nothing: %s", place, error)
                failed[place] = str(error)
        return failed
