# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Long requests: how far they are, and how they are stopped from outside.

Whoever asks for something long names it with a word of its own choosing, and asks with that word
how far it is, or stops it. What a work that is stopped leaves is the business of what it does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from satchel.errors import ConflictError, NotFoundError, StateError
from satchel.progress import Progress


class JobStopped(StateError):
    """The work was stopped. The same request continues from the remaining part."""


class Jobs:
    """The long requests of one daemon that are under way. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going: set[_JobState] = set()
        self._closed = False

    @contextmanager
    def begin(self, word: str) -> Iterator[Progress]:
        """What to hand to the long step. Without a word nobody can ask for it.

        Raises ConflictError when another one has that word.
        """
        work = _JobState(word)
        with self._lock:
            if self._named(word):
                raise ConflictError(f"there is a work {word} already")
            self._going.add(work)
            work.stopped = self._closed
        try:
            yield work.report
        finally:
            with self._lock:
                self._going.discard(work)

    def state(self, word: str) -> dict[str, int]:
        """done and total, as a Progress is told them. Raises NotFoundError when it is over."""
        work = self._get(word)
        return {"done": work.done, "total": work.total}

    def stop(self, word: str) -> None:
        """Let it end with JobStopped the next time that it reports. Raises NotFoundError."""
        self._get(word).stopped = True

    def close(self) -> None:
        """Stop them all, also those that begin from now on: a process must not end under a work,
        whose thread would not come back out of the engine."""
        with self._lock:
            self._closed = True
            for work in self._going:
                work.stopped = True

    def _get(self, word: str) -> _JobState:
        with self._lock:
            work = self._named(word)
        if not work:
            raise NotFoundError(f"no work {word} is under way")
        return work

    def _named(self, word: str) -> _JobState | None:
        return next((work for work in self._going if word and work.word == word), None)


class _JobState:
    def __init__(self, word: str) -> None:
        self.word = word
        self.done = 0
        self.total = 0
        self.stopped = False

    def report(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.stopped:
            raise JobStopped(
                "it was stopped", fix="repeat the request: it continues from the finished part"
            )
