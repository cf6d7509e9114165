# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Threads for requests to sources. One that hangs is left alone: daemon threads, nobody joins."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

IDLE_SECONDS = 2.0
"""After so long without work a thread ends."""

Job = Callable[[], None]


class Crew:
    """Runs each job at once in a thread that is idle, or in a new one. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._idle = 0
        self._closed = False

    def run(self, job: Job) -> None:
        """`job` raises nothing."""
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
                return
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Let idle threads end; those at work end after it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while job := self._next():
            job()

    def _next(self) -> Job | None:
        with self._changed:
            if not self._jobs and not self._closed:
                self._idle += 1
                self._changed.wait_for(lambda: self._jobs or self._closed, IDLE_SECONDS)
                self._idle -= 1
            return self._jobs.popleft() if self._jobs else None
