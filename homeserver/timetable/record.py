# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The last runs of tasks and the open notices, on disk: docs/formats/home.md."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from homeserver.registry import read_versioned
from satchel.errors import UsageError
from satchel.files import write_durably
from satchel.typed import Form

logger = logging.getLogger(__name__)

VERSION = 1

_FORM = Form()


@dataclass(frozen=True)
class TaskRun:
    """The last run of a task. at: Unix time of its end; before the first run, the time when home
    first knew the task. said: the result, or why it failed"""

    at: float
    ok: bool = True
    said: str = ""


@dataclass(frozen=True)
class Notice:
    """A problem. since: Unix time of its beginning; told: when the owner last got the notice, or
    0"""

    text: str
    since: float
    told: float = 0.0


@dataclass(frozen=True)
class _Content:
    version: int
    runs: dict[str, TaskRun]
    notices: dict[str, Notice]


class TimetableRecord:
    """Thread-safe. A damaged file counts as none: tasks then run when their time comes again."""

    def __init__(self, path: Path) -> None:
        """Read it. Raises UnsupportedError for a newer version, OSError."""
        self._path = path
        self._lock = threading.Lock()
        self._content = _read(path)

    @property
    def runs(self) -> dict[str, TaskRun]:
        """The last run of each task, by its name."""
        return dict(self._content.runs)

    @property
    def notices(self) -> dict[str, Notice]:
        """The open notices, by their subjects."""
        return dict(self._content.notices)

    def ran(self, task: str, run: TaskRun) -> None:
        """Durable on return. Raises OSError."""
        with self._lock:
            self._write(replace(self._content, runs={**self._content.runs, task: run}))

    def note(self, subject: str, notice: Notice | None) -> None:
        """Open or change a notice, or close it with None. Durable on return. Raises OSError."""
        with self._lock:
            others = {k: v for k, v in self._content.notices.items() if k != subject}
            notices = others if notice is None else {**others, subject: notice}
            if notices != self._content.notices:
                self._write(replace(self._content, notices=notices))

    def _write(self, content: _Content) -> None:
        write_durably(self._path, json.dumps(_FORM.plain(content), indent=1).encode() + b"\n")
        self._content = content


def _read(path: Path) -> _Content:
    empty = _Content(VERSION, {}, {})
    try:
        return read_versioned(path, _Content, VERSION, "the timetable")
    except FileNotFoundError:
        return empty
    except (ValueError, RecursionError, UsageError) as error:
        logger.warning("%s is damaged, and its tasks begin anew: %s", path, error)
        return empty
