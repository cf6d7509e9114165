# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The home of one owner: the store, the images, and every service, live or at rest."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from chunkstore import Catalog, Store, StoreFull
from guestshares import CallHost, CallKeeper, ShareHost
from homeserver.guests.egress_doors import EgressDoors
from homeserver.guests.keepers import CallKeepers
from homeserver.guests.shares import HomeShares
from homeserver.machine_options import ANYTHING, MachineOptions
from homeserver.media.carry import CarryReport, SyncReport, carry, defragment, sync
from homeserver.media.rotation import RotationReport, rotate
from homeserver.media.unsealed import UnsealedPolicy
from homeserver.retention import RetentionVerdict, forget_volumes, judge_volumes, require_known
from homeserver.services.launcher import Launcher
from homeserver.services.machines import HomeClosing, Machines
from homeserver.services.records import ServiceRecord, ServiceRegistry
from homeserver.services.service import Service
from homeserver.services.view import ServiceView
from homeserver.settings import HomeSettings
from homeserver.store import upkeep
from homeserver.store.settling import BackgroundSettling
from homeserver.timetable import HomeTasks, Notices, Timetable, TimetableRecord, channel_of
from hypervisor import Driver, HostOffer, MachineSpec
from images import SIGNATURE_NAMESPACE, BuiltImage
from media import MEDIA_KEY_NAMESPACE, RelocationReport, Sign
from replay import Log
from sandbox import Cells
from satchel.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    UnsupportedError,
)
from satchel.names import check_name
from satchel.progress import Progress, silent
from satchel.retention import RetentionPolicy
from satchel.timestamps import timestamp_now
from volumes import RawBlocks
from wire import Identity, allowed_signers_line


@dataclass(frozen=True)
class EndedClients:
    """What an unpairing has ended. leases: of these services; log_keys: the services whose logs on
    media get another key"""

    leases: list[str]
    log_keys: list[str]


LEFT_FREE = 320 << 20
"""Bytes of the disk that an import leaves: to machines, and to a prune, which makes room by copying
what it keeps of a pack."""

STOP_POLL_SECONDS = 0.2
"""How often what waits for its turn looks whether it is stopped."""


