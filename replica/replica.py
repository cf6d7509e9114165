# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One replica: what may be asked of it, and when.

    STARTING --> READY --> STOPPED
        |          |
        +----------+--> FAILED --> STOPPED

A checkpoint and an operation both happen in READY, one at a time: the lock that orders them is
the replica's own, so a checkpoint is always between two operations.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chunkstore import Store, TableRoot
from hypervisor import Boot, Driver, Machine, MachineSpec
from overlay import Resolver, Volume
from replay import AgentChannel, Operation, Response, adapters
from replica.attachment import RAM, Attachment
from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.ids import ZERO_REF, OperationNumber, ReplicaId

logger = logging.getLogger(__name__)

BOOT_SECONDS = 300.0
"""How long a guest may take from its first instruction to its agent's answer, under TCG."""

RESUME_SECONDS = 600.0
"""How long a resumed guest's agent may take to answer: over a slow link it faults its way there."""


class ReplicaState(enum.Enum):
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


class WrongReplicaState(StateError):
    """The replica is not in the state that the call needs."""

    def __init__(self, replica: ReplicaId, state: ReplicaState, required: ReplicaState) -> None:
        super().__init__(f"replica {replica} is {state.value}", why=f"must be {required.value}")
        self.state = state
        self.required = required


class ReplicaFailed(UnavailableError):
    """The machine ended or its agent went silent; the replica cannot go on."""


@dataclass(frozen=True)
class Frozen:
    """A machine as it was between two operations: what a manifest is made of."""

    operation: OperationNumber
    device_state: TableRoot
    volumes: Mapping[str, TableRoot]
    paused_seconds: float


