# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's machines: first boots, resumes, and rehearsals of new checkpoints."""

from __future__ import annotations

import functools
import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from chunkstore import Store, TableRoot
from guestshares import ShareHost
from homeserver.machine_options import MachineOptions
from homeserver.services.records import ServiceRecord
from homeserver.services.remote_touches import RemoteTouches
from homeserver.services.visits import visit
from hypervisor import AUTO, Driver, MachineSpec, place
from images import BuiltImage, ContractSpec, Manifest, Rehearsal
from replay import Adapter, Operation, adapters
from replica import (
    BOOT_SECONDS,
    Access,
    DeltaMaker,
    MachineSnapshot,
    Profile,
    Recorder,
    Replica,
    ReplicaState,
    Run,
    decode_profile,
    encode_profile,
    encode_working_set,
    observed,
    sweep,
)
from sandbox import Cells
from satchel.errors import NotFoundError, SatchelError, StateError
from satchel.ids import BLOCK_SIZE, OperationNumber, ReplicaId
from satchel.polling import FAST_POLL_SECONDS
from volumes import RawBlocks, local_resolver

logger = logging.getLogger(__name__)

SYSTEM_DISK, AGENT_DISK = "disk0", "agent"
"""The volume that a machine boots from; of a whole disk, the one from which it takes the agent."""

DISK_BOOTS = 4
"""How many times as long a whole disk may take until its service listens: systemd and cloud-init
start first."""

ENDING_SECONDS = 0.5

RESUME_SECONDS = 120.0
"""How long a checkpoint may take to answer here, where every chunk is at hand."""

REHEARSAL_SECONDS = 4.0
"""How long a rehearsal goes on: what a service does now and then, such as collecting garbage, is
part of its working set too."""

REQUEST_SECONDS = 30.0
"""How long one request of a rehearsal may take."""


TOUCHED_LIMIT = 1 << 13
"""Blocks of a volume. A machine that has touched more has booted here, or is here for long: that
says little of what it needs next."""


class HomeClosing(StateError):
    """The home server is stopping and starts no more machines."""


@dataclass(frozen=True)
class PreparedReplica:
    """A replica that has not been started, what watches it, what starts it, its contract, and the
    maker of its deltas."""

    replica: Replica
    recorder: Recorder
    start: Callable[[], None]
    contract: ContractSpec
    deltas: DeltaMaker

    def touched(self) -> dict[str, list[int]]:
        """The blocks of its volumes that it has touched, if they are few."""
        volumes = self.replica.volumes().items()
        found = {name: volume.map.touched() for name, volume in volumes}
        return found if all(len(one) <= TOUCHED_LIMIT for one in found.values()) else {}


@dataclass(frozen=True)
class CheckpointHints:
    """Blobs that go with a checkpoint; no working set where the copy failed."""

    profile: TableRoot | None = None
    working_set: TableRoot | None = None


