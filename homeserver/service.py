# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A live service at home: its log, its first-class replica, the client that holds it.

The replica is a cursor into the log: one thread executes whatever the log has beyond the
replica's last operation. A client that sends an operation, a launch from an old checkpoint and a
replica that had to be started again are one and the same mechanism.

A stateless service has no log; its operations go straight to the replica.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from homeserver.lease import Lease
from homeserver.records import CheckpointShelf, ServiceRecord
from images import Manifest
from replay import Log, Operation, Response
from replica import Frozen, Replica, ReplicaFailed, ReplicaState
from satchel.errors import ConflictError, SatchelError, StateError, UnavailableError
from satchel.ids import OperationNumber, ReplicaId

logger = logging.getLogger(__name__)

ANSWERS_KEPT = 256
"""Responses kept for a client that asks again after its connection broke."""


class NotLaunched(StateError):
    """The service has no replica at home."""

    def __init__(self, service: str) -> None:
        super().__init__(
            f"service {service} is not running at home", fix=f"`satchel-home launch {service}`"
        )


class OperationConflict(ConflictError):
    """Two different operations claim one number: two clients wrote one service's log."""


class ReplicaMaker:
    """How a service gets a replica: from its latest checkpoint, or by a first boot."""

    def __init__(
        self,
        resume: Callable[[Manifest, ReplicaId, Path], Replica],
        boot: Callable[[ReplicaId, Path], Replica],
        freeze: Callable[[Frozen, Manifest | None], Manifest],
    ) -> None:
        self.resume = resume
        self.boot = boot
        self.freeze = freeze


@dataclass(frozen=True)
class ServiceView:
    """What others may know of a service at one moment."""

    name: str
    image: str
    stateful: bool
    state: str
    checkpoint: str | None
    last_logged: int
    last_executed: int
    client: str | None
    failure: str | None


