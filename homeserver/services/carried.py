# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Deltas of a carried service whose machine leads elsewhere. Each comes piece by piece, so that a
link may break, and becomes a checkpoint that home signs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path

from chunkstore import Store, TableRoot
from homeserver.services.records import CheckpointRegistry
from images import SIGNATURE_NAMESPACE, Manifest
from replica import MachineSnapshot, apply_delta, decode_delta
from satchel.errors import ConflictError, IntegrityError, StateError, UsageError
from satchel.ids import CheckpointId
from wire import signer_of

SIZE_LIMIT = 1 << 30
"""Bytes of a delta that home takes."""


class DeltaRefused(IntegrityError):
    """The delta does not lead to the state that it names."""


class HomeIsAhead(ConflictError):
    """The delta does not start at home's newest checkpoint."""

    def __init__(self, service: str, latest: Manifest, parent: CheckpointId) -> None:
        super().__init__(
            f"home has a later state of {service} than the one that was gone on from",
            why=f"home's is {latest.id} of {latest.created}, the other {parent}",
            fix=f"end this session; without home, `satchel run {service} --accept-older {parent}` "
            "gives up home's",
        )


class IncomingDelta:
    """The delta that is coming in for one service, in a file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._digest = ""

    def have(self, digest: str) -> int:
        """Bytes of that delta that are here."""
        with self._lock:
            if digest != self._digest or not self._path.exists():
                return 0
            return self._path.stat().st_size

    def add(self, digest: str, offset: int, data: bytes) -> int:
        """Take a piece; how many bytes are here now. Raises ConflictError where others are due."""
        with self._lock:
            if offset == 0:
                self._path.unlink(missing_ok=True)
                self._digest = digest
            size = self._path.stat().st_size if self._path.exists() else 0
            if digest != self._digest or offset != size:
                why = f"{size} bytes of {self._digest[:16] or 'none'} are here"
                raise ConflictError("this piece of a delta is not due", why=why)
            if size + len(data) > SIZE_LIMIT:
                raise UsageError(f"a delta has at most {SIZE_LIMIT} bytes")
            with self._path.open("ab") as file:
                file.write(data)
            return size + len(data)

    def whole(self, digest: str) -> bytes:
        """All of it. Raises DeltaRefused where it is another."""
        with self._lock:
            data = self._path.read_bytes() if self._path.exists() else b""
            if digest != self._digest or hashlib.sha256(data).hexdigest() != digest:
                raise DeltaRefused("a delta came in damaged", fix="send it again from its start")
            return data

    def clear(self) -> None:
        """Forget it."""
        with self._lock:
            self._path.unlink(missing_ok=True)
            self._digest = ""


class CarriedDeltas:
    """The deltas of one service. Thread-safe."""

    def __init__(self, name: str, owner: str, shelf: CheckpointRegistry) -> None:
        """owner: the fingerprint of the key that signs its manifests."""
        self._name = name
        self._owner = owner
        self._shelf = shelf
        self.incoming = IncomingDelta(shelf.root.parent / "delta.part")

    def older(self, said: object) -> Manifest | None:
        """The checkpoint that a client goes on from although home has a later one, and may have
        forgotten that: a list of its manifest and the owner's signature of it. Raises UsageError,
        SignatureInvalid, and what a manifest raises."""
        if said is None:
            return None
        if not isinstance(said, list) or [type(text) for text in said] != [str, str]:
            raise UsageError("an older checkpoint is its manifest and a signature")
        data, signature = (text.encode() for text in said)
        if signer_of(data, signature, SIGNATURE_NAMESPACE) != self._owner:
            raise UsageError("another key signed an older checkpoint")
        manifest = Manifest.from_bytes(data)
        if manifest.service != self._name:
            raise UsageError(f"an older checkpoint is of {manifest.service}, not {self._name}")
        return manifest

    def take(
        self,
        store: Store,
        parent: CheckpointId,
        data: bytes,
        volumes: Mapping[str, TableRoot],
        older: Manifest | None = None,
    ) -> tuple[Manifest, MachineSnapshot]:
        """Import a delta since `parent`: return that checkpoint and the state that follows it. To
        be called within `Store.making`. volumes: the tables that it leads to; older: that
        checkpoint, where home has a later one, which its owner gives up. Raises
        CheckpointNotFound, HomeIsAhead, DeltaInvalid, DeltaRefused, and what the store raises."""
        latest = self._shelf.latest()
        if older is None and latest and latest.id != parent:
            raise HomeIsAhead(self._name, latest, parent)
        manifest = older or self._shelf.get(parent)
        if not manifest.contract.carried:
            raise StateError(f"{self._name} is not carried", why="its recipe has another contract")
        sizes = {name: root.blocks for name, root in manifest.volumes.items()}
        delta = decode_delta(data, sizes)
        roots = apply_delta(store, manifest.volumes, delta)
        if roots != volumes:
            why = "its blocks lead to other tables"
            raise DeltaRefused(f"a delta of {self._name} is not what it says", why=why)
        device_state = store.import_bytes(delta.device_state)
        return manifest, MachineSnapshot(manifest.operation, device_state, roots)
