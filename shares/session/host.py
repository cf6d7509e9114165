# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions of a node, and how they go to another one (MEFS, Section IV.A, Figures 3 and 5).

    mode         an operation that comes in
    NORMAL       is done
    HANDOFF      is put into the dirty queue, which `send_handoff` sends
    RESTORE      is put into the delayed queue, until the session and the dirty queue are here
    GONE         is refused: the session is at another node

    old.prepare_handoff(name)         NORMAL -> HANDOFF   the session as bytes, with what home lacks
    new.expect_handoff(name, files)   -        -> RESTORE   the files are opened ahead
    old.send_handoff(handoff, send)   HANDOFF -> GONE     the session, and then the dirty queue
    new.restore_handoff(name, data)   RESTORE -> NORMAL   does the dirty queue and the delayed one

An operation has a number. Each host does the next number only: what was done is answered again, as
far as the last ANSWERS go, and what is ahead of its turn waits for it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from satchel.errors import ConflictError, IntegrityError, NotFoundError, StateError
from shares.node import Node
from shares.protocol import FileId
from shares.session.records import Answer, File, Head, Operation, Record, pack_all, unpack
from shares.session.session import AT_ONCE, Session

ANSWERS = 1024
"""Of a session, for an application that has not got them and asks again."""

AHEAD = 1 << 16
"""Operations of a session that wait for their turn, at most."""


class Mode(Enum):
    NORMAL = "normal"
    HANDOFF = "handoff"
    RESTORE = "restore"
    GONE = "gone"


class HandoffOver(ConflictError):
    """The session is at another node; the application asks there."""


@dataclass(frozen=True)
class Handoff:
    """A session that is being sent. session, buffer: as records; the buffer is the writes that home
    has perhaps not yet."""

    name: str
    session: bytes
    operations: int


@dataclass
class _Hosted:
    session: Session | None = None
    mode: Mode = Mode.NORMAL
    queue: dict[int, Operation] = field(default_factory=dict)  # dirty, delayed, or ahead of turn
    answers: OrderedDict[int, Answer] = field(default_factory=OrderedDict)
    waiting: dict[int, list[Future[Answer]]] = field(default_factory=dict)
    ahead: list[int] = field(default_factory=list)  # handles, until the session has its own


