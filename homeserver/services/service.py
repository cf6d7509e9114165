# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A live service at home: its first-class replica, its checkpoints, the client that holds it."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from homeserver.retention import RetentionVerdict, require_policy
from homeserver.services.answer_cache import ANSWERS_KEPT
from homeserver.services.carried import CarriedDeltas
from homeserver.services.cut_operations import LogFollower
from homeserver.services.doctor import NothingToExamine, diagnose, diagnose_ports
from homeserver.services.lease import ServiceLease
from homeserver.services.log_keys import ServiceLogKeys
from homeserver.services.machines import CheckpointHints, Machines, PreparedReplica, failure_of
from homeserver.services.records import CheckpointRegistry, ServiceRecord
from homeserver.services.remote_touches import RemoteTouches
from homeserver.services.replayed import ReplayedOperations
from homeserver.services.view import ServiceView
from homeserver.settings import HomeSettings
from hypervisor import MachineUnsupported
from images import SIGNATURE_NAMESPACE, ContractSpec, Freshness, Manifest
from media import SignedManifest
from replay import (
    Log,
    Operation,
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


class NotLaunched(StateError):
    """The service has no replica at home."""

    def __init__(self, service: str) -> None:
        super().__init__(
            f"service {service} is not running at home", fix=f"`satchel-home launch {service}`"
        )


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
        self._machines = machines
        self._identity = identity
        self._settings = settings
        self._life = threading.RLock()
        self._prepared: PreparedReplica | None = None
        self._executor: threading.Thread | None = None
        self._failure: str | None = None
        self.told = RemoteTouches()
        self.carried = CarriedDeltas(record.name, identity.fingerprint, shelf)
        path = shelf.root.parent / "log.key"
        self.log_keys = ServiceLogKeys(path if log else None, settings.log_key_days)
        seconds = settings.operation_seconds
        self.replayed = ReplayedOperations(self, log, shelf.root.parent, seconds, follower)

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def owner(self) -> str:
        """The fingerprint of the key that signs its manifests."""
        return self._identity.fingerprint

    @property
    def last_logged(self) -> OperationNumber:
        return self.replayed.last

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
        self.replayed.close()

    def answer(self, operations: Sequence[Operation]) -> Iterator[Response]:
        """See ReplayedOperations."""
        return self.replayed.answer(operations)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        """See ReplayedOperations."""
        return self.replayed.read(operations)

    def compare(self, samples: Sequence[Sample]) -> Iterator[ReadDigest]:
        """See ReplayedOperations."""
        return self.replayed.compare(samples)

    def statement(self, number: OperationNumber) -> SignedStatement:
        """What was answered to that operation, signed by the owner. Raises NotFoundError where the
        log or the answer is not kept any more, as the identity does."""
        operation = next(iter(self.replayed.operations(OperationNumber(number - 1), 1)), None)
        response = self.replayed.response(number)
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
        if not (operations or self.replayed.logged):
            raise NothingToExamine(
                f"{self.name} has no log to examine",
                why="it is stateless: nothing is logged, and nothing replayed",
            )

        def log_after(number: OperationNumber) -> Sequence[Operation]:
            if not operations:
                return self.replayed.after(number)
            after = [op for op in operations if op.number > number]
            return after if after and after[0].number == number + 1 else ()

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
        newest = self.shelf.all()[-self._settings.keep_checkpoints :]
        oldest = min(manifest.operation for manifest in newest)
        self.replayed.forget(OperationNumber(max(0, oldest - 1)))

    def require_present(self) -> PreparedReplica:
        """The replica, even one that is starting. Raises NotLaunched, ReplicaFailed."""
        prepared = self._prepared
        if prepared is not None:
            return prepared
        if self._failure:
            fix = f"`satchel-home launch {self.name}`"
            raise ReplicaFailed(f"service {self.name} is down at home", why=self._failure, fix=fix)
        raise NotLaunched(self.name)

    def _ready(self) -> PreparedReplica:
        prepared = self.require_present()
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
        self.replayed.begin(prepared.replica.last)
        work = (prepared.replica,)
        self._executor = threading.Thread(target=self._run, args=work, name=f"home-{self.name}")
        self._executor.start()

    def _drop(self) -> None:
        prepared, self._prepared = self._prepared, None
        executor, self._executor = self._executor, None
        if prepared:
            prepared.replica.stop()
        self.replayed.wake()
        if executor:
            executor.join()

    def _run(self, replica: Replica) -> None:
        """The executor: runs until its replica is no longer ready, and puts away a failed one."""
        try:
            while replica.state is ReplicaState.READY:
                self.replayed.execute(replica)
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
        self.replayed.wake()
