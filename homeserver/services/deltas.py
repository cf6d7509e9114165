# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Deltas of carried services, as home takes them: each becomes a checkpoint, signed as others."""

from __future__ import annotations

from collections.abc import Mapping

from chunkstore import Store, TableRoot
from homeserver.services.incoming import DeltaRefused
from homeserver.services.service import Checkpoint, Service
from images import SIGNATURE_NAMESPACE, Manifest
from replica import MachineSnapshot, apply_delta, decode_delta
from satchel.errors import ConflictError, StateError, UsageError
from satchel.ids import CheckpointId
from wire import signer_of


class HomeIsAhead(ConflictError):
    """The delta does not start at home's newest checkpoint."""

    def __init__(self, service: str, latest: Manifest, parent: CheckpointId) -> None:
        super().__init__(
            f"home has a later state of {service} than the one that was gone on from",
            why=f"home's is {latest.id} of {latest.created}, the other {parent}",
            fix=f"end this session; without home, `satchel run {service} --accept-older {parent}` "
            "gives up home's",
        )


def older_checkpoint(service: Service, said: object) -> Manifest | None:
    """The checkpoint that a client goes on from although home has a later one, and may have
    forgotten that: a list of its manifest and the owner's signature of it. Raises UsageError,
    SignatureInvalid, and what a manifest raises."""
    if said is None:
        return None
    if not isinstance(said, list) or [type(text) for text in said] != [str, str]:
        raise UsageError("an older checkpoint is its manifest and a signature")
    data, signature = (text.encode() for text in said)
    if signer_of(data, signature, SIGNATURE_NAMESPACE) != service.owner:
        raise UsageError("another key signed an older checkpoint")
    manifest = Manifest.from_bytes(data)
    if manifest.service != service.name:
        raise UsageError(f"an older checkpoint is of {manifest.service}, not {service.name}")
    return manifest


def take(
    service: Service,
    store: Store,
    parent: CheckpointId,
    data: bytes,
    volumes: Mapping[str, TableRoot],
    older: Manifest | None = None,
) -> Checkpoint:
    """Make a checkpoint of a delta since `parent`. volumes: the tables that it leads to; older:
    that checkpoint, where home has a later one, which its owner gives up. Raises
    CheckpointNotFound, HomeIsAhead, DeltaInvalid, DeltaRefused, and what the store raises."""
    latest = service.shelf.latest()
    if older is None and latest and latest.id != parent:
        raise HomeIsAhead(service.name, latest, parent)
    manifest = older or service.shelf.get(parent)
    if not manifest.contract.carried:
        raise StateError(f"{service.name} is not carried", why="its recipe has another contract")
    sizes = {name: root.blocks for name, root in manifest.volumes.items()}
    delta = decode_delta(data, sizes)
    with store.making():
        roots = apply_delta(store, manifest.volumes, delta)
        if roots != volumes:
            why = "its blocks lead to other tables"
            raise DeltaRefused(f"a delta of {service.name} is not what it says", why=why)
        frozen = MachineSnapshot(manifest.operation, store.import_bytes(delta.device_state), roots)
        return service.keep(manifest, frozen)
