# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What goes between home and portable media: checkpoints out, operations back.

A return home, in this order, so that a crash at any point leaves media that can be used:

1. operations that only the media has are logged at home and executed
2. a new checkpoint is taken
3. chunks that the media lacks are added, then the signed manifest
4. older checkpoints of the service leave the media, then chunks that nothing names
5. the log on the media is cut up to the checkpoint's operation

Each step is durable before the next one begins.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chunkstore import ChunkMissing, Media, MediaFull, MediaGone, MediaReadOnly, Store
from homeserver.records import CheckpointShelf
from homeserver.service import Checkpoint, Service
from images import Manifest
from replay import Log
from satchel.errors import IntegrityError, SatchelError
from satchel.ids import CHUNK_REF_SIZE, OperationNumber
from satchel.names import NAME
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

RECONCILE_BATCH = 64
"""Operations taken from a media's log and logged at home at once."""


@dataclass(frozen=True)
class Carried:
    """What a checkpoint onto media did.

    reconciled: operations that home did not have. chunks: that the checkpoint names. media_bytes:
    written to the media's packs.
    """

    checkpoint: str
    operation: int
    paused_seconds: float
    reconciled: int
    chunks: int
    media_bytes: int


def carry(service: Service, store: Store, root: Path, progress: Progress = silent) -> Carried:
    """Bring media mounted at `root` up to date with a new checkpoint of `service`.

    One call at a time on one medium. Raises MediaNotFound, MediaFull, MediaReadOnly, MediaGone,
    NotLaunched, LogBusy when a client uses the media, and what `reconcile` raises. After an error
    the media has its old checkpoint and its old log, or the new ones, or the new checkpoint and
    the old log; each leads on to the newest operation.
    """
    with Media.open(root) as media:
        reconciled = reconcile(service, root)
        taken = service.checkpoint()
        written, chunks = copy_checkpoint(service.name, store, media, taken, progress)
        cut_log(root, service.name, taken.manifest.operation)
    return Carried(
        checkpoint=taken.manifest.id,
        operation=taken.manifest.operation,
        paused_seconds=taken.paused_seconds,
        reconciled=reconciled,
        chunks=chunks,
        media_bytes=written,
    )


def media_contents(root: Path) -> list[dict[str, object]]:
    """The checkpoints on media: service, id, operation number, time, last operation logged.

    Changes nothing. What is damaged is left out and logged. Raises MediaNotFound.
    """
    Media.open(root).close()
    rows: list[dict[str, object]] = []
    for service in _services(root):
        logged = _last_logged(Media.log_folder(root, service))
        for manifest in _shelf(root, service).readable():
            rows.append(
                {
                    "service": manifest.service,
                    "checkpoint": manifest.id,
                    "operation": manifest.operation,
                    "created": manifest.created,
                    "logged": logged,
                }
            )
    return rows


def reconcile(service: Service, root: Path) -> int:
    """Execute at home what only the log on the media has; how many operations those were.

    Raises OperationsDiffer when home has another operation where the two logs meet, OperationGap
    when they do not meet, LogBusy, LogCorrupt, and what waiting for the replica raises.
    """
    folder = Media.log_folder(root, service.name)
    if not service.record.stateful or not folder.exists():
        return 0
    before = service.last_logged
    with Log.open(folder) as log:
        known = max(before, log.first) - 1
        operations = log.read(OperationNumber(max(known, 0)))
        while batch := list(islice(operations, RECONCILE_BATCH)):
            service.append(batch)
    service.wait_executed(service.last_logged)
    return service.last_logged - before


def copy_checkpoint(
    name: str, store: Store, media: Media, taken: Checkpoint, progress: Progress = silent
) -> tuple[int, int]:
    """Put a checkpoint onto media in place of its older ones: bytes written, chunks named."""
    refs = store.reachable(taken.manifest.roots())
    written = media.add(store, refs, progress)
    shelf = _shelf(media.root, name)
    with _writing_to(media.root):
        shelf.add(taken.manifest, taken.signature)
        shelf.keep([taken.manifest.id])
    try:
        media.retain(refs + _others(store, media.root, taken.manifest))
    except (ChunkMissing, IntegrityError) as error:
        logger.warning("no chunks are removed from %s: %s", media.root, error)
    return written, len(refs) // CHUNK_REF_SIZE


def cut_log(root: Path, service: str, upto: OperationNumber) -> None:
    """Forget the operations on media that a checkpoint there has executed."""
    folder = Media.log_folder(root, service)
    if folder.exists():
        with Log.open(folder) as log:
            log.cut(upto)


def _others(store: Store, root: Path, manifest: Manifest) -> bytes:
    """Every reference that another checkpoint on the media names. Raises ChunkMissing when it is
    another home's and its tables are not here, an IntegrityError when one cannot be read."""
    roots = [
        one
        for service in _services(root)
        for other in _shelf(root, service).all()
        if other.id != manifest.id
        for one in other.roots()
    ]
    return store.reachable(roots)


@contextmanager
def _writing_to(root: Path) -> Iterator[None]:
    """An error of the system becomes one of the media."""
    try:
        yield
    except OSError as error:
        kind: type[SatchelError] = MediaGone
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind = MediaFull
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            kind = MediaReadOnly
        raise kind(f"cannot write to the media at {root}", why=str(error)) from error


def _services(root: Path) -> Iterator[str]:
    folder = Media.checkpoints_folder(root, "any").parent
    if folder.is_dir():
        yield from sorted(p.name for p in folder.iterdir() if NAME.fullmatch(p.name) and p.is_dir())


def _shelf(root: Path, service: str) -> CheckpointShelf:
    return CheckpointShelf(Media.checkpoints_folder(root, service))


def _last_logged(folder: Path) -> int | None:
    if not folder.exists():
        return None
    try:
        with Log.open(folder, read_only=True) as log:
            return log.last
    except SatchelError as error:
        logger.warning("%s", error)
        return None
