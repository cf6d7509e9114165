# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""An application's end of its session, which goes from host to host.

It keeps each operation until home has what it wrote. So when a host is lost, another one begins
with the state of which home had everything, and does the rest again. Each operation is at a
position that follows from those before it: done twice, it is as if it was done once.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

from shares.session.host import HandoffOver, Host
from shares.session.records import (
    VERSION,
    Answer,
    Done,
    File,
    Head,
    Kind,
    Operation,
    Record,
)

KEPT = 4096
"""Operations that home has perhaps not; with more, home is asked to have them."""


class MobileSession:
    """Of one application. Thread-safe; operations are done in the order of their numbers."""

    def __init__(self, host: Host, name: str) -> None:
        """Begins it at that host. Raises ConflictError where it has one of that name."""
        host.begin(name)
        self.name, self._host = name, host
        self._lock = threading.Lock()
        self._sent: OrderedDict[int, Operation] = OrderedDict()  # that home has perhaps not
        self._answers: dict[int, Future[Answer]] = {}  # those that are waited for
        self._last = 0
        self._answered: dict[int, Answer] = {}  # of those in _sent
        self._base: dict[int, File] = {}  # the files when _base_last was done
        self._base_last = self._arrived = 0
        self._recovers = False

    # Operations.

    def open(self, path: str, flags: int) -> int:
        """As Session.open, but not to append: where that went is not known when a host is lost.
        Raises OSError."""
        if flags & os.O_APPEND:
            raise OSError(errno.EINVAL, "seek to the end of the file instead")
        with self._lock:
            opened = {o.number for o in self._sent.values() if o.kind == Kind.OPEN}
            used = opened | set(self._base)
            number = min(set(range(3, len(used) + 4)) - used)
        self.result(self.post(Kind.OPEN, number, flags, os.fsencode(path)))
        return number

    def close(self, number: int) -> None:
        self.result(self.post(Kind.CLOSE, number))

    def read(self, number: int, size: int) -> bytes:
        return self.result(self.post(Kind.READ, number, size)).data

    def write(self, number: int, data: bytes) -> int:
        return self.result(self.post(Kind.WRITE, number, data=data)).value

    def seek(self, number: int, position: int) -> None:
        self.result(self.post(Kind.SEEK, number, position))

    def sync(self, number: int) -> None:
        self.result(self.post(Kind.SYNC, number))

    def post(self, kind: Kind, number: int, value: int = 0, data: bytes = b"") -> int:
        """Begin an operation without waiting for it; its number is what `result` takes."""
        with self._lock:
            self._last += 1
            operation = Operation(self._last, kind, number, value, data)
            self._sent[operation.operation] = operation
            self._answers[operation.operation] = Future()
            host = self._host
            recovers = self._recovers
        if not recovers:  # else `recover` asks
            self._ask(host, operation)
        return operation.operation

    def result(self, operation: int) -> Answer:
        """Raises OSError where it failed."""
        answer = self._answers[operation].result()
        with self._lock:
            self._answers.pop(operation, None)
        if answer.error:
            raise OSError(answer.error, os.strerror(answer.error))
        return answer

    def _ask(self, host: Host, operation: Operation) -> None:
        def answered(done: Future[Answer]) -> None:
            error = done.exception()
            if isinstance(error, HandoffOver):
                return  # it was in the dirty queue: the new host is asked
            with self._lock:
                mine = self._answers.get(operation.operation)
                if operation.operation not in self._sent or host is not self._host:
                    return
                if error is None:
                    self._note(done.result())
            if mine is None or mine.done():
                return
            if error is not None:
                mine.set_exception(error)
            else:
                mine.set_result(done.result())

        host.ask(self.name, operation).add_done_callback(answered)

    def _note(self, answer: Answer) -> None:
        """With the lock. What home has for good is not kept: the state to begin from is the one
        after it."""
        self._answered[answer.operation] = answer
        self._arrived = max(self._arrived, answer.arrived)
        while self._sent:
            first = next(iter(self._sent.values()))
            known = self._answered.get(first.operation)
            if known is None or (changes(first) and first.operation > self._arrived):
                return
            del self._sent[first.operation], self._answered[first.operation]
            self._advance(first, known)

    def _advance(self, operation: Operation, answer: Answer) -> None:
        number = operation.number
        self._base_last = operation.operation
        if operation.kind == Kind.OPEN and not answer.error:
            flags = operation.value & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)
            self._base[number] = File(number, answer.value, flags, 0, operation.data)
        elif operation.kind == Kind.CLOSE:
            self._base.pop(number, None)
        elif number in self._base:
            self._base[number] = replace(self._base[number], position=answer.position)

    # Moves.

    def move(self, host: Host, carry: Callable[[bytes], bytes] = bytes) -> None:
        """Go on at another host. Operations wait meanwhile, and none of them is lost or done twice.
        carry: brings the handoff to the other host, and returns what came there. Raises what that
        and Host's methods raise; the session goes on where it was then."""
        old = self._host
        host.expect_handoff(self.name, old.open_files(self.name))
        handoff = old.prepare_handoff(self.name)

        def send(data: bytes) -> None:
            self._arrive(host, carry(data))

        try:
            old.send_handoff(handoff, send)
        except BaseException:
            host.forget(self.name)
            old.cancel_handoff(handoff)
            raise
        with self._lock:
            waiting = [o for o in self._sent.values() if not self._done(o.operation)]
        for operation in waiting:
            self._ask(host, operation)

    def _arrive(self, host: Host, data: bytes) -> None:
        """From here on operations go there, behind those that were under way."""
        with self._lock:
            old, self._host = self._host, host
        try:
            host.restore_handoff(self.name, data)
        except BaseException:
            with self._lock:
                self._host = old
            raise

    def recover(self, host: Host) -> None:
        """The host that it was at is lost: begin at another one, with what home has, and do again
        what it perhaps has not. Waits, as every open does, until home goes on without the old
        node. Raises OSError where home is not reached."""
        with self._lock:
            last = [Done(self._base_last, 0, 0)] if self._base_last else []
            head = Head(VERSION, self.name.encode())
            records: list[Record] = [head, *self._base.values(), *last]
            self._answered.clear()
            self._host, self._recovers = host, True
        host.begin(self.name, records)
        with self._lock:
            again, self._recovers = list(self._sent.values()), False
        for operation in again:
            self._ask(host, operation)

    def _done(self, operation: int) -> bool:
        return operation in self._answered


def changes(operation: Operation) -> bool:
    """Whether home has perhaps not what it did, although it was answered."""
    makes = operation.kind == Kind.OPEN and bool(operation.value & (os.O_CREAT | os.O_TRUNC))
    return makes or operation.kind in {Kind.WRITE, Kind.TRUNCATE}