class Machines:
    """Makes every replica of a home, and ends all that are left. Thread-safe."""

    def __init__(
        self,
        store: Store,
        driver: Driver,
        run_dir: Path,
        images: Path,
        unpacked: RawBlocks,
        wish: MachineOptions,
        shares: Callable[[str], ShareHost] | None = None,
        copies: Callable[[str], ShareHost | None] | None = None,
        cells: Cells | None = None,
        boot_seconds: float = BOOT_SECONDS,
    ) -> None:
        """Clears what a home that was killed left in `run_dir`. unpacked: of `store`, closed with
        this. wish: of every machine here. shares: who answers for those of a service's guest;
        copies: who does for one that must not touch anything. cells: in which the machines run, if
        they do. boot_seconds: how long a first boot may take until the service listens."""
        sweep(run_dir)
        self._shares, self._copies = shares, copies
        self._store = store
        self._unpacked = unpacked
        self._driver = driver
        self._cells = cells
        self._run_dir = run_dir
        self._images = images
        self._wish = wish
        self._boot_seconds = boot_seconds
        self._lock = threading.Lock()
        self._closing = False
        self._replicas: list[Replica] = []

    def making(self) -> AbstractContextManager[None]:
        """Within it no prune takes what is made, until it has a name. See Store.making."""
        return self._store.making()

    def first_boot(self, record: ServiceRecord, *, timeout: float | None = None) -> PreparedReplica:
        """Of the service's image as it is now; its start may take `timeout` seconds, by default
        `boot_seconds`, and for a whole disk DISK_BOOTS times as long. Raises ImageNotBuilt,
        ImageDamaged, MachineUnsupported."""
        image = self._image(record)
        recipe = image.recipe
        contract = recipe.contract_spec()
        spec = self._spec(record, image)
        seconds = timeout or self._boot_seconds * (DISK_BOOTS if image.firmware else 1)
        replica = self._new(record.name, spec, contract, self._shares)

        recorder = self._recorder(replica)

        def start() -> None:
            disks = {SYSTEM_DISK: self._store.import_file(image.disk)}
            if image.agent_disk:
                disks[AGENT_DISK] = self._store.import_file(image.agent_disk)
            replica.boot(disks, image.boot(spec), recorder, timeout=seconds)

        return PreparedReplica(replica, recorder, start, contract, self._deltas(replica))

    def resume(
        self, manifest: Manifest, record: ServiceRecord, *, performs: bool = False
    ) -> PreparedReplica:
        """From a checkpoint, for which the image is not needed any more. performs: it is home's one
        replica of that service, and may do what its guest asks of shares. Raises
        MachineUnsupported."""
        wish = self._wish_for(record).accelerator or AUTO
        spec = place(self._driver, MachineSpec.from_json(manifest.machine), wish)
        shares = self._shares if performs else self._copies
        replica = self._new(manifest.service, spec, manifest.contract, shares)
        frozen = MachineSnapshot(manifest.operation, manifest.device_state, manifest.volumes)

        recorder = self._recorder(replica)

        def start() -> None:
            replica.resume(frozen, recorder, self._store.read, timeout=RESUME_SECONDS)

        return PreparedReplica(replica, recorder, start, manifest.contract, self._deltas(replica))

    def learn(
        self,
        record: ServiceRecord,
        prepared: PreparedReplica,
        frozen: MachineSnapshot,
        before: Manifest | None,
        told: RemoteTouches,
    ) -> CheckpointHints:
        """What goes with a new checkpoint, of the profile of the checkpoint before, of what the
        replica has touched since, of what a copy of the new checkpoint touches, and of what home
        was told of machines elsewhere. Never raises a SatchelError: a checkpoint does without."""
        learnt = CheckpointHints()
        try:
            profile = self._profile(before, frozen)
            profile = observed(profile, prepared.recorder.take(profile.runs), time.time())
            touched = self._rehearse(record, prepared, frozen)
            profile = observed(profile, touched or [], time.time())
            sizes = {name: root.size for name, root in frozen.volumes.items()}
            for elsewhere in told.take(sizes, time.time()):
                profile = observed(profile, elsewhere, time.time())
            learnt = CheckpointHints(self._store.import_bytes(encode_profile(profile)))
            if touched is not None:
                read = functools.partial(_content, self._store, frozen)
                blob = encode_working_set(profile.foreseen(), read)
                learnt = replace(learnt, working_set=self._store.import_bytes(blob))
        except SatchelError as error:
            logger.warning("little is learnt of %s: %s", record.name, error)
        return learnt

    def learnt_before(self, parent: Manifest | None, frozen: MachineSnapshot) -> CheckpointHints:
        """What goes with a later state of the machine of a checkpoint, where nothing more is learnt
        of it. The working set is what was foreseen before, as it is now. A carried machine, which
        somebody waits for, does without."""
        learnt = CheckpointHints(parent.profile if parent else None)
        if parent is None or parent.working_set is None or parent.contract.carried:
            return learnt
        try:
            read = functools.partial(_content, self._store, frozen)
            blob = self._profile(parent, frozen).working_set(read)
            return replace(learnt, working_set=self._store.import_bytes(blob))
        except SatchelError as error:
            logger.warning("no working set of a copy of %s: %s", parent.service, error)
            return learnt

    def _profile(self, manifest: Manifest | None, frozen: MachineSnapshot) -> Profile:
        if manifest is None or manifest.profile is None:
            return Profile()
        try:
            return decode_profile(self._store.read(manifest.profile), frozen.volumes)
        except SatchelError as error:  # another version, damage, or a store that has lost it
            logger.warning("the profile of %s is begun anew: %s", manifest.service, error)
            return Profile()

    def _rehearse(
        self, record: ServiceRecord, prepared: PreparedReplica, frozen: MachineSnapshot
    ) -> list[Access] | None:
        """Resume a copy of a new checkpoint and use it a little: what it touched; None if it
        failed, or has shares, which no copy may touch. The copy is thrown away, so what the
        requests change does not matter. They begin with another one for each checkpoint: see
        replica.profile of the opening."""
        if prepared.replica.spec.shares:
            return None
        copy = self._new(record.name, prepared.replica.spec, prepared.contract)
        recorder = self._recorder(copy)
        try:
            copy.resume(frozen, recorder, self._store.read, timeout=RESUME_SECONDS)
            requests = _rotated(self._requests(record), copy.last)
            adapter = adapters.for_kind(prepared.contract.adapter)
            until = time.monotonic() + REHEARSAL_SECONDS
            while requests and time.monotonic() < until:
                for request in requests:
                    number = OperationNumber(copy.last + 1)
                    operation = operation_of(
                        adapter, request, number, time_ns=time.time_ns(), seed=0
                    )
                    copy.execute(operation, REQUEST_SECONDS)
            if copy.door:
                ports = [one.port for one in prepared.contract.ports]
                phase = functools.partial(copy.phases.operation, "visit")
                visit(copy.door, ports, REHEARSAL_SECONDS, phase)
            return recorder.take()
        except (SatchelError, OSError) as error:
            logger.warning("no working set of %s: %s", record.name, error)
            return None
        finally:
            copy.stop()

    def close(self) -> None:
        """Stop every replica, started or starting. Leaves no process, mount or socket."""
        with self._lock:
            self._closing = True
            replicas, self._replicas = self._replicas, []
        for replica in replicas:
            replica.stop()
        self._unpacked.close()

    def _recorder(self, replica: Replica) -> Recorder:
        return Recorder(local_resolver(self._store), lambda: replica.phases.now)

    def _deltas(self, replica: Replica) -> DeltaMaker:
        def freeze(hold: bool) -> MachineSnapshot:
            return replica.checkpoint(hold=hold)

        return DeltaMaker(self._store, freeze, replica.go_on, replica.run_dir)

    def _new(
        self,
        service: str,
        spec: MachineSpec,
        contract: ContractSpec,
        shares: Callable[[str], ShareHost | None] | None = None,
    ) -> Replica:
        replica = Replica(
            ReplicaId(f"{service[:54]}-{secrets.token_hex(4)}"),
            spec,
            self._store,
            self._driver,
            self._run_dir / secrets.token_hex(3),
            adapter=contract.adapter,
            stateful=contract.stateful,
            shares=shares(service) if shares else None,
            unpacked=self._unpacked,
            cells=self._cells,
        )
        with self._lock:
            if self._closing:
                raise HomeClosing(f"cannot start {service}", why="the home server is being stopped")
            going = [r for r in self._replicas if r.state is not ReplicaState.STOPPED]
            self._replicas = [*going, replica]
        return replica

    def _spec(self, record: ServiceRecord, image: BuiltImage) -> MachineSpec:
        """Of a machine that boots. One that is not portable is of the accelerator that it boots
        under."""
        wish, recipe = self._wish_for(record), image.recipe
        wanted = wish.accelerator or recipe.accelerator
        spec = MachineSpec(
            wish.memory_mib or recipe.memory_mib,
            (SYSTEM_DISK, AGENT_DISK) if image.agent_disk else (SYSTEM_DISK,),
            vcpus=wish.vcpus or recipe.vcpus,
            shares=recipe.shares,
            streams=recipe.carried,
            firmware=image.firmware,
        )
        return replace(place(self._driver, spec, wanted), portable=recipe.portable)

    def _wish_for(self, record: ServiceRecord) -> MachineOptions:
        return record.machine.over(self._wish)

    def _image(self, record: ServiceRecord) -> BuiltImage:
        return BuiltImage.load(self._images / record.image)

    def _requests(self, record: ServiceRecord) -> tuple[Rehearsal, ...]:
        try:
            return self._image(record).recipe.rehearsal
        except NotFoundError:
            return ()


def _rotated(requests: tuple[Rehearsal, ...], turns: int) -> tuple[Rehearsal, ...]:
    start = turns % len(requests) if requests else 0
    return requests[start:] + requests[:start]


def _content(store: Store, frozen: MachineSnapshot, run: Run) -> bytes:
    start, length = run.first * BLOCK_SIZE, run.count * BLOCK_SIZE
    return store.read(frozen.volumes[run.volume], start, length)


def operation_of(
    adapter: Adapter, request: Rehearsal, number: OperationNumber, *, time_ns: int, seed: int
) -> Operation:
    """The operation that a recipe's request is. Raises what the adapter raises."""
    payload = adapter.request(request, number=number, time_ns=time_ns, seed=seed)
    return Operation(number, time_ns, seed, payload)


def failure_of(replica: Replica) -> str | None:
    """Return why the machine failed. Its process ends up to ENDING_SECONDS after its sockets."""
    deadline = time.monotonic() + ENDING_SECONDS
    while (failure := replica.failure()) is None and time.monotonic() < deadline:
        time.sleep(FAST_POLL_SECONDS)
    return failure
