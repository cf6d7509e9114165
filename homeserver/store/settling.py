# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Settling in the background: the daemon's store gets smaller while nobody needs the processor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chunkstore import Store
from satchel.errors import SatchelError

logger = logging.getLogger(__name__)

FIRST_SECONDS = 300.0
"""A daemon that was started is about to be asked for something."""

PAUSE_SECONDS = 600.0
"""Between two looks; one that finds nothing to do reads the index once."""


class _SettlingStopped(Exception):
    """Raised out of the progress of a settling that is to end, or to make way."""


class BackgroundSettling:
    """A thread that settles a store again and again, with what nobody else wants of the machine."""

    def __init__(
        self, store: Store, *, first: float = FIRST_SECONDS, pause: float = PAUSE_SECONDS
    ) -> None:
        """Starts it. `store` stays open until `stop` has returned."""
        self._store = store
        self._first = first
        self._pause = pause
        self._stopping = threading.Event()
        self._away = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="settling", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, within a fraction of a second; what is settled stays. Harmless again."""
        self._stopping.set()
        self._thread.join()

    @contextmanager
    def making_way(self) -> Iterator[None]:
        """For whoever settles the store without such manners: within it, this one soon stops."""
        with self._lock:
            self._away += 1
        try:
            yield
        finally:
            with self._lock:
                self._away -= 1

    def _run(self) -> None:
        wait = self._first
        while not self._stopping.wait(wait):
            wait = self._pause
            try:
                report = self._store.settle(background=True, progress=self._look)
            except _SettlingStopped:
                continue
            except SatchelError as error:
                logger.warning("the store cannot be settled: %s", error)
                continue
            if report.chunks:
                saved = (report.bytes_before - report.bytes_after) / 1e6
                logger.info("settled %d chunks, %.1f MB less", report.chunks, saved)

    def _look(self, done: int, total: int) -> None:
        if self._stopping.is_set() or self._away:
            raise _SettlingStopped
