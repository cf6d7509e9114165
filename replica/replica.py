# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One replica: what may be asked of it, and when.

    boot() or resume()    STARTING --> READY
    (the machine ended)   STARTING or READY --> FAILED
    stop()                any state --> STOPPED

Operations and checkpoints happen in READY, one at a time: the lock that orders them is the
replica's own, so a checkpoint is always between two operations. `stop` waits for nobody: it ends
the agent's line and the machine, at which whoever holds the lock fails, and then clears away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from chunkstore import Store, TableRoot
from guestshares import GuestShares, ShareHost
from hypervisor import (
    FIRST_BOOT_READ_AHEAD_KIB,
    Boot,
    Driver,
    Machine,
    MachineFailed,
    MachineSpec,
    MachineState,
    RamMountFailed,
)
from replay import (
    AgentChannel,
    AgentGone,
    AgentTimeout,
    Operation,
    Response,
    ServiceNotReady,
    ServiceTimeout,
    adapters,
)
from replica.answer_previews import AnswerPreviews
from replica.attachment import RAM, Attachment, room_in
from replica.door import StreamDoor, still
from replica.folder import RunFolder
from replica.guest_clock import GuestClock, let_run
from replica.long_answers import LongAnswers
from replica.phases import Phases
from replica.profile import IDLE, RESUME
from replica.states import (
    MachineSnapshot,
    ReplicaFailed,
    ReplicaState,
    WrongGuest,
    WrongReplicaState,
    check_shares,
    was_stopped,
)
from sandbox import EVERYBODY, Cells, left
from satchel.errors import SatchelError
from satchel.ids import ZERO_REF, OperationNumber, ReplicaId
from satchel.process import printable_tail
from satchel.spans import Steps
from volumes import RawBlocks, Resolver, Volume

logger = logging.getLogger(__name__)

BOOT_SECONDS = 300.0
"""How long a guest may take from its first instruction to its agent's answer, under TCG."""

RESUME_SECONDS = 600.0
"""How long a resumed guest's agent may take to answer: over a slow link it faults its way there."""

ADOPT_SECONDS = 60.0
"""How long the agent of a machine that is taken over may take to answer."""

CALL_COUNTS = "calls"
"""In a replica's folder: guestshares.counts."""

OVERLAY_BYTES = 4 << 30
"""What may be written to a machine's disks between two checkpoints, where they are in memory."""

STOP_SECONDS = 15.0
"""How long `stop` waits for a checkpoint that writes memory back before it gives that up."""

_Raw = TypeVar("_Raw")

_SILENT = (AgentGone, AgentTimeout, ServiceNotReady)
"""Errors of a guest that does not execute operations any more."""


