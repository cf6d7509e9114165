# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front of `rfb`: viewers at a local port, whose events become operations.

What viewers do while an operation is under way waits and is the next one: one batch at a time, in
the order of arrival. The screen is kept here, and viewers are served from it, so they see nothing
of which replica answers, and one that connects costs no operation. What a replica says early of its
answer is shown until an answer comes, whichever replica's. The first operation of a session
asks for the whole screen, and so does one after an answer that was lost, or did not come in time:
that one is made without an event, too, as what was typed may well be executed by then. So does
one after an answer of another size; if the whole screen has that size, too, whoever answered before
was wrong, and viewers begin anew. A viewer waits for the first screen however long it takes: a
machine that has just come up may need longer for it than an answer may.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque

from client.fronts.screen import Area, Screen
from client.fronts.viewer import Viewer
from client.session.session import NoResponse, Session
from replay.adapters import rfb
from satchel.errors import SatchelError, StateError, UsageError
from wire import StreamPort

logger = logging.getLogger(__name__)

BATCH = 256
"""Events of one operation, at most."""

WAITING = 4096
"""Events that wait; a viewer that has more is not read until there is room."""

SCREEN_RETRY_SECONDS = (0.0, 10.0, 60.0)
"""How long after one, two and more answers in a row that did not come the screen is asked for."""


class DesktopFront:
    """A local port for viewers. A front, see client.fronts."""

    def __init__(self, session: Session, port: int = 0) -> None:
        """Listen on `port`, or on a free one for 0. Raises ConflictError when it is taken."""
        self.changed = threading.Condition()
        self.ended = False
        self._session = session
        self._events: deque[bytes] = deque()
        self._held = 0
        self._moved = False  # the last event that waits moves the pointer and does nothing else
        self._look = False
        self._waiting = 0  # viewers that have no screen yet
        self._lost = True
        self._awaited: object = None  # the operation under way
        self._failure: SatchelError | None = None
        self._screen: Screen | None = None
        self._strange: tuple[int, int] | None = None  # another size, of the last answer
        self._viewers: set[Viewer] = set()
        self._stream = StreamPort("vnc", port, self._serve)
        self.port, self.url = self._stream.port, self._stream.url
        self._operator = threading.Thread(target=self._operate, name="desktop", daemon=True)
        self._operator.start()

    def close(self) -> None:
        """Listen no more, end every viewer. Events that wait are dropped."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        self._stream.close()

    def screen(self) -> Screen:
        """See `SharedScreen`."""
        with self.changed:
            if self._screen is None:
                self._look, self._failure = True, None
                self.changed.notify_all()
            self._waiting += 1
            self.changed.wait_for(lambda: self._screen or self._failure or self.ended)
            self._waiting -= 1
            if self._screen is None:
                raise self._failure or StateError("the session has ended")
            return self._screen

    def enter(self, event: bytes) -> None:
        """See `SharedScreen`. Of moves in a row the last one counts."""
        with self.changed:
            self.changed.wait_for(lambda: len(self._events) < WAITING or self.ended)
            pointer = event[0] == rfb.POINTER_EVENT
            move = pointer and event[1] == self._held
            self._held = event[1] if pointer else self._held
            if move and self._moved and self._events:
                self._events.pop()
            self._moved = move
            self._events.append(event)
            self.changed.notify_all()

    def _serve(self, connection: socket.socket) -> None:
        viewer = Viewer(connection, self)
        with self.changed:
            self._viewers.add(viewer)
        try:
            viewer.serve()
        except (EOFError, UsageError):
            pass
        finally:
            with self.changed:
                self._viewers.discard(viewer)

    def _operate(self) -> None:
        missing = 0
        while True:
            with self.changed:
                again = SCREEN_RETRY_SECONDS[min(missing, len(SCREEN_RETRY_SECONDS)) - 1]
                self.changed.wait_for(
                    lambda: self._events or self._look or self.ended,
                    again if missing and (self._screen or self._waiting) else None,
                )
                if self.ended:
                    return
                count = min(BATCH, len(self._events))
                events = b"".join(self._events.popleft() for _ in range(count))
                self._look = False
                self.changed.notify_all()
            try:
                self._execute(events)
                missing = 0
            except SatchelError as error:
                logger.error("%s", error)
                missing += 1
                with self.changed:
                    self._lost = True
                    self._failure = None if isinstance(error, NoResponse) else error
                    self.ended = self._session.refusal is not None
                    self.changed.notify_all()

    def _execute(self, events: bytes) -> None:
        whole = self._lost
        self._awaited = awaited = object()
        answer = self._session.call(
            lambda *_: rfb.encode(events, whole=whole), lambda said: self._foresee(awaited, said)
        )
        update = rfb.decode(answer.payload)
        if update.failed:
            raise NoResponse(f"the desktop gave no answer to operation {answer.number}")
        with self.changed:
            self._screen = self._of_size((update.width, update.height), whole=whole)
            self._awaited = None
            areas = self._screen.tiles(update)
            self._lost = not self._screen.apply(update)
            if self._lost:
                logger.error("operation %d does not go with what is shown", answer.number)
                self._look = not whole  # once; a replica that lies again waits for the next event
            self._note(areas)

    def _of_size(self, size: tuple[int, int], *, whole: bool) -> Screen:
        """The screen for an answer of that size. Called with the lock."""
        screen, before = self._screen, self._strange
        if screen is None:
            return Screen(*size)
        self._strange = None if size == (screen.width, screen.height) else size
        if self._strange is None or not (whole and size == before):
            return screen
        for viewer in self._viewers:
            viewer.leave()
        self._strange = None
        return Screen(*size)

    def _foresee(self, awaited: object, said: bytes) -> None:
        """Show what a replica is going to answer, if that is waited for still."""
        try:
            update = rfb.decode(said)
        except rfb.NotADesktop as error:
            logger.warning("%s", error)
            return
        with self.changed:
            if self._awaited is awaited and self._screen is not None:
                self._note(self._screen.foresee(update))

    def _note(self, areas: set[Area]) -> None:
        """Tell viewers that these tiles look otherwise. Called with the lock."""
        for viewer in self._viewers:
            viewer.note(areas)
        self.changed.notify_all()
