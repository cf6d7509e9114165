# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The home of one owner: the store, the images, and every service, live or at rest."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from chunkstore import Store, TableRoot
from homeserver.records import ServiceRecord, ServiceShelf
from homeserver.service import ReplicaMaker, Service
from homeserver.settings import HomeSettings
from hypervisor import Driver, MachineSpec
from images import SIGNATURE_NAMESPACE, BuiltImage, Manifest, Rehearsal
from overlay import local_resolver
from replay import Log, Operation
from replay.adapters import http
from replica import Frozen, Recorder, Replica, encode_working_set
from satchel.errors import ConflictError, NotFoundError, SatchelError
from satchel.ids import OperationNumber, ReplicaId
from wire import Identity, allowed_signers_line

logger = logging.getLogger(__name__)

SYSTEM_DISK = "disk0"
"""The volume that a machine boots from."""

REHEARSAL_SECONDS = 2.0
"""How long a rehearsal goes on: what a service does now and then, such as collecting garbage, is
part of its working set too."""


class Home:
    """Owns the store and the services. Thread-safe; one per process and data folder."""

    def __init__(self, settings: HomeSettings, driver: Driver) -> None:
        """Open the home at `settings.data`; `init` must have made it.

        Raises NotFoundError where there is none and StoreLocked where another process has it.
        """
        if not settings.identity.exists():
            raise NotFoundError(f"no home at {settings.data}", fix="`satchel-home init` makes one")
        self.settings = settings
        self.store = Store.open(settings.store)
        self.shelf = ServiceShelf(settings.services)
        self._identity = Identity.open(settings.identity)
        self._driver = driver
        self._lock = threading.Lock()
        self._services: dict[str, Service] = {}

    @staticmethod
    def init(settings: HomeSettings) -> None:
        """Make a store and the owner's key. Raises ConflictError where a home is already."""
        if settings.identity.exists():
            raise ConflictError(f"there is a home at {settings.data} already")
        settings.services.mkdir(parents=True, exist_ok=True)
        if not settings.store.exists():
            Store.create(settings.store).close()
        settings.identity.parent.mkdir(mode=0o700, exist_ok=True)
        Identity.create(settings.identity, comment="satchel owner")

    def add_service(self, name: str, image: str) -> None:
        """Describe a new service of a built image. Nothing is started."""
        BuiltImage.load(self.settings.images / image)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self.shelf.add(ServiceRecord(name=name, image=image, created=created))

    def remove_service(self, name: str) -> None:
        """Stop and forget a service. Its chunks stay in the store until the next prune."""
        self.service(name).close()
        with self._lock:
            self._services.pop(name, None)
        self.shelf.remove(name)

    def service(self, name: str) -> Service:
        """The live service of that name, or NotFoundError."""
        with self._lock:
            if name not in self._services:
                self._services[name] = self._open(self.shelf.get(name))
            return self._services[name]

    def services(self) -> list[Service]:
        """Every service, by name."""
        return [self.service(record.name) for record in self.shelf.all()]

    def close(self) -> None:
        """Stop every replica and close the store. Leaves no process, mount or socket."""
        with self._lock:
            services, self._services = self._services, {}
        for service in services.values():
            service.close()
        self.store.close()

    def _open(self, record: ServiceRecord) -> Service:
        image = BuiltImage.load(self.settings.images / record.image)
        log = Log.open(self.shelf.log_folder(record.name)) if image.recipe.stateful else None
        checkpoints = self.shelf.checkpoints(record.name)

        def freeze(frozen: Frozen, parent: Manifest | None) -> Manifest:
            working_set = self._rehearse(image, frozen)
            manifest = Manifest(
                service=record.name,
                parent=parent.id if parent else None,
                created=datetime.now(UTC).isoformat(timespec="microseconds"),
                operation=frozen.operation,
                machine=self._spec(image).to_json(),
                adapter=image.recipe.adapter(),
                device_state=frozen.device_state,
                volumes=frozen.volumes,
                working_set=working_set,
            )
            signature = self._identity.sign(manifest.to_bytes(), SIGNATURE_NAMESPACE)
            checkpoints.add(manifest, signature)
            return manifest

        return Service(
            record,
            checkpoints,
            log,
            ReplicaMaker(self._resume, lambda rid, run: self._boot(image, rid, run), freeze),
            self.settings.run / "r",
            lease_seconds=self.settings.lease_seconds,
            operation_seconds=self.settings.operation_seconds,
            keep_checkpoints=self.settings.keep_checkpoints,
        )

    def _spec(self, image: BuiltImage) -> MachineSpec:
        return MachineSpec(memory_mib=image.recipe.memory_mib, disks=(SYSTEM_DISK,))

    def _boot(self, image: BuiltImage, replica_id: ReplicaId, run_dir: Path) -> Replica:
        root = self.store.import_file(image.disk)
        replica = Replica(
            replica_id,
            self._spec(image),
            self.store,
            self._driver,
            run_dir,
            adapter=image.recipe.adapter_kind,
            stateful=image.recipe.stateful,
        )
        replica.boot({SYSTEM_DISK: root}, image.boot(), local_resolver(self.store))
        return replica

    def _rehearse(self, image: BuiltImage, frozen: Frozen) -> TableRoot | None:
        """Resume a copy of a new checkpoint, use it a little, store what it touched; None if the
        copy failed. The copy is thrown away, so what the requests change does not matter."""
        recorder = Recorder(local_resolver(self.store))
        copy = Replica(
            ReplicaId("rehearsal"),
            self._spec(image),
            self.store,
            self._driver,
            self.settings.run / "r" / secrets.token_hex(3),
            adapter=image.recipe.adapter_kind,
            stateful=image.recipe.stateful,
        )
        try:
            copy.resume(frozen, recorder, self.store.read)
            until = time.monotonic() + REHEARSAL_SECONDS
            while image.recipe.rehearsal and time.monotonic() < until:
                for request in image.recipe.rehearsal:
                    copy.execute(_operation(request, OperationNumber(copy.last + 1)))
        except SatchelError as error:
            logger.warning("no working set of %s: %s", image.recipe.name, error)
            return None
        finally:
            copy.stop()
        return self.store.import_bytes(encode_working_set(recorder.runs))

    def _resume(self, manifest: Manifest, replica_id: ReplicaId, run_dir: Path) -> Replica:
        spec = MachineSpec.from_json(manifest.machine)
        replica = Replica(
            replica_id,
            spec,
            self.store,
            self._driver,
            run_dir,
            adapter=manifest.adapter["kind"],
            stateful=manifest.adapter["stateful"],
        )
        frozen = Frozen(manifest.operation, manifest.device_state, manifest.volumes, 0.0)
        replica.resume(frozen, local_resolver(self.store), self.store.read)
        return replica


def _operation(request: Rehearsal, number: OperationNumber) -> Operation:
    now, seed = time.time_ns(), 0
    payload = http.encode(
        request.method,
        request.path,
        [("Content-Type", request.content_type)],
        request.payload(),
        number=number,
        time_ns=now,
        seed=seed,
    )
    return Operation(number, now, seed, payload)


def signers_line(settings: HomeSettings) -> str:
    """The line of an allowed_signers file by which clients know this home's owner."""
    return allowed_signers_line(
        "owner", Identity.open(settings.identity).public, namespaces=[SIGNATURE_NAMESPACE]
    )
