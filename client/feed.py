# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One replica's cursor into the journal: catching up and keeping up are the same loop."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from replay import Operation, Response
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.ids import OperationNumber

logger = logging.getLogger(__name__)

BATCH = 32
"""Operations sent at once to a replica that lags."""

BACKOFF_SECONDS = (0.1, 0.3, 1.0, 2.0)
"""Between attempts to reach a replica that does not answer; the last one repeats."""


class Endpoint(Protocol):
    """A replica as a feed sees it. Used by one thread."""

    name: str
    patience: float
    """Seconds without an answer after which the replica counts as lost."""

    def execute(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute in order, at most once by number; responses that are no longer known are left
        out. Raises UnavailableError, StateError when the operations do not follow its last."""

    def position(self) -> OperationNumber:
        """The last operation that the replica has."""


class Listener(Protocol):
    """Who is told what a feed sees; called from the feed's thread."""

    def wanted(self, feed: Feed, limit: int) -> list[Operation]: ...

    def arrived(self, feed: Feed, responses: list[Response]) -> None: ...

    def lost(self, feed: Feed, error: SatchelError) -> None: ...


class FeedState(enum.Enum):
    CATCHING_UP = "catching up"
    JOINED = "joined"
    SILENT = "silent"
    LOST = "lost"
    ENDED = "ended"


class Feed:
    """A thread that keeps one replica at the journal's end."""

    def __init__(self, endpoint: Endpoint, cursor: OperationNumber, listener: Listener) -> None:
        self.endpoint = endpoint
        self.cursor = cursor
        self.joined = threading.Event()
        self._listener = listener
        self._state = FeedState.CATCHING_UP
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed-{endpoint.name}")

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def state(self) -> FeedState:
        return self._state

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Send nothing more. Returns at once; the operation under way may still be answered."""
        self._ending.set()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def reached_end(self) -> None:
        """The replica has executed everything that there is; it keeps up from here on."""
        if self._state is FeedState.CATCHING_UP:
            self._change(FeedState.JOINED)
            self.joined.set()

    def _run(self) -> None:
        silent_since: float | None = None
        attempt = 0
        while not self._ending.is_set():
            try:
                self._step()
                silent_since, attempt = None, 0
            except StateError as error:
                logger.warning("%s: %s", self.name, error)
                attempt += 1
                self._ending.wait(BACKOFF_SECONDS[0])
                self._find_position()
            except UnavailableError as error:
                now = time.monotonic()
                silent_since = silent_since or now
                self._change(FeedState.SILENT)
                if now - silent_since > self.endpoint.patience:
                    return self._give_up(error)
                self._ending.wait(BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS) - 1)])
                attempt += 1
            except SatchelError as error:
                return self._give_up(error)
        return self._change(FeedState.ENDED)

    def _step(self) -> None:
        operations = self._listener.wanted(self, BATCH)
        if not operations:
            if self._state is FeedState.SILENT:
                self.endpoint.position()
                self._change(FeedState.CATCHING_UP)
            return
        responses = self.endpoint.execute(operations)
        self.cursor = operations[-1].number
        if self._state is FeedState.SILENT:
            self._change(FeedState.CATCHING_UP)
        self._listener.arrived(self, responses)

    def _find_position(self) -> None:
        try:
            self.cursor = self.endpoint.position()
        except SatchelError as error:
            logger.warning("%s: %s", self.name, error)

    def _give_up(self, error: SatchelError) -> None:
        self._change(FeedState.LOST)
        self._listener.lost(self, error)

    def _change(self, state: FeedState) -> None:
        if state is not self._state:
            logger.info("%s: %s", self.name, state.value)
            self._state = state
