# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The host of all replicas: which are admitted, and the chunk cache that they share."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from caching import POLICIES
from chunkstore import Store, TableRoot
from guestshares import SharesUnserved
from hypervisor import Driver, HostOffer, MachineSpec, place
from images import Manifest, blob_root
from replica import Replica, ReplicaState, sweep
from sandbox import Cells
from satchel.errors import (
    CapacityError,
    ConflictError,
    NotFoundError,
    SatchelError,
    StateError,
    UnsupportedError,
    UsageError,
)
from satchel.ids import BLOCK_SIZE, ReplicaId
from satchel.names import host_name
from surrogate.cache.chunk_cache import PACK_BYTES, ChunkCache
from surrogate.cache.shares import CacheShares
from surrogate.fetching import Exchange, Fetcher, FetchTally
from surrogate.fetching.sources import forwarded
from surrogate.operator import Operator
from surrogate.prefetch.prefetcher import Prefetcher
from surrogate.prefetch.readahead import Readahead
from surrogate.prefetch.staging import StagingTask
from surrogate.replicas.hosted import OWNER, REQUEST, HostedReplica
from surrogate.settings import SurrogateSettings
from surrogate.site import Site
from surrogate.tenants.register import Tenants
from surrogate.tenants.replica_request import ReplicaRequest, forwarded_socket
from surrogate.tenants.tenant import ACCOUNT, Tenant, Usage
from volumes import Volume
from wire import AnswerKey, CacheNumbers, CreateReplica, ForesightNumbers, HostStatus, Space

logger = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 30.0
WRITTEN_SECONDS = 2.0
"""How often it is looked how much machines have written to their disks."""

TAKE_OVER_SECONDS = 90.0

CACHE_PART = 4
CACHE_BYTES = 4 << 30
"""The cache takes a quarter of what is free, at most 4 GiB: the daemon needs about 0.4 KB of memory
for each chunk of 4 KB that the cache has or had."""

UNWANTED_KEPT = 1024
"""Ids of replicas that were to be ended before they were there."""

STAGED_KEPT = 16
"""Requests to stage something that are remembered."""

Name = tuple[str, ReplicaId]
"""A tenant's identity, and what it calls a replica or a request to stage something. What another
tenant calls so is another thing."""

ENDED = (ReplicaState.FAILED, ReplicaState.STOPPED)
"""A replica that takes no memory any more."""


class NotAdmitted(CapacityError):
    """The surrogate has no room for another machine."""


class NotWanted(StateError):
    """A replica was ended before its request was handled."""


