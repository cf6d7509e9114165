# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A live service at home: its log, its first-class replica, the client that holds it.

The replica is a cursor into the log: one thread executes whatever the log has beyond the
replica's last operation. A client that sends an operation, a launch from an old checkpoint and a
replica that had to be started again are one and the same mechanism.

A stateless service has no log; its operations go straight to the replica.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from homeserver.retention import RetentionVerdict, require_policy
from homeserver.services.answer_cache import ANSWERS_KEPT, AnswerCache
from homeserver.services.cut_operations import CutOperations, LogFollower
from homeserver.services.doctor import NothingToExamine, diagnose, diagnose_ports
from homeserver.services.incoming import IncomingDelta
from homeserver.services.lease import ServiceLease
from homeserver.services.log_keys import ServiceLogKeys
from homeserver.services.machines import CheckpointHints, Machines, PreparedReplica, failure_of
from homeserver.services.records import CheckpointRegistry, ServiceRecord
from homeserver.services.remote_touches import RemoteTouches
from homeserver.services.sampled_reads import SampledReads
from homeserver.services.view import ServiceView
from homeserver.settings import HomeSettings
from hypervisor import MachineUnsupported
from images import SIGNATURE_NAMESPACE, ContractSpec, Freshness, Manifest
from media import SignedManifest
from replay import (
    Log,
    Operation,
    OperationGap,
    OperationsCut,
    ReadDigest,
    Response,
    Sample,
)
from replica import (
    DeltaMaker,
    MachineSnapshot,
    Replica,
    ReplicaFailed,
    ReplicaState,
    read_console,
)
from satchel.errors import (
    ConflictError,
    NotFoundError,
    SatchelError,
    StateError,
    UnavailableError,
    UsageError,
)
from satchel.ids import CheckpointId, OperationNumber
from satchel.progress import Progress, silent
from satchel.retention import RetentionPolicy, select
from satchel.spans import Spans
from satchel.timestamps import timestamp_now
from wire import HOME_REPLICA, STATEMENT_NAMESPACE, Identity, SignedStatement, Statement

logger = logging.getLogger(__name__)

OPERATION_BYTES = 32 << 20
"""Bytes of logged operations that are given at once; one always is."""

_MACHINE_POLL_SECONDS = 0.5
"""How long a machine that ended by itself may stay unnoticed."""


class NotLaunched(StateError):
    """The service has no replica at home."""

    def __init__(self, service: str) -> None:
        super().__init__(
            f"service {service} is not running at home", fix=f"`satchel-home launch {service}`"
        )


class OperationsDiffer(ConflictError):
    """Two different operations have the same number: two clients wrote one service's log."""


class NotExecutedYet(UnavailableError):
    """An operation is in the log, but the replica did not reach it in time."""


@dataclass(frozen=True)
class Checkpoint(SignedManifest):
    """A checkpoint that was taken, and how long the machine stood still for it."""

    paused_seconds: float = 0.0