class Host:
    """Of one node. Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._sessions: dict[str, _Hosted] = {}

    def begin(self, name: str, records: Iterable[Record] = ()) -> None:
        """A new session; records: or one that was somewhere else, as it was then. Raises
        ConflictError where there is one of that name."""
        session = Session(self._node, name, records=records)
        with self._lock:
            hosted = self._sessions.get(name)
            if hosted is not None and hosted.mode is not Mode.GONE:
                raise ConflictError(f"there is a session {name} here")
            self._sessions[name] = _Hosted(session)

    def mode(self, name: str) -> Mode:
        with self._lock:
            return self._hosted(name).mode

    def ask(self, name: str, operation: Operation) -> Future[Answer]:
        """The operation's answer, when it is done: here or, during a handoff, at the other node;
        then this future ends with HandoffOver, and who asks the other one gets it."""
        answer: Future[Answer] = Future()
        with self._lock:
            hosted = self._hosted(name)
            if hosted.mode is Mode.GONE:
                answer.set_exception(HandoffOver(f"the session {name} is at another node"))
                return answer
            known = hosted.answers.get(operation.operation)
            if known is not None:
                answer.set_result(known)
                return answer
            if len(hosted.queue) >= AHEAD:
                raise StateError(f"the session {name} has too many operations under way")
            hosted.queue[operation.operation] = operation
            hosted.waiting.setdefault(operation.operation, []).append(answer)
            if hosted.mode is Mode.NORMAL:
                self._do(hosted)
        return answer

    def _do(self, hosted: _Hosted) -> None:
        """With the lock: all whose turn it is."""
        session = hosted.session
        assert session is not None
        for old in [number for number in hosted.queue if number <= session.last]:
            self._settle(hosted, hosted.answers.get(old), old)
        while session.last + 1 in hosted.queue:
            answer = session.do(hosted.queue[session.last + 1])
            hosted.answers[answer.operation] = answer
            if len(hosted.answers) > ANSWERS:
                hosted.answers.popitem(last=False)
            self._settle(hosted, answer, answer.operation)

    def _settle(self, hosted: _Hosted, answer: Answer | None, number: int) -> None:
        hosted.queue.pop(number, None)
        for future in hosted.waiting.pop(number, []):
            if answer is None:
                future.set_exception(StateError(f"operation {number} was answered long ago"))
            else:
                future.set_result(answer)

    # Handoffs.

    def prepare_handoff(self, name: str) -> Handoff:
        """From now on operations wait in the dirty queue. Nothing is said to home: what it lacks
        goes along. Raises NotFoundError, StateError where it is not at work."""
        with self._lock:
            hosted = self._hosted(name)
            if hosted.mode is not Mode.NORMAL or hosted.session is None:
                raise StateError(f"the session {name} cannot be handed over", why=hosted.mode.value)
            hosted.mode = Mode.HANDOFF
            records = hosted.session.records()
            return Handoff(name, pack_all([*records, *hosted.answers.values()]), len(records))

    def cancel_handoff(self, handoff: Handoff) -> None:
        """Nobody took it: what has come meanwhile is done here."""
        with self._lock:
            hosted = self._hosted(handoff.name)
            if hosted.mode is Mode.HANDOFF:
                hosted.mode = Mode.NORMAL
                self._do(hosted)

    def send_handoff(self, handoff: Handoff, send: Callable[[bytes], None]) -> None:
        """send: hands it to the other node's `restore_handoff`. The application has left this node,
        or does when it hears HandoffOver. What `send` raises leaves the session in HANDOFF."""
        with self._lock:
            hosted = self._hosted(handoff.name)
            if hosted.mode is not Mode.HANDOFF:
                raise StateError(f"no handoff of {handoff.name}", why=hosted.mode.value)
            dirty = sorted(hosted.queue.values(), key=lambda each: each.operation)
            session = hosted.session
            assert session is not None
            giving = threading.Thread(target=session.give_back, name="handoff", daemon=True)
            giving.start()  # else the other node would wait until home has asked for it
            send(handoff.session + pack_all(dirty))
            hosted.mode = Mode.GONE
            hosted.session = None
            waiting, hosted.waiting = hosted.waiting, {}
            hosted.queue.clear()
        giving.join()
        session.detach()
        gone = HandoffOver(f"the session {handoff.name} is at another node")
        for future in [each for futures in waiting.values() for each in futures]:
            future.set_exception(gone)

    def open_files(self, name: str) -> tuple[File, ...]:
        """What the session has open now, for `expect_handoff`. Raises NotFoundError."""
        with self._lock:
            session = self._hosted(name).session
            records = session.records() if session is not None else []
        return tuple(record for record in records if isinstance(record, File))

    def expect_handoff(self, name: str, files: Iterable[File] = ()) -> None:
        """A session is on its way here: operations of its application wait in the delayed queue.
        files: what it has open. They are opened on return, so that the handoff does not wait for
        that; what fails is opened later."""
        expected = _Hosted(mode=Mode.RESTORE)
        with self._lock:
            hosted = self._sessions.get(name)
            if hosted is not None and hosted.mode is not Mode.GONE:
                raise ConflictError(f"there is a session {name} here")
            self._sessions[name] = expected
        with ThreadPoolExecutor(AT_ONCE) as threads:
            opened = list(threads.map(self._open_ahead, files))
        expected.ahead = [handle for handle in opened if handle is not None]

    def _open_ahead(self, file: File) -> int | None:
        with suppress(OSError):
            return self._node.open(FileId(file.file), file.flags & os.O_ACCMODE).number
        return None

    def _release_ahead(self, hosted: _Hosted) -> None:
        ahead, hosted.ahead = hosted.ahead, []
        for handle in ahead:
            with suppress(OSError):
                self._node.release(handle, 0)

    def restore_handoff(self, name: str, data: bytes) -> int:
        """The session is here; the dirty queue and the delayed one are done when this returns. How
        many operations that were. Raises IntegrityError, and OSError where home is not reached."""
        records = list(unpack(data))
        if not records or not isinstance(records[0], Head) or records[0].name != name.encode():
            raise IntegrityError(f"what came is no handoff of the session {name}")
        state = [each for each in records if not isinstance(each, Operation | Answer)]
        session = Session(self._node, name, records=state)
        with self._lock:
            hosted = self._hosted(name)
            if hosted.mode is not Mode.RESTORE:
                raise StateError(f"no session {name} is expected", why=hosted.mode.value)
            before = session.last
            hosted.session = session
            hosted.answers |= {a.operation: a for a in records if isinstance(a, Answer)}
            hosted.queue |= {o.operation: o for o in records if isinstance(o, Operation)}
            hosted.mode = Mode.NORMAL
            self._do(hosted)
            done = session.last - before
        self._release_ahead(hosted)
        return done

    def forget(self, name: str) -> None:
        """No handoff comes. What waits for it ends with HandoffOver."""
        with self._lock:
            hosted = self._sessions.get(name)
            if hosted is None or hosted.mode is not Mode.RESTORE:
                return
            del self._sessions[name]
        self._release_ahead(hosted)
        for future in [each for futures in hosted.waiting.values() for each in futures]:
            future.set_exception(HandoffOver(f"the session {name} did not come"))

    def _hosted(self, name: str) -> _Hosted:
        if name not in self._sessions:
            raise NotFoundError(f"no session {name} is here")
        return self._sessions[name]