class Host:
    """Admits, runs and ends replicas. Thread-safe; one per process and data folder.

    When it is made it takes over the replicas of an earlier process that was killed, and clears
    what is left of those that cannot go on.
    """

    def __init__(self, settings: SurrogateSettings, driver: Driver) -> None:
        """Raises StoreLocked where another process has the data folder, CellImpossible."""
        self.settings = settings
        self.cells = Cells.of(settings, driver)
        self.name = settings.name or host_name()
        self._driver = driver
        if not settings.store.exists():
            settings.store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            Store.create(settings.store).close()
        settings.forwarded.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.store = Store.open(settings.store, level=0, pack_limit=PACK_BYTES)
        self.operator = Operator(settings.run)  # whoever has the store is the one that runs
        self.answer_key = AnswerKey(settings.answer_key)
        self._limit = settings.cache_mib << 20 or min(self._room() // CACHE_PART, CACHE_BYTES)
        reserve = settings.data / "reserve"
        policy = POLICIES[settings.cache_policy]
        self._cache = ChunkCache(self.store, self._cache_limit, self._volumes, policy, reserve)
        self._exchange = Exchange(self.store, self._make_room)
        self.site = Site(settings, self._exchange)
        self._lock = threading.Lock()
        self.tenants = Tenants(settings, self.store)
        cache = (self.store, self._cache, self._limit)
        self._shares = CacheShares(*cache, self.tenants, self._live_roots)
        self._hosted: dict[Name, HostedReplica] = {}
        self._foresight: Counter[str] = Counter()  # of those that have been removed
        self._staged: dict[Name, StagingTask] = {}  # the oldest first
        self._unwanted: dict[Name, None] = {}  # the oldest first
        self._closing = threading.Event()
        self._taken_over = threading.Event()
        shutil.rmtree(self._nodes, ignore_errors=True)
        self._take_over()
        self.tenants.drop_short()
        if count := sweep(self._replicas_dir):
            logger.warning("%d replicas of a surrogate that was killed are cleared", count)
        self._housekeeper = threading.Thread(target=self._keep_house, name="housekeeping")
        self._housekeeper.start()
        self._taken_over.set()
        self._cache.start()

    @property
    def tally(self) -> FetchTally:
        """What was fetched here for all replicas so far."""
        return self._exchange.tally

    @property
    def foresight(self) -> ForesightNumbers:
        """What it was worth to bring blocks ahead of all replicas so far."""
        with self._lock:
            found, replicas = Counter(self._foresight), list(self._hosted.values())
        for hosted in replicas:
            found.update(vars(hosted.foresight()))
        return ForesightNumbers(**found)

    @property
    def cache(self) -> CacheNumbers:
        """What the chunk cache has, and what it was good for."""
        return dataclasses.replace(self._cache.counts(), unkept=self.tally.unkept())

    def status(self, tenant: Tenant | None = None) -> HostStatus:
        """The host, with each replica on it; for a tenant, as far as it concerns that one: its
        replicas, and what of its caps is left."""
        replicas = self.replicas(tenant)
        used, account = _used_mib(self.replicas()), self.tenants.account
        disk = shutil.disk_usage(self.settings.data)
        total = self.settings.memory_mib
        free = max(0, total - used)
        if tenant:
            total = min(total, tenant.caps.memory_mib)
            free = max(0, min(free, total - _used_mib(replicas)))
        return HostStatus(
            name=self.name,
            version=version("satchel"),
            memory=Space(total=total << 20, free=free << 20),
            disk=Space(total=disk.total, free=max(0, disk.free - (self.settings.disk_mib << 20))),
            forwarded=str((tenant or account).forwarded),
            replicas=tuple(hosted.status() for hosted in replicas),
            site=tuple(self.site.names()),
            cache=CacheNumbers() if tenant else self.cache,
            cell=self.cells.text if self.cells else "",
            runs=self._runs(),
            lacking=self.offer.lacking,
        )

    def says(self) -> str:
        """One line for people: what this host runs of strangers' machines, and why not more."""
        if self.offer.accelerators and not self._runs():
            return f"{self.offer}; strangers' may not be emulated here: it runs none"
        return str(self.offer)

    def _runs(self) -> tuple[str, ...]:
        """Accelerators under which strangers' machines run here."""
        allowed = ("kvm", "tcg") if self.settings.allow_emulation else ("kvm",)
        return tuple(name for name in self.offer.accelerators if name in allowed)

    def replicas(self, tenant: Tenant | None = None) -> list[HostedReplica]:
        """Those of a tenant, or all."""
        with self._lock:
            found = list(self._hosted.items())
        return [hosted for (owner, _), hosted in found if not tenant or owner == tenant.identity]

    def replica(self, replica: str, tenant: Tenant | None = None) -> HostedReplica:
        """What the tenant calls so, or NotFoundError. Without a tenant it is the account's."""
        with self._lock:
            hosted = self._hosted.get(_name(replica, tenant))
        if hosted is None:
            raise NotFoundError(f"no replica {replica[:80]} on {self.name}", why="it was ended")
        return hosted

    def create(self, request: CreateReplica, tenant: Tenant | None = None) -> HostedReplica:
        """Admit a replica of a tenant, by default of the account, and begin to resume it.

        Raises CapReached; NotAdmitted, also for volumes that are too large; UnsupportedError for a
        machine that this host cannot or may not run; ConflictError for an id in use; NotWanted for
        one that was to be removed already; NotForwarded; and what a malformed manifest raises.
        """
        tenant = tenant or self.tenants.account
        wanted = self._wanted(request, tenant)
        spec, name = wanted.spec, _name(request.replica, tenant)
        if spec.shares and (request.calls is None or not wanted.manifest.contract.stateful):
            raise SharesUnserved(
                f"{self.name} cannot run a service with shares that no host serves",
                why="the client lends no way to home"
                if request.calls is None
                else "without numbered operations replicas would change home's files twice",
                fix="use it at home: `satchel run` without --at",
            )
        _check_volumes(wanted.manifest, self.settings.max_volume_gib, self.name)
        wanted = dataclasses.replace(wanted, spec=self.placed(spec))
        if _free_mib(self.settings.data) < self.settings.disk_mib:
            self._cache.look()
        with self._lock:
            if self._closing.is_set():
                raise StateError(f"{self.name} is being stopped")
            if name in self._hosted:
                raise ConflictError(f"replica {request.replica} exists on {self.name} already")
            if name in self._unwanted:
                raise NotWanted(f"replica {request.replica} is not begun", why="it was ended")
            tenant.require_room(self._usage(tenant) + wanted.usage, self._limit)
            self._admit(spec)
            folder = self._replicas_dir / secrets.token_hex(3)
            hosted = self._hosted[name] = self._begin(wanted, folder, tenant)
        return hosted

    def placed(self, spec: MachineSpec) -> MachineSpec:
        """The machine under the accelerator that a stranger's runs under here. Raises
        MachineUnsupported, and UnsupportedError where it could only be emulated and may not be."""
        placed = place(self._driver, spec)
        if placed.accelerator == "kvm" or self.settings.allow_emulation:
            return placed
        why = "QEMU's emulation gives no isolation from a hostile guest"
        if "kvm" not in spec.accelerators:
            what = "its machine is not portable, and was emulated"
            fix = "have it booted anew with a portable recipe, or under KVM"
        else:
            what = f"this host lacks {self._driver.lacks('kvm') or 'a KVM for this machine'}"
            fix = "use a host with KVM"
        raise UnsupportedError(
            f"{self.name} does not run machines without hardware virtualisation",
            why=f"{what}; {why}",
            fix=f"{fix}; or its operator may set allow-emulation = true",
        )

    @functools.cached_property
    def offer(self) -> HostOffer:
        """What this host can run, whoever may."""
        return HostOffer.of(self._driver)

    def remove(self, replica: str, tenant: Tenant | None = None) -> None:
        """End a replica of a tenant, by default of the account. Its memory counts until nothing is
        left of it.

        Raises NotFoundError where there is none; one of that id is not begun any more then, because
        a client that gives up asks for the end while its first request is still on its way.
        """
        name = _name(replica[:80], tenant)
        with self._lock:
            if name not in self._hosted:
                self._unwanted[name] = None
                if len(self._unwanted) > UNWANTED_KEPT:
                    del self._unwanted[next(iter(self._unwanted))]
        self._end(self.replica(replica, tenant))

    def end_every(self, replica: str) -> None:
        """End all that is called so, whoever has it. Raises NotFoundError where nothing is."""
        found = [hosted for hosted in self.replicas() if hosted.id == replica]
        if not found:
            raise NotFoundError(f"no replica {replica[:80]} on {self.name}")
        for hosted in found:
            self._end(hosted)

    def end_all(self, tenant: Tenant) -> None:
        """End every replica of a tenant, and what is staged for it."""
        for hosted in self.replicas(tenant):
            self._end(hosted)
        for name in [name for name in [*self._staged] if name[0] == tenant.identity]:
            with contextlib.suppress(NotFoundError):
                self.unstage(name[1], tenant)

    def usage(self, tenant: Tenant) -> Usage:
        """What that one has here now."""
        with self._lock:
            return self._usage(tenant)

    def stage(self, request: CreateReplica, tenant: Tenant | None = None) -> StagingTask:
        """Begin to fetch what a replica would need, without one; of the oldest such requests of a
        tenant all but STAGED_KEPT are forgotten. Raises ConflictError, CapReached, NotForwarded,
        and what a malformed manifest raises."""
        tenant = tenant or self.tenants.account
        wanted, name = self._wanted(request, tenant), _name(request.replica, tenant)
        sources = forwarded(wanted.places)
        with self._lock:
            if self._closing.is_set():
                raise StateError(f"{self.name} is being stopped")
            if name in self._staged:
                raise ConflictError(f"{request.replica} is staged on {self.name} already")
            tenant.require_room(self._usage(tenant), self._limit)
            tenant.brought.add(wanted.roots)
            fetcher = Fetcher(self.store, sources, 1, self._exchange)

            def require() -> None:
                tenant.require_room(self._keep_share(tenant), self._limit)

            staging = self._staged[name] = StagingTask(request, wanted.manifest, fetcher, require)
            mine = [replica for owner, replica in self._staged if owner == tenant.identity]
        for surplus in mine[:-STAGED_KEPT]:
            with contextlib.suppress(NotFoundError):
                self.unstage(surplus, tenant)
        return staging

    def staged(self, replica: str, tenant: Tenant | None = None) -> StagingTask:
        """The request of a tenant that is called so, or NotFoundError."""
        with self._lock:
            staging = self._staged.get(_name(replica, tenant))
        if staging is None:
            raise NotFoundError(f"nothing is staged as {replica[:80]} on {self.name}")
        return staging

    def unstage(self, replica: str, tenant: Tenant | None = None) -> None:
        """Fetch nothing more for that request; what has come stays. Raises NotFoundError."""
        staging = self.staged(replica, tenant)
        staging.close()
        with self._lock:
            self._staged.pop(_name(replica, tenant), None)
        tenant = tenant or self.tenants.account
        tenant.meter(staging, staging.fetched, last=True)
        self._leave(tenant, staging)

    def leave(self) -> NoReturn:
        """End this process as it is, and the links that it made; the machines go on. An orderly end
        would answer their misses with errors."""
        self.site.close()
        logger.info("left %d replicas to the next surrogate", len(self.replicas()))
        os._exit(0)

    def close(self) -> None:
        """Admit nobody more, end every replica, close the cache."""
        with self._lock:
            self._closing.set()
        self._housekeeper.join()
        replicas = self.replicas()
        with ThreadPoolExecutor(max_workers=max(1, len(replicas))) as pool:
            list(pool.map(HostedReplica.stop, replicas))
        with self._lock:
            self._hosted.clear()
        for staging in list(self._staged.values()):
            staging.close()
        self.tenants.clear_forwarded()
        self.site.close()
        self._cache.close()
        self._exchange.close()
        self.store.close()

    def _end(self, hosted: HostedReplica) -> None:
        hosted.stop()
        with self._lock:
            if self._hosted.pop(_name(hosted.id, hosted.tenant), None):
                self._foresight.update(vars(hosted.foresight()))
                hosted.tenant.meter(hosted, hosted.fetched, last=True)
        self._leave(hosted.tenant, hosted)

    def _leave(self, tenant: Tenant, ended: HostedReplica | StagingTask) -> None:
        self._shares.ended(tenant, ended.fetched, ended.roots)
        self._keep_share(tenant)

    def _keep_share(self, tenant: Tenant) -> Usage:
        used = self.usage(tenant)
        self._shares.keep(tenant, used.cache_bytes)
        return used

    def _live_roots(self, tenant: Tenant) -> list[TableRoot]:
        with self._lock:
            found = [(name, each.roots) for name, each in self._hosted.items()]
            found += [(name, each.roots) for name, each in self._staged.items()]
        return [root for (owner, _), roots in found if owner == tenant.identity for root in roots]

    def _usage(self, tenant: Tenant) -> Usage:
        """With the lock."""
        found = Usage(day_bytes=tenant.day_bytes)
        for (owner, _), hosted in self._hosted.items():
            if owner == tenant.identity:
                found += hosted.usage
        for (owner, _), staging in self._staged.items():
            if owner == tenant.identity:
                found += Usage(cache_bytes=staging.fetched)
        return found

    def _wanted(self, request: CreateReplica, tenant: Tenant) -> ReplicaRequest:
        place = functools.partial(forwarded_socket, folder=tenant.forwarded)
        return ReplicaRequest.by(request, place, self._nodes)

    def _begin(
        self, wanted: ReplicaRequest, folder: Path, tenant: Tenant, *, adopt: bool = False
    ) -> HostedReplica:
        request, manifest = wanted.request, wanted.manifest
        tenant.brought.add(wanted.roots)
        replica = Replica(
            request.replica,
            wanted.spec,
            self.store,
            self._driver,
            folder,
            adapter=manifest.contract.adapter,
            stateful=manifest.contract.stateful,
            shares=wanted.shares,
            cells=self.cells,
            overlay_bytes=self.settings.overlay_mib << 20,
        )
        sources = forwarded(wanted.places)
        fetcher = Fetcher(self.store, sources, self.settings.readahead_blocks, self._exchange)
        ahead = manifest.working_set
        changed = blob_root("changed", request.changed) if request.changed else None
        pages = blob_root("pages", request.pages) if request.pages else None
        prefetcher = None
        if ahead or changed:
            prefetcher = Prefetcher(self.store, fetcher, ahead, changed, pages, request.touched)
        return HostedReplica(
            manifest,
            replica,
            self.store,
            fetcher,
            prefetcher,
            _readahead(manifest, replica, fetcher, prefetcher),
            self.settings.operation_seconds,
            request,
            tenant,
            adopt=adopt,
        )

    def _take_over(self) -> None:
        """Go on with the machines that a surrogate left which was killed; all at once, as each may
        have to wait for blocks before its agent answers."""
        begun = []
        for path in sorted(self._replicas_dir.glob(f"*/{REQUEST}")):
            try:
                owner = (path.parent / OWNER).read_text(encoding="ascii")
                tenant = self.tenants.admit(owner)
                left = tenant.left_socket
                wanted = ReplicaRequest.by(
                    CreateReplica.from_bytes(path.read_bytes()), left, self._nodes
                )
            except (SatchelError, OSError, ValueError) as error:
                logger.warning("%s: %s", path, error)
                continue
            begun.append(self._begin(wanted, path.parent, tenant, adopt=True))
        for hosted in begun:
            hosted.wait_started(TAKE_OVER_SECONDS)
            if hosted.replica.state is ReplicaState.READY:
                logger.info("replica %s goes on at operation %d", hosted.id, hosted.replica.last)
                self._hosted[hosted.tenant.identity, hosted.id] = hosted
            else:
                hosted.stop()

    @property
    def _nodes(self) -> Path:
        """What nodes of shares keep here, of this process's guests."""
        return self.settings.data / "nodes"

    @property
    def _replicas_dir(self) -> Path:
        return self.settings.run / "r"

    def _admit(self, spec: MachineSpec) -> None:
        used, limit = _used_mib(self._hosted.values()), self.settings.memory_mib
        if used + spec.memory_mib > limit:
            raise NotAdmitted(
                f"{self.name} has no memory for a machine of {spec.memory_mib} MiB",
                why=f"{used} of {limit} MiB are in use",
                fix="end a replica there, or try another surrogate",
            )
        data, keep = self.settings.data, self.settings.disk_mib
        for folder, wanted in ((data, keep), (self.settings.run, spec.memory_mib)):
            if (free := _free_mib(folder)) < wanted:
                raise NotAdmitted(
                    f"{self.name} has no disk for another machine",
                    why=f"{free} MiB are free at {folder} and {wanted} MiB are needed",
                    fix="try another surrogate, or have its operator make room",
                )

    def warm(self, blocks: bytes) -> int:
        """Have blocks in the cache that nobody has asked for; how many were not there. Raises
        UsageError for a part of a block, CacheFull."""
        if not blocks or len(blocks) % BLOCK_SIZE:
            raise UsageError(f"{len(blocks)} bytes are not whole blocks")
        return self._cache.warm(blocks)

    def _cache_limit(self) -> int:
        """Less than what was set where others use the disk: some of it is to stay free."""
        return max(0, min(self._limit, self._room() - (self.settings.disk_mib << 20)))

    def _room(self) -> int:
        """Bytes that the cache has and that are free."""
        return self.store.pack_bytes + (_free_mib(self.settings.data) << 20)

    def _make_room(self) -> bool:
        """Not before the store knows the maps of all machines that were left running."""
        return self._taken_over.is_set() and self._cache.make_room()

    def _volumes(self) -> list[Volume]:
        return [volume for hosted in self.replicas() for volume in hosted.volumes]

    def _keep_house(self) -> None:
        swept = time.monotonic()
        while not self._closing.wait(WRITTEN_SECONDS):
            try:
                self._end_overfull()
                for hosted in self.replicas():
                    hosted.foreground.look()
                for tenant in self.tenants.all():
                    self._keep_share(tenant)
                if time.monotonic() - swept > HOUSEKEEPING_SECONDS:
                    swept = time.monotonic()
                    self._end_idle()
                    self.tenants.clear_forwarded()
            except (SatchelError, OSError) as error:
                logger.warning("housekeeping: %s", error)

    def _end_overfull(self) -> None:
        """Machines that have written more than one may, or that their tenant may not have."""
        for tenant in self.tenants.all():
            replicas = sorted(self.replicas(tenant), key=lambda hosted: hosted.written)
            total = sum(hosted.written for hosted in replicas)
            for hosted in reversed(replicas):
                over = total > tenant.caps.overlay_mib << 20
                if over or hosted.written > self.settings.overlay_mib << 20:
                    total -= hosted.written
                    self._drop(hosted, "its disks are written full")

    def _end_idle(self) -> None:
        for hosted in self.replicas():
            hosted.tenant.meter(hosted, hosted.fetched)
            if hosted.idle_seconds > self.settings.idle_minutes * 60:
                self._drop(hosted, "its client is not heard of any more")
            elif hosted.usage.hours > hosted.tenant.caps.hours:
                self._drop(hosted, f"it ran {hosted.tenant.caps.hours} hours (tenant.hours)")
        for (owner, _), staging in [*self._staged.items()]:
            self.tenants.admitted(owner).meter(staging, staging.fetched)
        for tenant in self.tenants.all():
            if tenant.day_bytes > tenant.caps.day_mib << 20:
                self.end_all(tenant)

    def _drop(self, hosted: HostedReplica, why: str) -> None:
        logger.warning("replica %s of %s: %s, ended", hosted.id, hosted.tenant.identity, why)
        self._end(hosted)


def _readahead(
    manifest: Manifest, replica: Replica, fetcher: Fetcher, prefetcher: Prefetcher | None
) -> Readahead | None:
    """What looks ahead once the working set has come."""
    if manifest.profile is None:
        return None
    return Readahead(
        fetcher,
        manifest.profile,
        replica.phases.begun,
        lambda: prefetcher is None or prefetcher.remaining == 0,
    )


def _name(replica: str, tenant: Tenant | None) -> Name:
    return (tenant.identity if tenant else ACCOUNT, ReplicaId(replica))


def _check_volumes(manifest: Manifest, most_gib: int, host: str) -> None:
    for name, root in sorted(manifest.volumes.items()):
        if root.size > most_gib << 30:
            raise NotAdmitted(
                f"{host} takes no volume as large as {name} of {manifest.service}",
                why=f"it has {root.size} bytes, and {most_gib} GiB are the most here",
                fix="its operator may raise max-volume-gib",
            )


def _used_mib(replicas: Iterable[HostedReplica]) -> int:
    running = (t.replica for t in replicas if t.replica.state not in ENDED)
    return sum(replica.spec.memory_mib for replica in running)


def _free_mib(folder: Path) -> int:
    return shutil.disk_usage(folder).free >> 20
