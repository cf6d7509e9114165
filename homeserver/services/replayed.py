# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The operations of one service at home: its log, the execution of it, and the recent answers.

The replica is a cursor into the log: one thread executes whatever the log has beyond the
replica's last operation. A client that sends an operation, a launch from an old checkpoint and a
replica that had to be started again are one and the same mechanism.

A service that is stateless or carried has no log. Operations of a stateless one go straight to the
replica.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from homeserver.services.answer_cache import AnswerCache
from homeserver.services.cut_operations import CutOperations, LogFollower
from homeserver.services.sampled_reads import SampledReads
from replay import (
    Log,
    Operation,
    OperationGap,
    OperationsCut,
    ReadDigest,
    Response,
    Sample,
)
from replica import Replica, ReplicaState
from satchel.errors import ConflictError, UnavailableError
from satchel.ids import OperationNumber

OPERATION_BYTES = 32 << 20
"""Bytes of logged operations that are given at once; one always is."""

_MACHINE_POLL_SECONDS = 0.5
"""How long a machine that ended by itself may stay unnoticed."""


class OperationsDiffer(ConflictError):
    """Two different operations have the same number: two clients wrote one service's log."""


class NotExecutedYet(UnavailableError):
    """An operation is in the log, but the replica did not reach it in time."""


class ReplicaHolder(Protocol):
    """The service whose replica executes the operations."""

    @property
    def name(self) -> str: ...

    @property
    def present(self) -> Replica | None: ...

    def replica(self) -> Replica: ...

    def require_present(self) -> object:
        """Raise NotLaunched or ReplicaFailed without a replica, even one that is starting."""