class Service:
    """See the module. Thread-safe. The log is None for a stateless service."""

    def __init__(
        self,
        record: ServiceRecord,
        shelf: CheckpointRegistry,
        log: Log | None,
        machines: Machines,
        identity: Identity,
        settings: HomeSettings,
        follower: LogFollower | None = None,
    ) -> None:
        """Takes over `log`. identity: the owner, who signs manifests. Raises OSError, and
        IntegrityError for a key of the log that is none."""
        self.record = record
        self.shelf = shelf
        self.lease = ServiceLease(record.name, settings.lease_seconds)
        self._log = log
        self._machines = machines
        self._identity = identity
        self._follower = follower
        self._settings = settings
        self._life = threading.RLock()
        self._appending = threading.Lock()
        self._changed = threading.Condition()
        self._answers = AnswerCache()
        self._samples = SampledReads(self._changed, settings.operation_seconds)
        self._executed = OperationNumber(0)
        self._prepared: PreparedReplica | None = None
        self._executor: threading.Thread | None = None
        self._failure: str | None = None
        self.told = RemoteTouches()
        self.incoming = IncomingDelta(shelf.root.parent / "delta.part")
        path = shelf.root.parent / "log.key"
        self.log_keys = ServiceLogKeys(path if log else None, settings.log_key_days)
        self._cut = CutOperations(shelf.root.parent / "cut") if log else None

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def owner(self) -> str:
        """The fingerprint of the key that signs its manifests."""
        return self._identity.fingerprint

    @property
    def last_logged(self) -> OperationNumber:
        return self._log.last if self._log else OperationNumber(0)

    @property
    def about(self) -> tuple[str, str]:
        """Its name, and its replica's in statements."""
        return self.name, HOME_REPLICA

    @property
    def spans(self) -> tuple[Spans, ...]:
        """What its replica did, and when."""
        return (self._prepared.replica.phases.spans,) if self._prepared else ()

    def view(self) -> ServiceView:
        """The state of the service now."""
        prepared, latest = self._prepared, self.shelf.latest()
        down = "failed" if self._failure else "down"
        return ServiceView(
            name=self.name,
            image=self.record.image,
            stateful=self.record.stateful,
            state=prepared.replica.state.value if prepared else down,
            checkpoint=latest.id if latest else None,
            last_logged=self.last_logged,
            last_executed=prepared.replica.last if prepared else 0,
            client=self.lease.holder,
            failure=self._failure,
            accelerator=prepared.replica.spec.accelerator if prepared else "",
        )

    def console(self, after: int) -> tuple[bytes, int]:
        """Read the console of its machine, or of the last one; see `replica.read_console`."""
        prepared = self._prepared
        folder = prepared.replica.run_dir if prepared else self.shelf.root.parent
        return read_console(folder, after)

    @property
    def present(self) -> Replica | None:
        """Its replica, even one that is starting."""
        return self._prepared.replica if self._prepared else None

    def launch(self, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Have a running replica: the one that runs, else from a checkpoint, else a first boot.
        Return False, and start none, if it is not wanted when its turn comes.

        Returns when it answers; the log beyond its checkpoint is executed afterwards. A first boot
        is followed by a checkpoint, so that the next launch does not boot. Raises what boots and
        resumes raise, ReplicaFailed when it was stopped meanwhile.
        """
        with self._life, self._machines.making():
            if not wanted():
                return False
            if self._prepared and self._prepared.replica.state is ReplicaState.READY:
                return True
            self._drop()
            latest = self.shelf.latest()
            self._start(self._prepare(latest))
            if latest is None:
                self.checkpoint()
            return True

    def stop(self) -> None:
        """End the replica, even one that is starting. The log and the checkpoints stay."""
        if prepared := self._prepared:
            prepared.replica.stop()
        with self._life:
            self._drop()
            self._failure = None

    def close(self) -> None:
        """End the replica and close the log; the object is of no use afterwards."""
        self.stop()
        if self._log and self._cut:
            self._log.close()
            self._cut.close()

    def answer(self, operations: Sequence[Operation]) -> Iterator[Response]:
        """Log the operations, and give each response as soon as the replica has executed it.

        All are durable in the log before the first response, so after an error that says that the
        replica is gone they are stable all the same. Operations that the log has already are not
        logged and not executed again; a response that is no longer kept is left out. Raises as
        `append`, `wait_executed` and, without a log, Replica.execute do.
        """
        if self._log is None:
            replica, seconds = self.replica(), self._settings.operation_seconds
            for operation in operations:
                yield replica.execute(operation, seconds)
            return
        self.append(operations)
        for operation in operations:
            self.wait_executed(operation.number)
            with self._changed:
                response = self._answers.of(operation.number)
            if response:
                yield response

    def statement(self, number: OperationNumber) -> SignedStatement:
        """What was answered to that operation, signed by the owner. Raises NotFoundError where the
        log or the answer is not kept any more, as the identity does."""
        operation = next(iter(self.operations(OperationNumber(number - 1), 1)), None)
        with self._changed:
            response = self._answers.of(number)
        if operation is None or operation.number != number or response is None:
            raise NotFoundError(
                f"home has no record of its answer to operation {number}",
                why=f"the last {ANSWERS_KEPT} answers are kept",
            )
        asked = hashlib.sha256(operation.encode()).digest()
        said = Statement(*self.about, "operation", number, asked, response.digest)
        signature = self._identity.sign(said.to_bytes(), STATEMENT_NAMESPACE).decode("ascii")
        key = " ".join(self._identity.public.split()[:2])
        return SignedStatement(HOME_REPLICA, said.answered.hex(), key, signature)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        """Execute requests that change nothing, each after the operations before its number; they
        are not logged and do not count. Needs a stateful service.

        Raises OperationGap where the log has not all of these, and as `wait_executed` and
        Replica.read do.
        """
        responses = []
        for operation in operations:
            if operation.number > self.last_logged + 1:
                raise OperationGap(
                    "it cannot be read yet", number=operation.number, last=self.last_logged
                )
            self.wait_executed(OperationNumber(operation.number - 1))
            responses.append(self.replica().read(operation, self._settings.operation_seconds))
        return responses

    def compare(self, samples: Sequence[Sample]) -> Iterator[ReadDigest]:
        """See `SampledReads.compare`."""
        stateless = None if self._log or not samples else self.replica()
        return self._samples.compare(samples, lambda: self._prepared is not None, stateless)

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
                    self._follower.logged(self.name)

    def wait_executed(self, number: OperationNumber) -> None:
        """Return once the replica has executed that operation.

        Raises NotExecutedYet when none was executed for `operation_seconds`, NotLaunched,
        ReplicaFailed.
        """
        patience = self._settings.operation_seconds
        with self._changed:
            seen, since = self._executed, time.monotonic()
            while self._executed < number:
                self._present()
                if self._executed != seen:
                    seen, since = self._executed, time.monotonic()
                elif time.monotonic() - since > patience:
                    raise NotExecutedYet(
                        f"operation {number} of {self.name} is logged but not executed yet",
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

    def checkpoint(self) -> Checkpoint:
        """Freeze the replica into a new signed checkpoint; forget the oldest; cut the log.

        Durable on return. Operations wait while the machine is paused, and only then. The log
        still leads on from the oldest checkpoint that is kept. Raises NotLaunched, ReplicaFailed,
        and what the store raises.
        """
        with self._life, self._machines.making():
            prepared, parent = self._ready(), self.shelf.latest()
            replica = prepared.replica
            frozen = replica.checkpoint()
            learnt = self._machines.learn(self.record, prepared, frozen, parent, self.told)
            return self._keep(parent, frozen, replica.spec.to_json(), prepared.contract, learnt)

    def copy(self) -> Checkpoint:
        """As `checkpoint`, but nothing more is learnt of the machine: that would slow down one that
        is in use. Durable on return. Raises as `checkpoint`."""
        with self._life, self._machines.making():
            prepared, parent = self._ready(), self.shelf.latest()
            replica = prepared.replica
            frozen, machine = replica.checkpoint(), replica.spec.to_json()
            learnt = self._machines.learnt_before(parent, frozen)
            return self._keep(parent, frozen, machine, prepared.contract, learnt)

    def keep(self, parent: Manifest, frozen: MachineSnapshot) -> Checkpoint:
        """Sign and keep a later state of a machine whose checkpoint `parent` is; what was learnt of
        that still goes for it. Durable on return."""
        learnt = CheckpointHints(parent.profile)  # the content of a working set is outdated
        with self._life:
            return self._keep(parent, frozen, parent.machine, parent.contract, learnt)

    def _keep(
        self,
        parent: Manifest | None,
        frozen: MachineSnapshot,
        machine: Mapping[str, Any],
        contract: ContractSpec,
        learnt: CheckpointHints,
    ) -> Checkpoint:
        """Called with `_life`."""
        latest = self.shelf.latest()
        created = timestamp_now()
        manifest = Manifest(
            service=self.name,
            parent=parent.id if parent else None,
            created=created,
            operation=frozen.operation,
            machine=machine,
            contract=contract,
            device_state=frozen.device_state,
            volumes=frozen.volumes,
            profile=learnt.profile,
            working_set=learnt.working_set,
            freshness=Freshness.after(latest, created, self._settings.checkpoint_days),
        )
        signature = self._identity.sign(manifest.to_bytes(), SIGNATURE_NAMESPACE)
        self.shelf.add(manifest, signature)
        self._forget_old()
        return Checkpoint(manifest, signature, frozen.paused_seconds)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is kept, or None when there is none."""
        manifest = self.shelf.latest()
        return Checkpoint(manifest, self.shelf.signature(manifest.id)) if manifest else None

    def diagnose(
        self, operations: Sequence[Operation] = (), progress: Progress = silent
    ) -> dict[str, Any]:
        """Examine fresh copies of the machine; the service is not touched. Report whether two
        execute these operations alike, by default those of the log. Of a carried service report
        which ports answer. Raises NothingToExamine, and the errors of a resume."""

        def fresh(manifest: Manifest) -> PreparedReplica:
            return self._machines.resume(manifest, self.record)

        latest = self.shelf.latest()
        if latest and latest.contract.carried:
            return diagnose_ports(latest, fresh)
        if not operations and self._log is None:
            raise NothingToExamine(
                f"{self.name} has no log to examine",
                why="it is stateless: nothing is logged, and nothing replayed",
            )

        def log_after(number: OperationNumber) -> Sequence[Operation]:
            if operations:
                after = [op for op in operations if op.number > number]
                return after if after and after[0].number == number + 1 else ()
            with contextlib.suppress(OperationsCut):
                return list(self._log.read(number)) if self._log else ()
            return ()

        return diagnose(self.shelf.all(), log_after, fresh, progress)

    def replica(self) -> Replica:
        """The running replica. Raises NotLaunched, ReplicaFailed."""
        return self._ready().replica

    @property
    def running(self) -> Replica:
        """As `replica`."""
        return self.replica()

    def claim(self, client: str) -> None:
        """Give the lease to a client that sends operations. Raises UsageError, ServiceHeld."""
        if not client:
            raise UsageError("operations need the header X-Satchel-Client")
        self.lease.claim(client)

    def touched(self) -> Mapping[str, Iterable[int]]:
        """The blocks that the machine has touched here, if they are few. Raises as `replica`."""
        return self._ready().touched()

    @property
    def deltas(self) -> DeltaMaker:
        """What makes deltas of the running replica. Raises NotLaunched, ReplicaFailed."""
        return self._ready().deltas

    def forget(self, policy: RetentionPolicy, *, dry_run: bool = False) -> list[RetentionVerdict]:
        """Forget the checkpoints that a policy does not keep, never the newest; what it says of
        each, the newest first. Raises UsageError for a policy that keeps nothing."""
        require_policy(policy)
        with self._life:
            chosen = select(self.shelf.all(), lambda m: datetime.fromisoformat(m.created), policy)
            verdicts = []
            for index, (manifest, kept) in enumerate(chosen):
                reasons = kept or (("newest",) if index == 0 else ())
                verdicts.append(
                    RetentionVerdict("service", self.name, manifest.id, manifest.created, reasons)
                )
            if not dry_run:
                self.shelf.keep([CheckpointId(v.version) for v in verdicts if v.kept])
            return verdicts

    def _forget_old(self) -> None:
        """What the settings do not keep; then the log up to where the newest of them lead on, but
        for one operation: who comes with a history of their own is compared by the last one."""
        self.forget(self._settings.policy)
        if self._log and self._cut:
            newest = self.shelf.all()[-self._settings.keep_checkpoints :]
            oldest = min(manifest.operation for manifest in newest)
            upto = OperationNumber(max(0, oldest - 1))
            first = OperationNumber(self._log.first - 1)
            self._cut.add(takewhile(lambda one: one.number <= upto, self._log.read(first)))
            self._log.cut(upto)
            if self._follower:
                self._follower.cut(self.name, upto)

    def _compare(self, operation: Operation) -> None:
        if not self.agrees(operation):
            raise OperationsDiffer(
                f"operation {operation.number} of {self.name} differs from the logged one",
                why="two clients wrote to one service",
                fix=f"`satchel log {self.name}` there: the log at home is the one that counts",
            )

    def _present(self) -> PreparedReplica:
        """The replica, even one that is starting. Raises NotLaunched, ReplicaFailed."""
        prepared = self._prepared
        if prepared is not None:
            return prepared
        if self._failure:
            fix = f"`satchel-home launch {self.name}`"
            raise ReplicaFailed(f"service {self.name} is down at home", why=self._failure, fix=fix)
        raise NotLaunched(self.name)

    def _ready(self) -> PreparedReplica:
        prepared = self._present()
        if prepared.replica.state is ReplicaState.STARTING:
            raise UnavailableError(f"service {self.name} is starting", fix="ask again later")
        return prepared

    def _prepare(self, latest: Manifest | None) -> PreparedReplica:
        try:
            if latest is None:
                return self._machines.first_boot(self.record)
            return self._machines.resume(latest, self.record, performs=True)
        except MachineUnsupported as error:
            self._failure = str(error)
            raise

    def _start(self, prepared: PreparedReplica) -> None:
        self._failure = None
        self._prepared = prepared
        prepared.replica.console_kept = self.shelf.root.parent
        try:
            prepared.start()
        except BaseException as error:
            self._prepared = None
            self._failure = str(error)
            prepared.replica.stop()
            raise
        self._executed = prepared.replica.last
        self._samples.reset(self._executed)
        work = (prepared.replica,)
        self._executor = threading.Thread(target=self._run, args=work, name=f"home-{self.name}")
        self._executor.start()

    def _drop(self) -> None:
        prepared, self._prepared = self._prepared, None
        executor, self._executor = self._executor, None
        if prepared:
            prepared.replica.stop()
        with self._changed:
            self._changed.notify_all()
        if executor:
            executor.join()

    def _run(self, replica: Replica) -> None:
        """The executor: runs until its replica is no longer ready, and puts away a failed one."""
        try:
            while replica.state is ReplicaState.READY:
                self._execute(replica)
            failure = replica.failure()
        except SatchelError as error:
            failure = failure_of(replica) or str(error)
        except Exception as error:
            logger.exception("service %s: executing its log failed", self.name)
            failure = repr(error)
        if replica.state is not ReplicaState.STOPPED:
            logger.error("service %s: %s", self.name, failure)
            replica.stop()
            self._failure = failure or "its machine ended"
            self._prepared = None
        with self._changed:
            self._changed.notify_all()

    def _execute(self, replica: Replica) -> None:
        """What the log has beyond the replica; returns after a while when it has nothing."""
        with self._changed:
            ended = replica.state is not ReplicaState.READY
            idle = self.last_logged <= replica.last and not self._samples.due(replica.last)
            if not ended and idle:
                self._changed.wait(_MACHINE_POLL_SECONDS)
        self._samples.execute(replica, None)
        if self._log is None or self.last_logged <= replica.last:
            return
        for operation in self._log.read(replica.last):
            self._samples.execute(replica, operation.number)
            response = replica.execute(operation, self._settings.operation_seconds)
            with self._changed:
                self._answers.keep(response)
                self._executed = response.number
                self._changed.notify_all()
