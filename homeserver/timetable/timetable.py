# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Runs tasks when they are due, one at a time, also those whose time came while the host slept."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from homeserver.timetable.notices import Notices
from homeserver.timetable.record import TaskRun, TimetableRecord
from satchel.errors import NotFoundError, SatchelError, StateError
from satchel.progress import Progress
from satchel.timestamps import format_unix

logger = logging.getLogger(__name__)

POLL_SECONDS = 30.0

wall_clock = time.time
"""Tests have one of their own."""

RETRY_SECONDS = 3600.0
"""A task that failed runs again after so long, or after its usual time if that is shorter."""


class TimetableClosing(StateError):
    """The timetable ends, and a task with it."""


@dataclass(frozen=True)
class Task:
    """every: seconds from one run to the next. run: returns its result in one line; its errors
    become notices. ready: whether there is work at that Unix time; due: whether it must run before
    its time"""

    name: str
    every: float
    run: Callable[[Progress], str]
    ready: Callable[[float], bool] = lambda now: True
    due: Callable[[], bool] = lambda: False


class Timetable:
    """One thread. Times are those of the wall clock, as a host that is off counts none; a clock
    that jumps costs one run at a wrong time."""

    def __init__(
        self, tasks: Callable[[], Sequence[Task]], record: TimetableRecord, notices: Notices
    ) -> None:
        """tasks: those of this moment, asked at each look"""
        self._tasks = tasks
        self._record = record
        self._notices = notices
        self._running = threading.Lock()
        self._awake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="timetable", daemon=True)

    def start(self) -> None:
        """Begin to look. Once."""
        if not self._closing:
            self._thread.start()

    def close(self) -> None:
        """Run nothing more. A task under way ends at its next progress, or when its service is
        closed."""
        self._closing = True
        self._awake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def rows(self) -> list[dict[str, Any]]:
        """Return for each task: task, every_seconds, last, ok, said, next."""
        runs = self._record.runs
        return [self._row(task, runs.get(task.name)) for task in self._tasks()]

    def run(self, name: str) -> dict[str, Any]:
        """Run a task now and return its row. Raises NotFoundError, and the errors of the task."""
        for task in self._tasks():
            if task.name == name:
                with self._running:
                    error = self._run(task)
                if error:
                    raise error
                return self._row(task, self._record.runs.get(name))
        raise NotFoundError(f"home has no task {name[:80]!r}", fix="`satchel-home schedule`")

    def _row(self, task: Task, last: TaskRun | None) -> dict[str, Any]:
        return {
            "task": task.name,
            "every_seconds": task.every,
            "last": format_unix(last.at) if last and (last.said or not last.ok) else None,
            "ok": last.ok if last else True,
            "said": last.said if last else "",
            "next": format_unix(_next(task, last)) if last else None,
        }

    def _loop(self) -> None:
        while not self._closing:
            try:
                self._look()
                self._notices.deliver()
            except Exception:
                logger.exception("the timetable goes on in %d s", POLL_SECONDS)
            self._awake.wait(POLL_SECONDS)

    def _look(self) -> None:
        now = wall_clock()
        for task in self._tasks():
            last = self._record.runs.get(task.name)
            if last is None or last.at > now:  # new, or the clock had jumped ahead
                self._record.ran(task.name, TaskRun(now, *((last.ok, last.said) if last else ())))
                continue
            wanted = task.due() or (now >= _next(task, last) and task.ready(now))
            if wanted and not self._closing and self._running.acquire(blocking=False):
                try:
                    self._run(task)
                finally:
                    self._running.release()

    def _run(self, task: Task) -> Exception | None:
        """Called with `_running`."""
        error: Exception | None = None
        try:
            said = task.run(self._progress)
        except (SatchelError, OSError) as caught:
            said, error = str(caught), caught
            if self._closing:
                return error
        logger.info("%s: %s", task.name, said)
        self._record.ran(task.name, TaskRun(wall_clock(), error is None, said))
        if error is None:
            self._notices.resolve(task.name)
        else:
            self._notices.report(task.name, said)
        return error

    def _progress(self, done: int, total: int) -> None:
        if self._closing:
            raise TimetableClosing("it was stopped", why="home is being stopped")


def _next(task: Task, last: TaskRun) -> float:
    """The Unix time when it is due."""
    return last.at + (task.every if last.ok else min(task.every, RETRY_SECONDS))
