# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The regular tasks of a home: checkpoints, check and prune of its store, free space."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from homeserver.services.service import Service
from homeserver.settings import HomeSettings
from homeserver.store.hurt import hurt_text
from homeserver.timetable.timetable import Task
from satchel.errors import CapacityError, IntegrityError
from satchel.progress import Progress

DAY = 86400.0

DISK_SECONDS = 600.0

DISK_LEAST = 2 << 30
"""Bytes of the store's disk below which the owner gets a notice."""

IDLE_SECONDS = 60.0
"""A service that was given no operation for so long is idle."""


class Upkeep(Protocol):
    """Has the store checked and pruned."""

    def verify(self, progress: Progress) -> dict[str, Any]:
        """Do Home.verify."""

    def prune(self, *, progress: Progress) -> dict[str, Any]:
        """Do Home.prune."""


class HomeTasks:
    """The tasks of a home. One thread at a time."""

    def __init__(
        self, settings: HomeSettings, running: Callable[[], Sequence[Service]], upkeep: Upkeep
    ) -> None:
        """running: the services that have a replica now"""
        self._settings = settings
        self._running = running
        self._upkeep = upkeep
        self._seen: dict[str, tuple[int, float]] = {}

    def __call__(self) -> list[Task]:
        """The tasks of this moment."""
        wish = self._settings
        found = [Task("disk", DISK_SECONDS, self._look_at_disk)]
        if wish.verify_days:
            found.append(Task("verify", wish.verify_days * DAY, self._verify))
        if wish.prune_days:
            found.append(Task("prune", wish.prune_days * DAY, self._prune))
        if wish.checkpoint_minutes:
            found += map(self._checkpoints, self._running())
        return found

    def _checkpoints(self, service: Service) -> Task:
        """A stateless service needs none after its first."""
        every, most = self._settings.checkpoint_minutes * 60.0, self._settings.checkpoint_operations

        def take(progress: Progress) -> str:
            made = service.checkpoint()
            return f"checkpoint {made.manifest.id}, its machine paused {made.paused_seconds:.2f} s"

        def ready(now: float) -> bool:
            newest = service.shelf.latest()
            if newest is None or not self._changed(service):
                return False
            age = now - datetime.fromisoformat(newest.created).timestamp()
            return age >= 2 * every or (age >= every and self._idle(service))

        def due() -> bool:
            return bool(most) and self._changed(service) >= most

        return Task(f"checkpoint {service.name}", every, take, ready, due)

    def _changed(self, service: Service) -> int:
        """Return the operations since its newest checkpoint; 1 for a carried service, whose work is
        not counted."""
        newest = service.shelf.latest()
        if newest is None:
            return 0
        if newest.contract.carried:
            return 1
        return service.view().last_executed - newest.operation if service.record.stateful else 0

    def _idle(self, service: Service) -> bool:
        now, last = time.monotonic(), service.last_logged
        before, since = self._seen.get(service.name, (-1, now))
        if last != before:
            since = now
        self._seen[service.name] = (last, since)
        return now - since >= IDLE_SECONDS

    def _verify(self, progress: Progress) -> str:
        report = self._upkeep.verify(progress)
        if not report["ok"]:
            what = hurt_text(report["hurt"]) or "chunks are damaged that nothing needs"
            fix = "`satchel-home repair` fetches them from sticks and surrogates"
            raise IntegrityError("the store is damaged", why=what, fix=fix)
        return "every chunk is as it was stored"

    def _prune(self, progress: Progress) -> str:
        report = self._upkeep.prune(progress=progress)
        freed = report["bytes_before"] - report["bytes_after"]
        return f"{report['removed']} chunks removed, {freed >> 20} MiB freed"

    def _look_at_disk(self, progress: Progress) -> str:
        free = shutil.disk_usage(self._settings.data).free
        if free < DISK_LEAST:
            raise CapacityError(
                f"the disk of {self._settings.data} has {free >> 20} MiB left",
                fix="make room: `satchel-home forget`, then `satchel-home prune`",
            )
        return f"{free >> 30} GiB are free"
