# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home keeps of a service on disk: its description and its checkpoints.

    services/NAME/service.json             the description
    services/NAME/checkpoints/ID.json      a manifest, canonical
    services/NAME/checkpoints/ID.json.sig  the owner's signature of it
    services/NAME/log-*                    the operation log
    services/NAME/calls-*                  what its guests asked of shares meanwhile

docs/formats/home.md. A checkpoint is there when its signature is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from chunkstore import Catalog, Store, TableRoot
from homeserver.machine_options import ANYTHING, MachineOptions
from homeserver.registry import Registry
from images import Manifest, ManifestInvalid
from satchel.errors import IntegrityError, NotFoundError, SatchelError
from satchel.files import sync_folder, write_durably
from satchel.ids import CheckpointId
from satchel.names import check_name

logger = logging.getLogger(__name__)

_SIGNED = re.compile(r"([0-9a-f]{16})\.json\.sig")
_OURS = re.compile(r"[0-9a-f]{16}\.json(\.sig)?(\.new)?")
_MANIFEST_LIMIT = 1 << 20


class RecordDamaged(IntegrityError):
    """A file that describes a service or a checkpoint is damaged."""


class CheckpointNotFound(NotFoundError):
    """The service has no checkpoint, or none with that id."""


@dataclass(frozen=True)
class ServiceRecord:
    """A service as its owner described it.

    image: the built image of its first boot. created: UTC, as datetime.isoformat writes it.
    stateful: whether it has a log. machine: what its owner wishes its machine to be. wanted:
    whether it was launched and not stopped since, so that `serve` starts it.
    """

    name: str
    image: str
    created: str
    stateful: bool
    machine: MachineOptions = ANYTHING
    wanted: bool = False


@dataclass(frozen=True)
class NewService:
    """What is said of a service that is added. See ServiceRecord."""

    name: str
    image: str
    machine: MachineOptions = ANYTHING


class ServiceRegistry(Registry[ServiceRecord]):
    """The folder of all services. One process at a time; not thread-safe. The chunks of a service
    that is removed stay until the next prune."""

    kind, record, version, damaged = "service", ServiceRecord, 3, RecordDamaged

    @classmethod
    def beside(cls, store: Path) -> ServiceRegistry:
        """The services of the home whose store that is, however it is spelled: none if it is the
        store of no home."""
        return cls(store.resolve().parent / "services")

    def roots(self) -> list[TableRoot]:
        """The roots of every checkpoint of every service: what a prune must keep.

        Raises as `CheckpointRegistry.all` does: a prune must not overlook one. What is not there
        any more is gone for good: it cannot come back after a power cut.
        """
        for folder in (self.root, *self.root.glob("*"), *self.root.glob("*/checkpoints")):
            if folder.is_dir():
                sync_folder(folder)
        return [
            root
            for name in self.names()
            for manifest in self.checkpoints(name).present()
            for root in manifest.roots()
        ]

    def checkpoints(self, name: str) -> CheckpointRegistry:
        return CheckpointRegistry(self.folder(name) / "checkpoints")

    def log_path(self, name: str) -> Path:
        return self.folder(name) / "log"

    def calls_path(self, name: str) -> Path:
        return self.folder(name) / "calls"


class CheckpointRegistry:
    """Signed manifests of one service, in a folder at home or on media.

    Whatever else is in the folder is nothing of ours. Signatures are kept, not verified.
    """

    def __init__(self, root: Path) -> None:
        """`root` need not exist: there are no checkpoints then."""
        self.root = root

    def add(self, manifest: Manifest, signature: bytes) -> None:
        """Keep a checkpoint. Durable on return."""
        if not self.root.is_dir():
            self.root.mkdir(parents=True)
            sync_folder(self.root.parent)
        write_durably(self._path(manifest.id), manifest.to_bytes())
        write_durably(self._path(manifest.id, ".sig"), signature)

    def ids(self) -> list[CheckpointId]:
        """The id of every checkpoint, readable or not, in no order that means anything."""
        names = (path.name for path in self.root.iterdir()) if self.root.is_dir() else ()
        return sorted(CheckpointId(found[1]) for n in names if (found := _SIGNED.fullmatch(n)))

    def all(self) -> list[Manifest]:
        """Every checkpoint, the newest last. Raises as `get` does for one that is damaged."""
        return sorted((self.get(checkpoint) for checkpoint in self.ids()), key=attrgetter("age"))

    def present(self) -> list[Manifest]:
        """As `all`, beside somebody who forgets checkpoints: one that goes meanwhile may be left
        out."""
        found = []
        for checkpoint in self.ids():
            try:
                found.append(self.get(checkpoint))
            except CheckpointNotFound:
                if checkpoint in self.ids():
                    raise
        return found

    def readable(self) -> list[Manifest]:
        """Every checkpoint that can be read, the newest last; the others are logged."""
        found = []
        for checkpoint in self.ids():
            try:
                found.append(self.get(checkpoint))
            except SatchelError as error:
                logger.warning("%s", error)
        return sorted(found, key=attrgetter("age"))

    def latest(self) -> Manifest | None:
        """The newest checkpoint, or None when there is none. Raises as `all` does."""
        manifests = self.all()
        return manifests[-1] if manifests else None

    def get(self, checkpoint: CheckpointId) -> Manifest:
        """That checkpoint. Raises CheckpointNotFound, RecordDamaged, ManifestUnsupported."""
        path = self._path(checkpoint)
        try:
            with path.open("rb") as file:
                manifest = Manifest.from_bytes(file.read(_MANIFEST_LIMIT))
            if manifest.id != checkpoint:
                raise ValueError(f"it is {manifest.id}")
        except FileNotFoundError:
            raise CheckpointNotFound(f"no checkpoint {checkpoint}") from None
        except (OSError, ValueError, ManifestInvalid) as error:
            raise RecordDamaged(
                f"cannot read {path}",
                why=str(error),
                fix="put it back from a copy, or move it away with its .sig: home goes on from "
                "the checkpoint before, if the log reaches back to it",
            ) from error
        return manifest

    def signature(self, checkpoint: CheckpointId) -> bytes:
        """The owner's signature of that checkpoint's manifest. Raises CheckpointNotFound."""
        try:
            return self._path(checkpoint, ".sig").read_bytes()
        except FileNotFoundError:
            raise CheckpointNotFound(f"no checkpoint {checkpoint}") from None

    def keep(self, wanted: Collection[CheckpointId]) -> None:
        """Forget the checkpoints that are not wanted, damaged ones too. Durable on return."""
        if not self.root.is_dir():
            return
        names = {self._path(c, suffix).name for c in wanted for suffix in ("", ".sig")}
        unwanted = [path for path in self.root.iterdir() if path.name not in names]
        for pattern in (_SIGNED, _OURS):
            for path in unwanted:
                if pattern.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            sync_folder(self.root)

    def _path(self, checkpoint: CheckpointId, suffix: str = "") -> Path:
        return self.root / f"{check_name(checkpoint, 'checkpoint')}.json{suffix}"


def needed_roots(store: Store) -> list[TableRoot]:
    """The roots of all volumes of a store, and of all checkpoints of the home beside it: what a
    prune must keep. Raises as `Catalog.roots` and `ServiceRegistry.roots` do."""
    return [*Catalog(store).roots(), *ServiceRegistry.beside(store.path).roots()]