class Home:
    """Owns the store and the services. Thread-safe; one per process and data folder."""

    def __init__(self, settings: HomeSettings, driver: Driver) -> None:
        """Open the home at `settings.data`, which `init` has made, and clear what one that was
        killed left running.

        Raises NotFoundError where there is none, StoreLocked where another process has it, and
        CellImpossible.
        """
        self._identity = owner_of(settings)
        self.settings = settings
        self.cells = Cells.of(settings, driver)
        self.store = Store.open(settings.store, level=0)
        self._shelf = ServiceRegistry(settings.services)
        self._logs: dict[str, Log] = {}
        self._calls = CallKeepers(
            settings.run,
            self._shelf.calls_path,
            lambda name: HomeShares(settings, name),
            lambda name: self._logs[name].last,
        )
        self.egress_doors = EgressDoors(settings.run)
        self._driver = driver
        self._machines = Machines(
            self.store,
            driver,
            settings.run / "r",
            settings.images,
            RawBlocks(settings.store, settings.unpacked_mib << 20),
            settings.machine,
            self._share_host,
            self._share_copy,
            self.cells,
            settings.boot_seconds,
        )
        self._lock = threading.RLock()
        self._carrying = threading.Lock()
        self._tending = threading.Lock()
        self._closed = False
        self._services: dict[str, Service] = {}
        self._settling = BackgroundSettling(self.store) if settings.settle else None
        record = TimetableRecord(settings.data / "timetable.json")
        self.notices = Notices(record, {place: channel_of(place) for place in settings.notify})
        self._launcher = Launcher(self._wanted, self._is_wanted, self.notices)
        self.timetable = Timetable(HomeTasks(settings, self._running, self), record, self.notices)

    @staticmethod
    def init(settings: HomeSettings) -> None:
        """Make a store and the owner's key. Raises ConflictError where a home is already.

        The key is made last: what an interrupted call left is gone on with.
        """
        if settings.identity.exists():
            raise ConflictError(
                f"there is a home at {settings.data} already",
                fix=f"its line for allowed_signers is: {signers_line(settings)}",
            )
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings.services.mkdir(exist_ok=True)
        if not settings.store.exists():
            Store.create(settings.store).close()
        settings.identity.parent.mkdir(mode=0o700, exist_ok=True)
        Identity.create(settings.identity, comment="satchel owner")

    def add_service(self, name: str, image: str, machine: MachineOptions = ANYTHING) -> None:
        """Describe a new service of a built image. Nothing is started.

        Raises BadName, ConflictError, ImageNotBuilt, ImageDamaged.
        """
        built = BuiltImage.load(self.settings.images / check_name(image, "image"))
        record = ServiceRecord(name, image, timestamp_now(), built.recipe.logged, machine)
        with self._lock:
            self._shelf.add(record)

    def remove_service(self, name: str) -> None:
        """Stop and forget a service. Its chunks stay in the store until the next prune."""
        with self._lock:
            self.service(name).close()
            self._calls.drop(name)
            del self._services[name]
            self._shelf.remove(name)

    def launch(self, name: str) -> None:
        """Launch a service, and again after each start of the daemon and each crash, until `stop`.
        Raises the errors of Service.launch."""
        self._want(name, wanted=True)
        self.service(name).launch()

    def want(self, name: str) -> None:
        """Launch a service soon and return at once. Failures are logged."""
        self._want(name, wanted=True)
        self._launcher.wake(name)
        self._launcher.start()

    def launch_wanted(self) -> None:
        """Begin to start the services that ran when the daemon ended, and to watch them."""
        self._launcher.start()

    def stop(self, name: str) -> None:
        """End a service's replica; it starts no more by itself."""
        self._want(name, wanted=False)
        self.service(name).stop()

    def _want(self, name: str, *, wanted: bool) -> None:
        with self._lock:
            record = self._shelf.get(name)
            if record.wanted != wanted:
                self._shelf.replace(dataclasses.replace(record, wanted=wanted))

    def _wanted(self) -> list[Service]:
        """The services that shall run. One that cannot be opened is shown as failed by `views`."""
        found = []
        for name in self._shelf.names():
            with suppress(SatchelError, OSError):
                if self._is_wanted(name):
                    found.append(self.service(name))
        return found

    def _is_wanted(self, name: str) -> bool:
        """Takes no lock: a service asks while it holds its own."""
        try:
            return not self._closed and self._shelf.get(name).wanted
        except NotFoundError:
            return False  # removed meanwhile

    def _running(self) -> list[Service]:
        with self._lock:
            return [service for service in self._services.values() if service.present]

    def keeper(self, service: str) -> CallKeeper:
        """Has the calls of its guests done. Raises as `service`, and as CallKeepers.of."""
        self.service(service)
        return self._calls.of(service)

    def share_of(self, service: str) -> str:
        """The share of its guest. Raises NotFoundError where no service or no share is meant."""
        self._shelf.get(service)
        return HomeShares(self.settings, service).share()

    def service(self, name: str) -> Service:
        """The live service of that name. Raises NotFoundError, BadName, RecordDamaged, LogCorrupt,
        HomeClosing."""
        with self._lock:
            if self._closed:
                raise HomeClosing("cannot open a service", why="the home server is being stopped")
            if name not in self._services:
                self._services[name] = self._open(self._shelf.get(name))
            return self._services[name]

    def services(self, names: Sequence[str] = ()) -> list[Service]:
        """Every service, or those of these names that there are, by name. Raises as `service`."""
        with self._lock:
            known = self._shelf.names()
            return [self.service(name) for name in known if not names or name in names]

    def end_clients(self, doors: Collection[int] = ()) -> EndedClients:
        """End all leases, end what replicas ask that came through these doors, and change the keys
        of logs. A holder that is still paired claims its service again by its next request."""
        self._calls.end_guests_of(doors)
        held = [service for service in self.services() if service.lease.holder]
        for service in held:
            service.lease.end()
        changed = [service.name for service in self.services() if service.log_keys.change()]
        return EndedClients(leases=[service.name for service in held], log_keys=changed)

    @cached_property
    def offer(self) -> HostOffer:
        """What this host can run."""
        return HostOffer.of(self._driver)

    def status(self) -> dict[str, Any]:
        """Return the host's abilities, the options of every machine, and the running machines."""
        views, wish = self.views(), self.settings.machine
        running = [view for view in views if view.accelerator]
        return {
            "machines": str(self.offer),
            "accelerators": list(self.offer.accelerators),
            "lacking": self.offer.lacking,
            "accelerator": wish.accelerator or "as each recipe says",
            "services": len(views),
            "running": {view.name: view.accelerator for view in running},
            "data": str(self.settings.data),
        }

    def views(self) -> list[ServiceView]:
        """What every service is at, by name; one that cannot be opened has failed."""
        found = []
        for name in self._shelf.names():
            try:
                found.append(self.service(name).view())
            except NotFoundError:
                continue  # removed meanwhile
            except (IntegrityError, UnsupportedError) as error:
                found.append(ServiceView(name=name, state="failed", failure=str(error)))
        return found

    def carry(
        self,
        name: str,
        root: Path,
        progress: Progress = silent,
        doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE,
    ) -> CarryReport:
        """Bring media mounted at `root` up to date with a new checkpoint of a service."""
        service = self.service(name)
        with self._carrying:
            return carry(service, self.store, root, progress, doubtful, self.settings.media_keys)

    def sync(
        self,
        names: Sequence[str],
        root: Path,
        progress: Progress = silent,
        doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE,
        budget: int | None = None,
    ) -> SyncReport:
        """Bring the newest checkpoints of these services, or of all, onto media at `root`; with a
        budget in bytes, of them what is most probably touched."""
        services = [self.service(name) for name in names] or self.services()
        keys = self.settings.media_keys
        with self._carrying:
            return sync(services, self.store, root, progress, doubtful, keys, budget)

    def defragment(self, root: Path, progress: Progress = silent) -> RelocationReport:
        """Lay in one piece, on media at `root`, what resumes read first."""
        with self._carrying:
            return defragment(self.store, root, progress, self.settings.media_keys)

    def rotate(
        self,
        root: Path,
        public_keys: Sequence[str],
        doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE,
    ) -> RotationReport:
        """Give the sealed medium at `root` another key, which these SSH public keys open."""
        with self._carrying:
            keys, sign = self.settings.media_keys, media_signing(self._identity)
            return rotate(self.services(), root, keys, public_keys, sign, doubtful)

    def forget(
        self, names: Sequence[str], policy: RetentionPolicy | None, *, dry_run: bool = False
    ) -> list[RetentionVerdict]:
        """Apply a policy to volumes and services of these names, or to all of them; without one,
        forget the volumes of these names (NAME or NAME@VERSION), and of services all checkpoints
        but the newest.

        The chunks stay until the next prune. Raises NameNotFound for a name of neither, UsageError.
        """
        catalog = Catalog(self.store)
        services = self.services(names) if policy or names else []
        if policy is None:
            return self._forget_whole(catalog, names, services, dry_run=dry_run)
        known = {entry.name for entry in catalog.versions()} | {s.name for s in services}
        require_known(names, known)
        verdicts = judge_volumes(catalog, names, policy, dry_run=dry_run)
        for service in services:
            verdicts += service.forget(policy, dry_run=dry_run)
        return verdicts

    def _forget_whole(
        self, catalog: Catalog, names: Sequence[str], services: Sequence[Service], *, dry_run: bool
    ) -> list[RetentionVerdict]:
        known = {entry.name for entry in catalog.versions()}
        alone = {service.name for service in services} - known
        volumes = [name for name in names if name not in alone]
        verdicts = forget_volumes(catalog, volumes, dry_run=dry_run) if volumes or not names else []
        for service in services:
            verdicts += service.forget(RetentionPolicy(last=1), dry_run=dry_run)
        return verdicts

    def prune(self, *, dry_run: bool = False, progress: Progress = silent) -> dict[str, Any]:
        """As `upkeep.prune`, and never beside `verify`."""
        with self._alone(progress):
            return upkeep.prune(self.store, dry_run=dry_run, progress=progress)

    def verify(self, progress: Progress = silent) -> dict[str, Any]:
        """As `upkeep.verify`. Everything else goes on meanwhile but a prune, which waits."""
        with self._alone(progress):
            return upkeep.verify(self.store, progress)

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        """No prune and no verify but this one. It can be stopped while it waits for that."""
        while not self._tending.acquire(timeout=STOP_POLL_SECONDS):
            progress(0, 0)
        try:
            yield
        finally:
            self._tending.release()

    def settle(self, progress: Progress = silent) -> dict[str, Any]:
        """As `upkeep.settle`. The settling in the background makes way for it."""
        with self._settling.making_way() if self._settling else nullcontext():
            return upkeep.settle(self.store, progress)

    def export_volume(
        self, name: str, file: Path, overwrite: bool, progress: Progress = silent
    ) -> dict[str, Any]:
        """As `upkeep.export_volume`."""
        return upkeep.export_volume(self.store, name, file, overwrite, progress)

    def import_volume(self, file: Path, name: str, progress: Progress = silent) -> dict[str, Any]:
        """As `upkeep.import_volume`. Where there is no room for it, what it stored goes again:
        before the disk is full, as nothing can be pruned then, and machines could not write."""

        def look(done: int, total: int) -> None:
            if shutil.disk_usage(self.store.path).free < LEFT_FREE:
                raise StoreFull(
                    f"cannot import {file}",
                    why=f"less than {LEFT_FREE >> 20} MiB of the disk would be left to machines",
                    fix="make room, say with `forget` and `prune`; or stop the daemon before",
                )
            progress(done, total)

        look(0, 0)
        try:
            return upkeep.import_volume(self.store, file, name, look)
        except StoreFull:
            with suppress(SatchelError):
                self.prune(progress=progress)
            raise

    def close(self) -> None:
        """Stop every replica, also those that are starting, and close the store.

        Leaves no process, mount or socket. Calls under way fail. Harmless the second time.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._machines.close()
        self._launcher.close()
        self.timetable.close()
        with self._lock:
            services, self._services = self._services, {}
        for service in services.values():
            service.close()
        self.egress_doors.close()
        self._calls.close()
        if self._settling:
            self._settling.stop()
        self.store.close()

    def _open(self, record: ServiceRecord) -> Service:
        checkpoints = self._shelf.checkpoints(record.name)
        latest = checkpoints.latest()  # a log that is open stays locked
        log = Log.open(self._shelf.log_path(record.name)) if record.stateful else None
        if log:
            self._logs[record.name] = log
        if record.stateful and latest and MachineSpec.from_json(latest.machine).shares:
            self._calls.of(record.name)
        parts = (self._machines, self._identity, self.settings, self._calls)
        return Service(record, checkpoints, log, *parts)

    def _share_host(self, name: str) -> ShareHost:
        """For home's own replica of a service. Replicas of a stateless one have no operations in
        common, so nothing is recorded of what they ask."""
        shares = HomeShares(self.settings, name)
        if not self._shelf.get(name).stateful:
            return shares
        return CallHost(lambda: self._calls.of(name).at_home(), shares.check)

    def _share_copy(self, name: str) -> ShareHost | None:
        """For who executes the log once more."""
        if not self._shelf.get(name).stateful:
            return None
        check = HomeShares(self.settings, name).check
        return CallHost(lambda: self._calls.of(name).copy(), check)


def owner_of(settings: HomeSettings) -> Identity:
    """The key of the home's owner. Raises NotFoundError where there is no home."""
    settings.require_home()
    return Identity.open(settings.identity)


def signers_line(settings: HomeSettings) -> str:
    """The line of an allowed_signers file by which clients know this home's owner."""
    return allowed_signers_line(
        "owner",
        Identity.open(settings.identity).public,
        namespaces=[SIGNATURE_NAMESPACE, MEDIA_KEY_NAMESPACE],
    )


def media_signing(owner: Identity) -> Sign:
    """What signs the keys of media as the owner."""
    return partial(owner.sign, namespace=MEDIA_KEY_NAMESPACE)
