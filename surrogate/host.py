# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The host of all tenants: who is admitted, and the chunk cache that they share."""

from __future__ import annotations

import logging
import secrets
import shutil
import socket
import threading

from chunkstore import Store
from hypervisor import Driver, MachineSpec
from images import Manifest
from replica import Replica
from satchel.errors import CapacityError, ConflictError, NotFoundError, UnsupportedError
from satchel.ids import ReplicaId
from surrogate.fetch import Fetcher
from surrogate.prefetch import Prefetcher
from surrogate.settings import SurrogateSettings
from surrogate.sources import SocketSource
from surrogate.tenant import Tenant
from wire import CreateReplica, HostStatus, Space

logger = logging.getLogger(__name__)

VERSION = "0.1.0"

HOUSEKEEPING_SECONDS = 30.0


class NotAdmitted(CapacityError):
    """The surrogate has no room for another machine."""


class Host:
    """Admits, runs and ends replicas. Thread-safe; one per process and data folder."""

    def __init__(self, settings: SurrogateSettings, driver: Driver) -> None:
        self.settings = settings
        self.name = settings.name or socket.gethostname()
        self._driver = driver
        if not settings.store.exists():
            settings.store.parent.mkdir(parents=True, exist_ok=True)
            Store.create(settings.store).close()
        self.store = Store.open(settings.store)
        self._lock = threading.Lock()
        self._tenants: dict[ReplicaId, Tenant] = {}
        self._closing = threading.Event()
        self._housekeeper = threading.Thread(target=self._keep_house, name="housekeeping")
        self._housekeeper.start()

    def status(self) -> HostStatus:
        """The host and every replica on it."""
        used = sum(self._memory_mib(t) for t in self.tenants())
        disk = shutil.disk_usage(self.settings.data)
        reserve = self.settings.disk_mib << 20
        total = self.settings.memory_mib << 20
        return HostStatus(
            name=self.name,
            version=VERSION,
            memory=Space(total=total, free=max(0, total - (used << 20))),
            disk=Space(total=disk.total, free=max(0, disk.free - reserve)),
            forwarded=str(self.settings.forwarded),
            replicas=tuple(tenant.status() for tenant in self.tenants()),
        )

    def tenants(self) -> list[Tenant]:
        with self._lock:
            return list(self._tenants.values())

    def tenant(self, replica: str) -> Tenant:
        """The replica of that id, or NotFoundError."""
        with self._lock:
            tenant = self._tenants.get(ReplicaId(replica))
        if tenant is None:
            raise NotFoundError(f"no replica {replica[:80]} on {self.name}", why="it was ended")
        return tenant

    def create(self, request: CreateReplica) -> Tenant:
        """Admit a replica and begin to resume it.

        Raises NotAdmitted, UnsupportedError for a machine that this host cannot or may not run,
        ConflictError for an id in use, and what a malformed manifest raises.
        """
        manifest = Manifest.from_json(request.manifest)
        spec = MachineSpec.from_json(manifest.machine)
        self._driver.check(spec)
        if spec.accelerator != "kvm" and not self.settings.allow_emulation:
            raise UnsupportedError(
                f"{self.name} does not run machines without hardware virtualisation",
                why="QEMU's emulation gives no isolation from a hostile guest",
                fix="its operator may set allow-emulation = true",
            )
        sources = [SocketSource(s.name, self._inside(s.socket)) for s in request.sources]
        fetcher = Fetcher(self.store, list(sources), self.settings.readahead_blocks)
        with self._lock:
            if request.replica in self._tenants:
                raise ConflictError(f"replica {request.replica} exists on {self.name} already")
            self._admit(spec)
            run_dir = self.settings.run / "r" / secrets.token_hex(3)
            replica = Replica(
                request.replica,
                spec,
                self.store,
                self._driver,
                run_dir,
                adapter=manifest.adapter["kind"],
                stateful=manifest.adapter["stateful"],
            )
            ahead = manifest.working_set
            prefetcher = Prefetcher(self.store, fetcher, ahead) if ahead else None
            tenant = Tenant(manifest, replica, fetcher, prefetcher, self.settings.operation_seconds)
            self._tenants[request.replica] = tenant
        return tenant

    def remove(self, replica: str) -> None:
        """End a replica."""
        tenant = self.tenant(replica)
        tenant.stop()
        with self._lock:
            self._tenants.pop(tenant.id, None)

    def close(self) -> None:
        """End every replica and close the cache."""
        self._closing.set()
        self._housekeeper.join()
        for tenant in self.tenants():
            tenant.stop()
        self.store.close()

    def _admit(self, spec: MachineSpec) -> None:
        used = sum(self._memory_mib(t) for t in self._tenants.values())
        limit = self.settings.memory_mib
        if used + spec.memory_mib > limit:
            raise NotAdmitted(
                f"{self.name} has no memory for a machine of {spec.memory_mib} MiB",
                why=f"{used} of {limit} MiB are in use",
                fix="end a replica there, or try another surrogate",
            )
        free = shutil.disk_usage(self.settings.data).free >> 20
        if free < self.settings.disk_mib:
            raise NotAdmitted(
                f"{self.name} has no disk for another machine",
                why=f"{free} MiB are free and {self.settings.disk_mib} MiB are kept free",
                fix="try another surrogate",
            )

    def _inside(self, path: str) -> str:
        """A source must be a socket that a client forwarded here, nothing else of this host."""
        folder = self.settings.forwarded.resolve()
        if self.settings.forwarded.joinpath(path).resolve().parent != folder:
            raise NotFoundError(f"{path} is not a forwarded socket", why=f"they are in {folder}")
        return path

    def _memory_mib(self, tenant: Tenant) -> int:
        return tenant.replica.spec.memory_mib

    def _keep_house(self) -> None:
        while not self._closing.wait(HOUSEKEEPING_SECONDS):
            for tenant in self.tenants():
                if tenant.idle_seconds > self.settings.idle_minutes * 60:
                    logger.info("replica %s: idle, ended", tenant.id)
                    self.remove(tenant.id)