class ReplayedOperations:
    """See the module. Thread-safe."""

    def __init__(
        self,
        service: ReplicaHolder,
        log: Log | None,
        folder: Path,
        seconds: float,
        follower: LogFollower | None,
    ) -> None:
        """Takes over `log`. folder: the service's; seconds: how long an operation may take. Raises
        OSError, UnsupportedError."""
        self._service = service
        self._log = log
        self._seconds = seconds
        self._follower = follower
        self._cut = CutOperations(folder / "cut") if log else None
        self._appending = threading.Lock()
        self._changed = threading.Condition()
        self._answers = AnswerCache()
        self._samples = SampledReads(self._changed, seconds)
        self._executed = OperationNumber(0)

    @property
    def logged(self) -> bool:
        """Whether there is a log."""
        return self._log is not None

    @property
    def last(self) -> OperationNumber:
        """The last operation in the log."""
        return self._log.last if self._log else OperationNumber(0)

    def close(self) -> None:
        """Close the log."""
        if self._log and self._cut:
            self._log.close()
            self._cut.close()

    def begin(self, last: OperationNumber) -> None:
        """Note that a replica starts which has executed that operation."""
        self._executed = last
        self._samples.reset(last)

    def wake(self) -> None:
        """Have waiting threads look at the replica again."""
        with self._changed:
            self._changed.notify_all()

    def forget(self, upto: OperationNumber) -> None:
        """Cut the log up to that operation, of which only digests are kept."""
        if self._log and self._cut:
            first = OperationNumber(self._log.first - 1)
            self._cut.add(takewhile(lambda one: one.number <= upto, self._log.read(first)))
            self._log.cut(upto)
            if self._follower:
                self._follower.cut(self._service.name, upto)

    def response(self, number: OperationNumber) -> Response | None:
        """The answer to that operation, if it is kept."""
        with self._changed:
            return self._answers.of(number)

    def after(self, number: OperationNumber) -> Sequence[Operation]:
        """All logged operations after that one; none if the log starts later."""
        with contextlib.suppress(OperationsCut):
            return list(self._log.read(number)) if self._log else ()
        return ()

    def answer(self, operations: Sequence[Operation]) -> Iterator[Response]:
        """Log the operations, and give each response as soon as the replica has executed it.

        All are durable in the log before the first response, so after an error that says that the
        replica is gone they are stable all the same. Operations that the log has already are not
        logged and not executed again; a response that is no longer kept is left out. Raises as
        `append`, `wait_executed` and, without a log, Replica.execute do.
        """
        if self._log is None:
            replica, seconds = self._service.replica(), self._seconds
            for operation in operations:
                yield replica.execute(operation, seconds)
            return
        self.append(operations)
        for operation in operations:
            self.wait_executed(operation.number)
            if response := self.response(operation.number):
                yield response

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute requests that change nothing, each after the operations before its number; they
        are not logged and do not count. Needs a stateful service.

        Raises OperationGap where the log has not all of these, and as `wait_executed` and
        Replica.read do.
        """
        responses = []
        for operation in operations:
            if operation.number > self.last + 1:
                raise OperationGap("it cannot be read yet", number=operation.number, last=self.last)
            self.wait_executed(OperationNumber(operation.number - 1))
            responses.append(self._service.replica().read(operation, self._seconds))
        return responses

    def compare(self, samples: Sequence[Sample]) -> Iterator[ReadDigest]:
        """See `SampledReads.compare`."""
        stateless = None if self._log or not samples else self._service.replica()
        return self._samples.compare(samples, lambda: self._service.present is not None, stateless)

    def append(self, operations: Sequence[Operation]) -> None:
        """Log those operations that the log has not; durable on return.

        Raises OperationGap, OperationsDiffer for one that the log has with another content, and
        what a log raises; the operations before that one are logged. Needs a stateful service.
        """
        assert self._log is not None
        with self._appending:
            for operation in operations:
                if operation.number <= self._log.last:
                    self._compare(operation)
                    continue
                self._log.append(operation)
                with self._changed:
                    self._changed.notify_all()
                if self._follower:
                    self._follower.logged(self._service.name)

    def wait_executed(self, number: OperationNumber) -> None:
        """Return once the replica has executed that operation.

        Raises NotExecutedYet when none was executed for `operation_seconds`, NotLaunched,
        ReplicaFailed.
        """
        name, patience = self._service.name, self._seconds
        with self._changed:
            seen, since = self._executed, time.monotonic()
            while self._executed < number:
                self._service.require_present()
                if self._executed != seen:
                    seen, since = self._executed, time.monotonic()
                elif time.monotonic() - since > patience:
                    raise NotExecutedYet(
                        f"operation {number} of {name} is logged but not executed yet",
                        why=f"the replica is at operation {self._executed}",
                        fix="ask again later with the same number",
                    )
                self._changed.wait(timeout=_MACHINE_POLL_SECONDS)

    def operations(self, after: OperationNumber, limit: int) -> list[Operation]:
        """The logged operations after that number, at most `limit` of them and not too much.

        Raises OperationsCut when the log starts later.
        """
        found: list[Operation] = []
        size = 0
        for operation in self._log.read(after) if self._log else ():
            size += len(operation.payload)
            if len(found) == limit or (found and size > OPERATION_BYTES):
                break
            found.append(operation)
        return found

    def digest(self, number: OperationNumber) -> bytes | None:
        """Return the digest of home's operation of that number; None if home no longer knows."""
        with contextlib.suppress(OperationsCut):
            return next((o.digest for o in self.operations(OperationNumber(number - 1), 1)), None)
        return self._cut.get(number) if self._cut else None

    def agrees(self, operation: Operation) -> bool:
        """Whether home has that operation as it is, or no longer knows."""
        return self.digest(operation.number) in (None, operation.digest)

    def _compare(self, operation: Operation) -> None:
        if not self.agrees(operation):
            name = self._service.name
            raise OperationsDiffer(
                f"operation {operation.number} of {name} differs from the logged one",
                why="two clients wrote to one service",
                fix=f"`satchel log {name}` there: the log at home is the one that counts",
            )

    def execute(self, replica: Replica) -> None:
        """What the log has beyond the replica; returns after a while when it has nothing."""
        with self._changed:
            ended = replica.state is not ReplicaState.READY
            idle = self.last <= replica.last and not self._samples.due(replica.last)
            if not ended and idle:
                self._changed.wait(_MACHINE_POLL_SECONDS)
        self._samples.execute(replica, None)
        if self._log is None or self.last <= replica.last:
            return
        for operation in self._log.read(replica.last):
            self._samples.execute(replica, operation.number)
            response = replica.execute(operation, self._seconds)
            with self._changed:
                self._answers.keep(response)
                self._executed = response.number
                self._changed.notify_all()
