# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions of a node, and the three calls that move one (MEFS, Section IV.A and Table I).

    mode         a new operation
    NORMAL       is done
    HANDOFF      waits in the dirty queue, which `send_handoff` sends
    RESTORE      waits in the delayed queue, until the session and the dirty queue are done here
    GONE         is refused: the session is at another node

    handoff = old.prepare_handoff(name)      NORMAL -> HANDOFF    the session as records
    old.send_handoff(handoff, connection)    HANDOFF -> GONE      the session and the dirty queue
    new.restore_handoff(name, connection)    RESTORE -> NORMAL    does the dirty queue, then the
                                                                  delayed one
The new node answers the dirty queue. The old node passes these answers on to its application, which
makes its next operations at the new node.
"""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from satchel.errors import ConflictError, IntegrityError, NotFoundError, StateError
from shares.node import Node
from shares.session.records import (
    VERSION,
    Handoff,
    OperationReply,
    Record,
    SessionHeader,
    SessionOperation,
    pack_all,
    unpack,
)
from shares.session.session import FileSession
from shares.session.transport import receive_message, send_message

WAITING = 1 << 16
"""Operations in a queue, at most."""

_REFUSED = b""


class Mode(Enum):
    NORMAL = "normal"
    HANDOFF = "handoff"
    RESTORE = "restore"
    GONE = "gone"


class HandoffOver(ConflictError):
    """The session is at another node; the application must ask there."""


class HandoffRefused(ConflictError):
    """The other node did not take the session."""


@dataclass
class _HostedSession:
    """A session at this node. The lock guards all of it. queue: dirty or delayed."""

    mode: Mode = Mode.NORMAL
    session: FileSession | None = None
    queue: list[tuple[SessionOperation, Future[OperationReply]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def do_queue(self) -> int:
        """With the lock: do what waits, and return the number of operations."""
        assert self.session is not None
        queue, self.queue = self.queue, []
        for operation, answer in queue:
            answer.set_result(self.session.do(operation))
        return len(queue)

    def require(self, mode: Mode, name: str) -> FileSession:
        """With the lock: return the session. Raise StateError in another mode."""
        if self.mode is not mode or self.session is None:
            raise StateError(f"the session {name} cannot be handed over", why=self.mode.value)
        return self.session


class SessionHost:
    """The sessions of one node. Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._sessions: dict[str, _HostedSession] = {}

    def begin(self, name: str) -> None:
        """Begin a session. Raise ConflictError if the node has one of that name."""
        self._add(name, _HostedSession(session=FileSession(self._node, name)))

    def mode(self, name: str) -> Mode:
        """Return the session's mode. Raise NotFoundError if the node never had it."""
        return self._hosted(name).mode

    def ask(self, name: str, operation: SessionOperation) -> Future[OperationReply]:
        """Do the operation after all earlier ones: at once, or when a handoff is over.

        Raise HandoffOver if the session is at another node; the operation is not done then. The
        answer fails with HandoffOver if the node waited for a session that did not arrive."""
        answer: Future[OperationReply] = Future()
        hosted = self._hosted(name)
        with hosted.lock:
            if hosted.mode is Mode.GONE:
                raise HandoffOver(f"the session {name} is at another node")
            if len(hosted.queue) >= WAITING:
                raise StateError(f"too many operations of the session {name} wait")
            hosted.queue.append((operation, answer))
            if hosted.mode is Mode.NORMAL:
                hosted.do_queue()
        return answer

    def prepare_handoff(self, name: str) -> Handoff:
        """Hold operations in the dirty queue from now on, and return the session. Home is told
        nothing. Raise NotFoundError or StateError if the session does not work here."""
        hosted = self._hosted(name)
        with hosted.lock:
            session = hosted.require(Mode.NORMAL, name)
            hosted.mode = Mode.HANDOFF
            return Handoff(name, pack_all(session.records()))

    def send_handoff(self, handoff: Handoff, connection: socket.socket) -> None:
        """Send the session and the dirty queue, and wait until the new node has done them.

        Raise HandoffRefused if the new node did not take the session, IntegrityError if its answer
        is malformed, OSError if the connection fails. After an error the session stays in HANDOFF,
        and `cancel_handoff` continues it here."""
        hosted = self._hosted(handoff.name)
        with hosted.lock:
            session = hosted.require(Mode.HANDOFF, handoff.name)
            dirty = [operation for operation, _ in hosted.queue]
            giving = threading.Thread(target=session.give_back, name="handoff", daemon=True)
            giving.start()  # else the new node would wait until home has fetched these blocks
            try:
                send_message(connection, handoff.session + pack_all(dirty))
                answers = _answers(handoff.name, receive_message(connection), len(dirty))
            finally:
                giving.join()
            hosted.mode, hosted.session = Mode.GONE, None
            queue, hosted.queue = hosted.queue, []
        session.detach()
        for (_, waiting), answer in zip(queue, answers, strict=True):
            waiting.set_result(answer)

    def cancel_handoff(self, handoff: Handoff) -> None:
        """Continue the session here, and do the dirty queue. Only for a handoff that the new node
        did not take: if it did, two nodes have the session."""
        hosted = self._hosted(handoff.name)
        with hosted.lock:
            hosted.require(Mode.HANDOFF, handoff.name)
            hosted.mode = Mode.NORMAL
            hosted.do_queue()

    def restore_handoff(self, name: str, connection: socket.socket) -> int:
        """Receive the session, and do the dirty queue and then the delayed one. Return the number
        of these operations. Operations wait in the delayed queue from the call on.

        Raise ConflictError if the node has a session of that name, IntegrityError if the handoff is
        malformed, OSError if the connection fails or home is not reached. After an error the
        session is not here, and the old node is told if the connection permits."""
        hosted = _HostedSession(Mode.RESTORE)
        self._add(name, hosted)
        try:
            records = _records(name, receive_message(connection))
            session = FileSession(self._node, name, records)
        except BaseException:
            self._forget(name, hosted)
            with suppress(OSError):
                send_message(connection, _REFUSED)
            raise
        with hosted.lock:
            hosted.session, hosted.mode = session, Mode.NORMAL
            answers = [session.do(each) for each in records if isinstance(each, SessionOperation)]
            delayed = hosted.do_queue()
        with suppress(OSError):  # the old node finds out by itself
            send_message(connection, pack_all([SessionHeader(VERSION, name.encode()), *answers]))
        return len(answers) + delayed

    def _forget(self, name: str, hosted: _HostedSession) -> None:
        with self._lock:
            del self._sessions[name]
        with hosted.lock:
            hosted.mode = Mode.GONE
            queue, hosted.queue = hosted.queue, []
        for _, answer in queue:
            answer.set_exception(HandoffOver(f"the session {name} did not arrive"))

    def _add(self, name: str, hosted: _HostedSession) -> None:
        with self._lock:
            before = self._sessions.get(name)
            if before is not None and before.mode is not Mode.GONE:
                raise ConflictError(f"there is a session {name} here")
            self._sessions[name] = hosted

    def _hosted(self, name: str) -> _HostedSession:
        with self._lock:
            if name not in self._sessions:
                raise NotFoundError(f"no session {name} is here")
            return self._sessions[name]


def _records(name: str, message: bytes) -> list[Record]:
    """Raise IntegrityError if this is no message of that session."""
    records = list(unpack(message))
    if not records or records[0] != SessionHeader(VERSION, name.encode()):
        raise IntegrityError(f"the message is no handoff of the session {name}")
    return records


def _answers(name: str, message: bytes, count: int) -> list[OperationReply]:
    if message == _REFUSED:
        raise HandoffRefused(f"the other node did not take the session {name}")
    answers = [each for each in _records(name, message)[1:] if isinstance(each, OperationReply)]
    if len(answers) != count:
        raise IntegrityError("the other node's answers are not those of the dirty queue")
    return answers