class Service:
    """See the module. Thread-safe.

    `log` is None for a stateless service. `maker` builds replicas under `run_dir`.
    """

    def __init__(
        self,
        record: ServiceRecord,
        shelf: CheckpointShelf,
        log: Log | None,
        maker: ReplicaMaker,
        run_dir: Path,
        *,
        lease_seconds: float,
        operation_seconds: float,
        keep_checkpoints: int,
    ) -> None:
        self.record = record
        self.shelf = shelf
        self.lease = Lease(record.name, lease_seconds)
        self._log = log
        self._maker = maker
        self._run_dir = run_dir
        self._operation_seconds = operation_seconds
        self._keep = keep_checkpoints
        self._life = threading.RLock()
        self._appending = threading.Lock()
        self._answered = threading.Condition()
        self._answers: OrderedDict[int, Response] = OrderedDict()
        self._executed = OperationNumber(0)
        self._replica: Replica | None = None
        self._executor: threading.Thread | None = None
        self._failure: str | None = None
        self._closing = threading.Event()

    @property
    def name(self) -> str:
        return self.record.name

    def view(self) -> ServiceView:
        """The state of the service now."""
        replica = self._replica
        latest = self.shelf.latest()
        return ServiceView(
            name=self.name,
            image=self.record.image,
            stateful=self._log is not None,
            state=replica.state.value if replica else "down",
            checkpoint=latest.id if latest else None,
            last_logged=self._log.last if self._log else 0,
            last_executed=replica.last if replica else 0,
            client=self.lease.holder,
            failure=self._failure,
        )

    def launch(self) -> None:
        """Have a running replica: the one that runs, else from a checkpoint, else a first boot.

        Returns when it answers; the log beyond its checkpoint is executed afterwards. A first boot
        is followed by a checkpoint at operation 0, so that a launch never boots twice.
        """
        with self._life:
            if self._replica and self._replica.state is ReplicaState.READY:
                return
            self._drop()
            replica_id = ReplicaId(f"{self.name}-{secrets.token_hex(4)}")
            run_dir = self._run_dir / secrets.token_hex(3)
            latest = self.shelf.latest()
            if latest is None:
                self._adopt(self._maker.boot(replica_id, run_dir))
                self.checkpoint()
            else:
                self._adopt(self._maker.resume(latest, replica_id, run_dir))

    def stop(self) -> None:
        """End the replica. The log and the checkpoints stay."""
        with self._life:
            self._drop()

    def close(self) -> None:
        """End the replica and close the log; the object is of no use afterwards."""
        self._closing.set()
        self.stop()
        if self._log:
            self._log.close()

    def submit(self, operations: Sequence[Operation]) -> list[Response]:
        """Log the operations, wait until the replica has executed them, give the responses.

        They are durable in the log before anything else happens, so after an error that says
        that the replica is gone they are stable all the same. Operations that the log has already
        are not logged and not executed again; a response that is no longer kept is left out.
        Raises OperationGap, OperationConflict, NotLaunched, ReplicaFailed, UnavailableError.
        """
        if self._log is None:
            replica = self._ready()
            return [replica.execute(op, self._operation_seconds) for op in operations]
        self._append(operations)
        deadline = time.monotonic() + self._operation_seconds
        wanted = [op.number for op in operations]
        with self._answered:
            self._wait_executed(wanted[-1], deadline)
            return [self._answers[number] for number in wanted if number in self._answers]

    def operations(self, after: OperationNumber, limit: int) -> list[Operation]:
        """The logged operations after that number, at most `limit` of them."""
        found: list[Operation] = []
        for operation in self._log.read(after) if self._log else ():
            found.append(operation)
            if len(found) == limit:
                break
        return found

    def checkpoint(self) -> tuple[Manifest, Frozen]:
        """Freeze the replica into a new signed checkpoint; forget the oldest; cut the log.

        Durable on return. Operations wait while the machine is paused.
        """
        with self._life:
            frozen = self._ready().checkpoint()
            manifest = self._maker.freeze(frozen, self.shelf.latest())
            newest = [m.id for m in self.shelf.all()][-self._keep :]
            self.shelf.keep(lambda m: m.id in newest)
            if self._log:
                self._log.cut(frozen.operation)
            return manifest, frozen

    def wait_executed(self, number: OperationNumber, timeout: float) -> None:
        """Return once the replica has executed that operation, or raise UnavailableError."""
        with self._answered:
            self._wait_executed(number, time.monotonic() + timeout)

    def replica(self) -> Replica:
        """The running replica, or NotLaunched."""
        return self._ready()

    @property
    def last_logged(self) -> OperationNumber:
        return self._log.last if self._log else OperationNumber(0)

    def _wait_executed(self, number: OperationNumber, deadline: float) -> None:
        while self._executed < number:
            self._ready()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"operation {number} of {self.name} is logged but not executed yet",
                    why=f"the replica is at operation {self._executed}",
                    fix="ask again later with the same number",
                )
            self._answered.wait(timeout=1.0)

    def _append(self, operations: Sequence[Operation]) -> None:
        assert self._log is not None
        with self._appending:
            for operation in operations:
                if operation.number > self._log.last:
                    self._log.append(operation)
                else:
                    self._compare(operation)

    def _compare(self, operation: Operation) -> None:
        assert self._log is not None
        if operation.number < self._log.first:
            return
        if next(self._log.read(OperationNumber(operation.number - 1))) == operation:
            return
        raise OperationConflict(
            f"operation {operation.number} of {self.name} differs from the logged one",
            why="two clients wrote to one service",
            fix="end one of them; the log at home is the one that counts",
        )

    def _ready(self) -> Replica:
        replica = self._replica
        if replica is None:
            if self._failure:
                raise ReplicaFailed(f"service {self.name} is down at home", why=self._failure)
            raise NotLaunched(self.name)
        return replica

    def _adopt(self, replica: Replica) -> None:
        self._replica = replica
        self._failure = None
        self._executed = replica.last
        if self._log:
            name = f"execute-{self.name}"
            self._executor = threading.Thread(target=self._execute, args=(replica,), name=name)
            self._executor.start()

    def _drop(self) -> None:
        replica, self._replica = self._replica, None
        executor, self._executor = self._executor, None
        if replica:
            replica.stop()
        if executor:
            executor.join()

    def _execute(self, replica: Replica) -> None:
        """The cursor: runs until its replica is no longer ready."""
        assert self._log is not None
        try:
            while replica.state is ReplicaState.READY:
                if not self._log.wait_beyond(replica.last, timeout=0.5):
                    continue
                for operation in self._log.read(replica.last):
                    response = replica.execute(operation, self._operation_seconds)
                    self._keep_answer(response)
        except SatchelError as error:
            if replica.state is not ReplicaState.STOPPED and not self._closing.is_set():
                logger.error("service %s: %s", self.name, error)
                self._failure = str(error)
                self._replica = None
                replica.stop()
        with self._answered:
            self._answered.notify_all()

    def _keep_answer(self, response: Response) -> None:
        with self._answered:
            self._answers[response.number] = response
            self._executed = response.number
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
            self._answered.notify_all()
