# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home keeps of a service on disk: its description and its checkpoints.

    services/NAME/service.json             the description
    services/NAME/checkpoints/ID.json      a manifest, canonical
    services/NAME/checkpoints/ID.json.sig  the owner's signature of it
    services/NAME/log/                     the operation log

A checkpoint is there when its signature is: the manifest is written first.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chunkstore import TableRoot
from images import Manifest
from satchel.errors import ConflictError, IntegrityError, NotFoundError, UsageError
from satchel.files import write_durably
from satchel.ids import CheckpointId
from satchel.names import check_name

VERSION = 1


@dataclass(frozen=True)
class ServiceRecord:
    """A service as its owner described it: an image and the name it goes by."""

    name: str
    image: str
    created: str


class ServiceShelf:
    """The folder of all services. One process at a time; not thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, record: ServiceRecord) -> None:
        """Keep a new service. Raises ConflictError when one of that name exists."""
        check_name(record.name, "service")
        folder = self.root / record.name
        if (folder / "service.json").exists():
            raise ConflictError(f"service {record.name} exists already", fix="choose another name")
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": VERSION, **asdict(record)}, indent=2)
        write_durably(folder / "service.json", text.encode())

    def get(self, name: str) -> ServiceRecord:
        """The service of that name, or NotFoundError."""
        check_name(name, "service")
        path = self.root / name / "service.json"
        try:
            fields: dict[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            known = ", ".join(r.name for r in self.all()) or "none yet"
            raise NotFoundError(
                f"no service {name}", why=f"services here: {known}", fix="`satchel-home service ls`"
            ) from None
        if fields.pop("version", None) != VERSION:
            raise UsageError(f"{path} has another version", fix="use the Satchel that wrote it")
        return ServiceRecord(**fields)

    def all(self) -> list[ServiceRecord]:
        """Every service, by name."""
        return [self.get(path.parent.name) for path in sorted(self.root.glob("*/service.json"))]

    def remove(self, name: str) -> None:
        """Forget a service, its checkpoints and its log. Its chunks stay until the next prune."""
        self.get(name)
        shutil.rmtree(self.root / name)

    def roots(self) -> list[TableRoot]:
        """The roots of every checkpoint of every service: what a prune must keep."""
        return [
            root
            for record in self.all()
            for manifest in self.checkpoints(record.name).all()
            for root in manifest.roots()
        ]

    def checkpoints(self, name: str) -> CheckpointShelf:
        return CheckpointShelf(self.root / name / "checkpoints")

    def log_folder(self, name: str) -> Path:
        return self.root / name / "log"


class CheckpointShelf:
    """Signed manifests of one service, in a folder at home or on media."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, manifest: Manifest, signature: bytes) -> None:
        """Keep a checkpoint. Durable on return."""
        self.root.mkdir(parents=True, exist_ok=True)
        write_durably(self._path(manifest.id), manifest.to_bytes())
        write_durably(self._path(manifest.id, ".sig"), signature)

    def all(self) -> list[Manifest]:
        """Every checkpoint, the newest last."""
        found = [self.get(CheckpointId(path.name[: -len(".json.sig")])) for path in self._signed()]
        return sorted(found, key=lambda manifest: (manifest.operation, manifest.created))

    def latest(self) -> Manifest | None:
        """The newest checkpoint, or None when there is none."""
        manifests = self.all()
        return manifests[-1] if manifests else None

    def get(self, checkpoint: CheckpointId) -> Manifest:
        """The checkpoint of that id, or NotFoundError, or IntegrityError."""
        path = self._path(checkpoint)
        try:
            manifest = Manifest.from_bytes(path.read_bytes())
        except FileNotFoundError:
            raise NotFoundError(f"no checkpoint {checkpoint}") from None
        if manifest.id != checkpoint:
            raise IntegrityError(
                f"{path} is not checkpoint {checkpoint}", why=f"it is {manifest.id}"
            )
        return manifest

    def signature(self, checkpoint: CheckpointId) -> bytes:
        """The owner's signature of that checkpoint's manifest."""
        return self._path(checkpoint, ".sig").read_bytes()

    def keep(self, wanted: Callable[[Manifest], bool]) -> None:
        """Forget the checkpoints that are not wanted."""
        for manifest in self.all():
            if not wanted(manifest):
                self._path(manifest.id, ".sig").unlink()
                self._path(manifest.id).unlink()

    def _signed(self) -> list[Path]:
        return sorted(self.root.glob("*.json.sig"))

    def _path(self, checkpoint: CheckpointId, suffix: str = "") -> Path:
        check_name(checkpoint, "checkpoint")
        return self.root / f"{checkpoint}.json{suffix}"