class Replica:
    """A machine, its volumes and the number of its last operation. Thread-safe. console_kept: the
    folder that gets the end of its console when it is put away."""

    console_kept: Path | None = None

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
        shares: ShareHost | None = None,
        unpacked: RawBlocks | None = None,
        cells: Cells | None = None,
        overlay_bytes: int = OVERLAY_BYTES,
    ) -> None:
        """Nothing is started. `run_dir` is made by a start and gone after `stop`; it belongs to
        this replica alone, and its path is short. shares: answers for those of the guest; a machine
        that has some does not start without. unpacked: what is kept of `store`'s settled content.
        cells: makes the room in which its processes run; without, they run on the host as they are.
        overlay_bytes: what may be written to its disks, where its folder is in memory.
        Raises UnsupportedError for the adapter."""
        self.id = replica_id
        self.spec = spec
        self.stateful = stateful
        self.phases = Phases()
        self._adapter = adapters.for_kind(adapter)
        self.early = AnswerPreviews(adapters.EARLY.get(adapter))
        self.long = LongAnswers(adapters.IN_PIECES.get(adapter))
        self._store = store
        self._driver = driver
        self._run_dir = run_dir
        self._busy = threading.RLock()
        self._changing = threading.Lock()
        self._state = ReplicaState.STARTING
        self._failure: str | None = None
        self._last = OperationNumber(0)
        self._stood_still = 0.0
        self._folder: RunFolder | None = None
        self._attachment: Attachment | None = None
        self._machine: Machine | None = None
        self._weight = EVERYBODY
        self._agent: AgentChannel | None = None
        self._unpacked = unpacked
        self._cells = cells
        self._overlay_bytes = overlay_bytes
        self._share_host = shares
        self._shares: GuestShares | None = None
        self._door: StreamDoor | None = None
        self._clock: GuestClock | None = None

    @property
    def state(self) -> ReplicaState:
        """The state now. It notices that the machine ended by itself."""
        machine = self._machine
        if self._state is not ReplicaState.READY or machine is None:
            return self._state
        if machine.state is MachineState.FAILED:
            self._become(ReplicaState.FAILED, machine.failure())
        return self._state

    def weigh(self, weight: int) -> None:
        """Give its machine that part of the processors; see `Machine.weigh`. Thread-safe."""
        self._weight = weight
        if machine := self._machine:
            machine.weigh(weight)

    @property
    def last(self) -> OperationNumber:
        """The last operation that the guest has executed. For a stateless service: how many."""
        return self._last

    @property
    def run_dir(self) -> Path:
        """The replica's folder."""
        return self._run_dir

    @property
    def stood_still(self) -> float:
        """Seconds, for all checkpoints so far, and for those that failed."""
        return self._stood_still

    @property
    def door(self) -> Path | None:
        """Where clients get to the guest's streams once the replica is ready; None where its guest
        has none."""
        return self._run_dir / "door.sock" if self.spec.streams else None

    def failure(self) -> str | None:
        """Why it is FAILED; None when it is not, or was stopped before it failed."""
        _ = self.state
        return self._failure

    def boot(
        self,
        disks: Mapping[str, TableRoot],
        boot: Boot,
        resolver: Resolver,
        *,
        timeout: float = BOOT_SECONDS,
    ) -> None:
        """Start from a kernel, with empty memory; return once the service answers, in `timeout` s.

        Raises as `resume` does, with the console of a service that does not answer.
        """
        roots = {RAM: TableRoot(ref=ZERO_REF, size=self.spec.memory_bytes), **disks}
        with self._starting():
            machine = self._attach(roots, resolver, boot)
            try:
                self._greet(timeout)
            except (AgentTimeout, ServiceNotReady) as error:
                said = printable_tail(machine.wiring.console_log) or "nothing"
                why = f"{error.why or 'nothing answers'}; its console said:\n{said}\n"
                raise type(error)(error.what, why=why) from error

    def resume(
        self,
        frozen: MachineSnapshot,
        resolver: Resolver,
        bring: Callable[[TableRoot], bytes],
        attached: Callable[[Mapping[str, Volume]], None] = lambda volumes: None,
        *,
        timeout: float = RESUME_SECONDS,
    ) -> None:
        """Go on from a checkpoint; returns once the service answers, within `timeout` seconds.

        `bring` delivers the whole device state; `resolver` is asked for each block that the
        machine touches; `attached` is told of the volumes before that. Raises MachineUnsupported,
        MachineFailed, DeviceStateRefused, WrongGuest, ReplicaFailed when the guest is silent or
        `stop` was called meanwhile, and what the arguments and attaching volumes raise. It is
        FAILED then (or STOPPED), and nothing is left of it.
        """
        self.phases.enter(RESUME)
        with self._starting():
            machine = self._attach(frozen.volumes, resolver, None, attached)
            path = self._run_dir / "device-state"
            path.write_bytes(bring(frozen.device_state))
            self.phases.steps.done("device state fetched")
            machine.load(path)
            self.phases.steps.done("device state loaded")
            self._agent = AgentChannel.connect(machine.wiring.agent_socket)
            let_run(machine, self._agent, self.spec)
            path.unlink()
            self._greet(timeout)
            self.phases.steps.done("guest answers")
            if self._last != frozen.operation:
                raise WrongGuest(
                    f"replica {self.id} is not what its checkpoint says",
                    why=f"its guest is at operation {self._last}, not {frozen.operation}",
                )

    def adopt(
        self,
        frozen: MachineSnapshot,
        resolver: Resolver,
        attached: Callable[[Mapping[str, Volume]], None] = lambda volumes: None,
    ) -> None:
        """Go on with the machine that a process which died had resumed from `frozen` in our
        `run_dir`, and never checkpointed. It may have executed more since: `last` says.

        Raises what adopting its parts raises, ReplicaFailed where the machine did not run yet. It
        is FAILED then, and of the machine's folder and processes some may be left for `sweep`.
        """
        with self._starting():
            check_shares(self.id, self._share_host, shares=self.spec.shares)
            folder = RunFolder(self._run_dir, left=True)
            try:
                room = left(self._run_dir)
                self._attachment = Attachment.adopt(self._run_dir, frozen.volumes, resolver, room)
                for volume in self._attachment.volumes.values():
                    # From here on the store takes nothing away that the map leads to.
                    self._store.resolve(volume.root, volume.map, 0, 1)
                attached(self._attachment.volumes)
                self._machine = self._driver.adopt(self.spec, self._attachment.wiring(self.id))
                self._machine.weigh(self._weight)  # an earlier daemon may have given it another
                if self._machine.state is not MachineState.RUNNING:
                    why = f"its machine is {self._machine.state.value}"
                    raise ReplicaFailed(f"replica {self.id} cannot be taken over", why=why)
                self._greet(ADOPT_SECONDS)
            except BaseException:
                folder.disown()
                raise
            self._folder = folder

    def execute(self, operation: Operation, timeout: float | None = None) -> Response:
        """Execute one operation in the guest, at most once by its number; its normalised response.

        Replicas of a stateless service count for themselves: the guest sees its own next number. A
        service without a whole response in `timeout` seconds has the adapter's error response.
        Raises ReplicaFailed when the machine, its agent or its service is gone, WrongReplicaState,
        AlreadyExecuted, OperationGap, OperationConflict, AgentFailed.
        """
        with self._guarded(*_SILENT) as (agent, _):
            asked = operation
            if not self.stateful:
                operation = dataclasses.replace(operation, number=OperationNumber(self._last + 1))
            exchange = partial(self._exchange, operation=operation, timeout=timeout)
            if self.long.supported:
                response = self.long.response(
                    asked, lambda take: bool(exchange(partial(agent.stream, take)))
                )
            else:
                raw = exchange(partial(agent.execute, on_part=self.early.parts(asked.number)))
                response = self._normal(asked, raw)
            self._last = max(self._last, operation.number)
            if self._shares:
                self._shares.finished(operation.number)
            return response

    def read(self, operation: Operation, timeout: float | None = None) -> Response:
        """Execute a request that changes nothing, as often as it is asked for; its normalised
        response. Its number is that of the first operation that need not be executed before it.

        Raises as `execute` does; OperationGap while operations before its number are missing.
        """
        reading = self._shares.reading if self._shares else contextlib.nullcontext
        with self._guarded(*_SILENT) as (agent, _), reading():
            return self._normal(operation, self._exchange(agent.read, operation, timeout))

    def checkpoint(self, *, hold: bool = False) -> MachineSnapshot:
        """Freeze the machine between two operations, store what changed, and let it go on.

        Everything that the result names is durable in the store on return. hold: the machine stands
        still until `go_on`, unless this raises. Raises WrongReplicaState, ReplicaFailed, and what
        the store raises: then the machine goes on, and so does the replica.
        """
        with self._guarded(MachineFailed, RamMountFailed) as (agent, machine):
            with self._settled(agent):
                frozen = self._freeze(machine, hold)
            if self._clock and not hold:
                self._clock.tell(agent)
            if self._attachment and not hold:
                self._attachment.give_back()
            return frozen

    def go_on(self) -> None:
        """The end of a `checkpoint` that holds. Harmless where there was none."""
        with self._guarded(MachineFailed) as (agent, machine):
            if machine.state is MachineState.PAUSED:
                let_run(machine, self._agent, self.spec)
                if self._clock:
                    self._clock.tell(agent)

    def volumes(self) -> Mapping[str, Volume]:
        """Those of a machine that is started, by name. Raises StateError without one."""
        if (attachment := self._attachment) is None:
            raise WrongReplicaState(self.id, self._state, ReplicaState.STARTING)
        return attachment.volumes

    def write(self, blocks: Iterable[tuple[str, int, bytes]]) -> None:
        """Put content in the place of blocks of a machine that is started and not loaded yet: by
        volume and number. Raises OSError, KeyError for a volume that there is not."""
        assert self._attachment is not None
        self._attachment.write(blocks)

    def flush(self) -> None:
        """Have the map of its memory show what the machine has written so far, which the kernel
        else tells it late. It goes on meanwhile, and so do operations.

        Raises WrongReplicaState, and ReplicaFailed where memory is lost.
        """
        attachment = self._attachment
        self._require(ReplicaState.READY)
        assert attachment is not None
        with self._judged(RamMountFailed):
            attachment.flush()

    def digest(self, paths: list[str]) -> str:
        """A digest of the guest's files at `paths`, for comparing two replicas."""
        with self._guarded(AgentGone) as (agent, _):
            return agent.digest(paths)

    def run(self, argv: list[str], timeout: float) -> tuple[int, bytes]:
        """Run a program in the guest, for administration: its exit status and output."""
        with self._guarded(AgentGone) as (agent, _):
            return agent.run(argv, timeout)

    def stop(self) -> None:
        """End the machine and leave no process, mount, socket or file. Works in any state.

        Calls in other threads, under way or waiting for the one that is, end with ReplicaFailed.
        """
        self._become(ReplicaState.STOPPED)
        agent, machine = self._agent, self._machine
        if agent is not None:
            self._end(agent.close)
        if machine is not None:
            self._end(machine.stop)
        if not self._busy.acquire(timeout=STOP_SECONDS):
            if attachment := self._attachment:
                attachment.abort()
            self._busy.acquire()
        try:
            self._release()
        finally:
            self._busy.release()

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """Become READY, or FAILED with everything put away."""
        with self._busy:
            self._require(ReplicaState.STARTING)
            try:
                yield
                self.phases.enter(IDLE)
                self._become(ReplicaState.READY)
                self._require(ReplicaState.READY)
            except BaseException as error:
                verdict = self._verdict(error, _SILENT)
                self._become(ReplicaState.FAILED, str(verdict or error))
                self._release()
                if verdict:
                    raise verdict from error
                raise

    def _attach(
        self,
        roots: Mapping[str, TableRoot],
        resolver: Resolver,
        boot: Boot | None,
        attached: Callable[[Mapping[str, Volume]], None] = lambda volumes: None,
    ) -> Machine:
        """The machine, started on its volumes. Each step looks for a `stop` meanwhile."""
        self._driver.check(self.spec)
        check_shares(self.id, self._share_host, shares=self.spec.shares)
        self._folder = RunFolder(self._run_dir)
        self._attachment = Attachment.open(
            self._run_dir,
            self._store,
            roots,
            resolver,
            read_ahead_kib=FIRST_BOOT_READ_AHEAD_KIB if boot else 0,
            unpacked=self._unpacked,
            into=partial(room_in, self._cells, self.spec, boot, self._overlay_bytes),
        )
        self.phases.steps.done("volumes attached: nbdkit, nbdfuse")
        attached(self._attachment.volumes)
        self._require(ReplicaState.STARTING)
        self._machine = self._driver.start(self.spec, self._attachment.wiring(self.id), boot)
        self.phases.steps.done("QEMU started")
        self._require(ReplicaState.STARTING)
        return self._machine

    def _greet(self, seconds: float) -> None:
        assert self._machine is not None
        self._agent = self._agent or AgentChannel.connect(self._machine.wiring.agent_socket)
        self._require(ReplicaState.STARTING)
        if self._share_host and self.spec.shares:
            self._agent.hello(seconds)
            path = self._machine.wiring.shares_socket
            counts = self._run_dir / CALL_COUNTS
            self._shares = GuestShares.attach(path, self._agent, self._share_host, counts)
        if self.spec.streams:
            self._agent.hello(seconds)
            self._clock = GuestClock(self._agent, self._guarded)
            assert self.door is not None
            port = self._machine.wiring.streams_socket
            self._door = StreamDoor(self.door, port, self._agent.attach_streams)
        self._last = self._agent.wait_ready(seconds).last

    def _normal(self, asked: Operation, raw: Response | None) -> Response:
        payload = raw.payload if raw else b""
        return Response(asked.number, self._adapter.normalise(payload, asked))

    def _exchange(
        self,
        perform: Callable[[Operation, float | None], _Raw],
        operation: Operation,
        timeout: float | None,
    ) -> _Raw | None:
        """What `perform` gives; None where the service gave no whole response in time."""
        try:
            with self.phases.operation(self._adapter.label(operation)):
                return perform(operation, timeout)
        except ServiceTimeout as error:
            logger.warning("replica %s: %s", self.id, error)
            return None

    def _freeze(self, machine: Machine, hold: bool) -> MachineSnapshot:
        assert self._attachment is not None
        path = self._run_dir / "device-state"
        steps = Steps(self.phases.spans, "machine")
        with self._attachment.about_to_commit() as prepared, still(self._door):
            begin, seconds = time.monotonic(), 0.0
            try:
                machine.pause()
                machine.save(path)
                steps.done("paused, device state saved")
                volumes = self._attachment.commit(self._store, prepared)
                steps.done("memory and disks committed")
                if not hold:
                    let_run(machine, self._agent, self.spec)
                seconds = time.monotonic() - begin
                # An import syncs the store, and with it what was committed.
                return MachineSnapshot(self._last, self._store.import_file(path), volumes, seconds)
            except (MachineFailed, RamMountFailed):
                raise
            except BaseException:
                if machine.state is MachineState.PAUSED:
                    machine.resume()
                raise
            finally:
                path.unlink(missing_ok=True)
                self._stood_still += seconds or time.monotonic() - begin

    @contextlib.contextmanager
    def _settled(self, agent: AgentChannel) -> Iterator[None]:
        """Nothing that the guest has asked of its shares is under way. Raises SharesBusy."""
        shares = self._shares
        if shares is None:
            yield
            return
        shares.settle(agent)
        try:
            yield
        finally:
            with contextlib.suppress(*_SILENT):  # an operation will tell
                shares.go_on(agent)

    @contextlib.contextmanager
    def _guarded(self, *fatal: type[SatchelError]) -> Iterator[tuple[AgentChannel, Machine]]:
        """One at a time, in READY. fatal: see `_judged`."""
        came = self.state
        with self._busy:
            if came is ReplicaState.READY and self.state is ReplicaState.STOPPED:
                # As it ends the call that this one waited for.
                raise was_stopped(self.id)
            self._require(ReplicaState.READY)
            assert self._agent is not None
            assert self._machine is not None
            with self._judged(*fatal):
                yield self._agent, self._machine

    @contextlib.contextmanager
    def _judged(self, *fatal: type[SatchelError]) -> Iterator[None]:
        """Errors of these kinds are the end of the replica."""
        try:
            yield
        except SatchelError as error:
            if verdict := self._verdict(error, fatal):
                self._become(ReplicaState.FAILED, verdict.why)
                raise verdict from error
            raise

    def _require(self, state: ReplicaState) -> None:
        if self.state is not state:
            raise WrongReplicaState(self.id, self._state, state)

    def _become(self, state: ReplicaState, failure: str | None = None) -> None:
        """The one way to another state. STOPPED is for good."""
        with self._changing:
            if self._state is ReplicaState.STOPPED:
                return
            if state is ReplicaState.FAILED and self._state is not ReplicaState.FAILED:
                self._failure = failure
            self._state = state

    def _verdict(
        self, error: BaseException, fatal: tuple[type[SatchelError], ...]
    ) -> ReplicaFailed | None:
        """Whether that is the end of the replica, and why; None if it is not."""
        if not isinstance(error, SatchelError):
            return None
        if self._state is ReplicaState.STOPPED:
            return was_stopped(self.id)
        if not isinstance(error, fatal) and self.state is not ReplicaState.FAILED:
            return None
        why = (self._machine.failure() if self._machine else None) or str(error)
        return ReplicaFailed(f"replica {self.id} cannot continue", why=why, fix="start another one")

    def _release(self) -> None:
        """Put away what there is; harmless the second time. Called with the lock."""
        agent, self._agent = self._agent, None
        shares, self._shares = self._shares, None
        door, self._door = self._door, None
        clock, self._clock = self._clock, None
        machine, self._machine = self._machine, None
        attachment, self._attachment = self._attachment, None
        folder, self._folder = self._folder, None
        parts = (part and part.close for part in (shares, door, attachment))
        for end in (clock and clock.close, agent and agent.close, machine and machine.stop, *parts):
            if end:
                self._end(end)
        if folder:
            folder.remove(self.console_kept)

    def _end(self, end: Callable[[], None]) -> None:
        try:
            end()
        except SatchelError as error:
            logger.warning("replica %s: %s", self.id, error)