class Replica:
    """A machine, its volumes and the number of its last operation. Thread-safe."""

    def __init__(
        self,
        replica_id: ReplicaId,
        spec: MachineSpec,
        store: Store,
        driver: Driver,
        run_dir: Path,
        *,
        adapter: str,
        stateful: bool,
    ) -> None:
        self.id = replica_id
        self.spec = spec
        self.stateful = stateful
        self._adapter = adapters.for_kind(adapter)
        self._store = store
        self._driver = driver
        self._run_dir = run_dir
        self._busy = threading.RLock()
        self._state = ReplicaState.STARTING
        self._last = OperationNumber(0)
        self._attachment: Attachment | None = None
        self._machine: Machine | None = None
        self._agent: AgentChannel | None = None

    @property
    def state(self) -> ReplicaState:
        return self._state

    @property
    def last(self) -> OperationNumber:
        """The last operation that the guest has executed. For a stateless service: how many."""
        return self._last

    def boot(self, disks: Mapping[str, TableRoot], boot: Boot, resolver: Resolver) -> None:
        """Start from a kernel, with empty memory; returns once the service answers."""
        size = self.spec.memory_mib << 20
        roots = {RAM: TableRoot(ref=ZERO_REF, size=size), **disks}
        self._start(roots, resolver, boot, lambda machine: None, BOOT_SECONDS)

    def resume(
        self,
        frozen: Frozen,
        resolver: Resolver,
        bring: Callable[[TableRoot], bytes],
        attached: Callable[[Mapping[str, Volume]], None] = lambda volumes: None,
    ) -> None:
        """Go on from a checkpoint; returns once the agent answers.

        `bring` delivers the whole device state; `resolver` is asked for each block that the
        machine touches; `attached` is told of the volumes before the machine touches any.
        """

        def load(machine: Machine) -> None:
            assert self._attachment is not None
            attached(self._attachment.volumes)
            path = self._run_dir / "device-state"
            path.write_bytes(bring(frozen.device_state))
            machine.load(path)
            machine.resume()
            path.unlink()

        self._start(frozen.volumes, resolver, None, load, RESUME_SECONDS)

    def execute(self, operation: Operation, timeout: float | None = None) -> Response:
        """Execute one operation in the guest, at most once by its number; its normalised response.

        A stateless service keeps no history, so its replicas count for themselves: whatever the
        operation's number is, the guest sees its own next one.
        Raises ReplicaFailed when the machine or its agent is gone.
        """
        with self._busy:
            self._require(ReplicaState.READY)
            assert self._agent is not None
            asked = operation
            if not self.stateful:
                operation = dataclasses.replace(operation, number=OperationNumber(self._last + 1))
            try:
                response = self._agent.execute(operation, timeout=timeout)
            except UnavailableError as error:
                raise self._fail(error) from error
            self._last = max(self._last, operation.number)
            payload = self._adapter.normalise(response.payload, asked)
            return Response(asked.number, payload)

    def checkpoint(self) -> Frozen:
        """Freeze the machine between two operations, store what changed, and let it go on.

        Everything that the result names is durable in the store on return.
        """
        with self._busy:
            self._require(ReplicaState.READY)
            assert self._machine is not None
            assert self._attachment is not None
            path = self._run_dir / "device-state"
            begin = time.monotonic()
            self._machine.pause()
            try:
                self._machine.save(path)
                volumes = self._attachment.commit(self._store)
                device_state = self._store.import_file(path)
            finally:
                self._machine.resume()
                path.unlink(missing_ok=True)
            paused = time.monotonic() - begin
            return Frozen(self._last, device_state, volumes, paused)

    def digest(self, paths: list[str]) -> str:
        """A digest of the guest's files at `paths`, for comparing two replicas."""
        with self._busy:
            self._require(ReplicaState.READY)
            assert self._agent is not None
            return self._agent.digest(paths)

    def run(self, argv: list[str], timeout: float) -> tuple[int, bytes]:
        """Run a program in the guest, for administration: its exit status and output."""
        with self._busy:
            self._require(ReplicaState.READY)
            assert self._agent is not None
            return self._agent.run(argv, timeout)

    def failure(self) -> str | None:
        """Why the machine ended by itself, or None while it has not."""
        return self._machine.failure() if self._machine is not None else None

    def stop(self) -> None:
        """End the machine and leave no process, mount, socket or file. Works in any state.

        An operation under way in another thread ends with ReplicaFailed.
        """
        self._state = ReplicaState.STOPPED
        self._release()
        shutil.rmtree(self._run_dir, ignore_errors=True)

    def _start(
        self,
        roots: Mapping[str, TableRoot],
        resolver: Resolver,
        boot: Boot | None,
        load: Callable[[Machine], None],
        seconds: float,
    ) -> None:
        with self._busy:
            self._require(ReplicaState.STARTING)
            self._driver.check(self.spec)
            self._run_dir.mkdir(parents=True, mode=0o700)
            try:
                self._attachment = Attachment.open(self._run_dir, self._store, roots, resolver)
                wiring = self._attachment.wiring(self._run_dir)
                self._machine = self._driver.start(self.spec, wiring, boot)
                load(self._machine)
                self._agent = AgentChannel.connect(self._machine.agent_socket, timeout=seconds)
                self._last = self._agent.wait_ready(seconds).last
            except BaseException as error:
                if isinstance(error, SatchelError):
                    self._fail(error)
                self._release()
                shutil.rmtree(self._run_dir, ignore_errors=True)
                raise
            if self._state is ReplicaState.STARTING:
                self._state = ReplicaState.READY

    def _require(self, state: ReplicaState) -> None:
        if self._state is not state:
            raise WrongReplicaState(self.id, self._state, state)

    def _fail(self, cause: SatchelError) -> ReplicaFailed:
        if self._state is not ReplicaState.STOPPED:
            self._state = ReplicaState.FAILED
        why = self.failure() or str(cause)
        return ReplicaFailed(f"replica {self.id} cannot go on", why=why, fix="start another one")

    def _release(self) -> None:
        agent, self._agent = self._agent, None
        machine, self._machine = self._machine, None
        attachment, self._attachment = self._attachment, None
        endings: list[Callable[[], None]] = []
        if agent:
            endings.append(agent.close)
        if machine:
            endings.append(machine.stop)
        if attachment:
            endings.append(attachment.close)
        for end in endings:
            try:
                end()
            except SatchelError as error:
                logger.warning("replica %s: %s", self.id, error)
