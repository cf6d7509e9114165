# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What goes between home and portable media: checkpoints out, operations back.

A return home, in this order, so that a crash at any point leaves media that can be used:

1. operations that only the media has are submitted at home and executed
2. a new checkpoint is taken
3. chunks that the media lacks are added, then the signed manifest
4. older checkpoints of the service leave the media, then chunks that nothing names
5. the log on the media is cut up to the checkpoint's operation
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from chunkstore import Media, Store
from homeserver.records import CheckpointShelf
from homeserver.service import Service
from images import Manifest
from replay import Log
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

RECONCILE_BATCH = 64
"""Operations taken from a media's log and submitted at once."""


@dataclass(frozen=True)
class Carried:
    """What a checkpoint onto media did. Sizes in bytes."""

    checkpoint: str
    operation: int
    paused_seconds: float
    reconciled: int
    chunks: int
    media_bytes: int


def media_shelf(media: Path, service: str) -> CheckpointShelf:
    """The signed manifests of a service on media mounted at `media`."""
    return CheckpointShelf(Media.checkpoints_folder(media, service))


def media_log(media: Path, service: str) -> Path:
    """The folder of a service's operation log on media mounted at `media`."""
    return Media.log_folder(media, service)


def carry(service: Service, store: Store, root: Path, progress: Progress = silent) -> Carried:
    """Bring media mounted at `root` up to date with a new checkpoint of `service`.

    Raises MediaNotFound, MediaFull, MediaReadOnly, MediaGone, NotLaunched. After an error the
    media has its old checkpoint and its old log.
    """
    media = Media.open(root)
    reconciled = reconcile(service, root)
    manifest, frozen = service.checkpoint()
    written, chunks = copy_checkpoint(service, store, media, root, manifest, progress)
    return Carried(
        checkpoint=manifest.id,
        operation=manifest.operation,
        paused_seconds=frozen.paused_seconds,
        reconciled=reconciled,
        chunks=chunks,
        media_bytes=written,
    )


def media_contents(root: Path) -> list[dict[str, object]]:
    """The checkpoints on media: service, id, operation number, time, operations logged since."""
    Media.open(root)
    rows: list[dict[str, object]] = []
    for folder in sorted(Media.checkpoints_folder(root, "any").parent.glob("*")):
        for manifest in CheckpointShelf(folder).all():
            log = media_log(root, folder.name)
            rows.append(
                {
                    "service": manifest.service,
                    "checkpoint": manifest.id,
                    "operation": manifest.operation,
                    "created": manifest.created,
                    "logged": _last_logged(log) if log.exists() else None,
                }
            )
    return rows


def reconcile(service: Service, root: Path) -> int:
    """Execute at home what only the log on media has; how many operations those were."""
    folder = media_log(root, service.name)
    if not folder.exists():
        return 0
    log = Log.open(folder)
    try:
        before = service.last_logged
        batch = []
        for operation in log.read(before):
            batch.append(operation)
            if len(batch) == RECONCILE_BATCH:
                service.submit(batch)
                batch = []
        if batch:
            service.submit(batch)
    finally:
        log.close()
    return service.last_logged - before


def copy_checkpoint(
    service: Service, store: Store, media: Media, root: Path, manifest: Manifest, progress: Progress
) -> tuple[int, int]:
    """Put a checkpoint onto media in place of its older ones: bytes written, chunks named."""
    refs = store.reachable(manifest.roots())
    written = media.add(store, refs, progress)
    shelf = media_shelf(root, service.name)
    shelf.add(manifest, service.shelf.signature(manifest.id))
    shelf.keep(lambda kept: kept.id == manifest.id)
    media.retain(_named(store, root, manifest, refs))
    _cut(root, service.name, manifest.operation)
    return written, len(refs) // 52


def _named(store: Store, root: Path, manifest: Manifest, refs: bytes) -> bytes:
    """Every reference that some checkpoint on the media names."""
    named = [refs]
    for folder in sorted(Media.checkpoints_folder(root, manifest.service).parent.iterdir()):
        for other in CheckpointShelf(folder).all():
            if other.id != manifest.id:
                named.append(store.reachable(other.roots()))
    return b"".join(named)


def _cut(root: Path, service: str, upto: OperationNumber) -> None:
    folder = media_log(root, service)
    if folder.exists():
        log = Log.open(folder)
        log.cut(upto)
        log.close()


def _last_logged(folder: Path) -> int:
    log = Log.open(folder)
    try:
        return log.last
    finally:
        log.close()
