# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What goes between home and portable media: checkpoints out, operations back.

A return home, in this order, so that a crash at any point leaves media that can be used:

1. operations that only the medium has are logged at home, and executed
2. a new checkpoint is taken
3. the log on the medium is led up to that checkpoint, so that it leads on from the old one and
   from the new one
4. chunks that the medium lacks are added, then the signed manifest, then the commit that makes a
   generation of them and of the other services' checkpoints
5. the log on the medium is cut up to the older of the two generations

Each step is durable before the next one begins. Bringing home's newest checkpoints onto media
without taking one (`sync`) is the same without 2.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from chunkstore import MediaDamaged, Store
from homeserver.media.budget import MissingPart, budget_on, write_part
from homeserver.media.unsealed import UnsealedPolicy
from homeserver.services.replayed import OperationsDiffer
from homeserver.services.service import Checkpoint, Service
from images import SIGNATURE_NAMESPACE
from media import (
    Media,
    RelocationReport,
    SealKeys,
    WriteReport,
    oldest_on,
    relocate,
    write_checkpoints,
)
from replay import Log, OperationsCut, OperationsDoubtful, drop_from, first_difference
from satchel.errors import ConflictError
from satchel.ids import OperationNumber
from satchel.progress import Progress, silent
from wire import SignatureInvalid, signer_of

logger = logging.getLogger(__name__)

RECONCILE_BATCH = 64
"""Operations taken from a medium's log and logged at home at once."""

LEAD_BATCH = 256
"""Operations taken from home's log for the medium's at once."""


ALL_OF_IT = -1
"""In a message, the budget of a medium that gets everything."""


class MediaOfOthers(ConflictError):
    """The medium has a service of that name whose checkpoint another home's owner signed."""


@dataclass(frozen=True)
class CarryReport:
    """What a checkpoint onto media did.

    reconciled: operations that home did not have. chunks: that the checkpoint names. media_bytes:
    written to the medium's packs.
    """

    checkpoint: str
    operation: int
    paused_seconds: float
    reconciled: int
    chunks: int
    media_bytes: int
    generation: int


@dataclass(frozen=True)
class SyncReport:
    """What bringing home's newest checkpoints onto media did. checkpoints: their ids by service.
    left_out: by service, of which the medium has a part."""

    checkpoints: dict[str, str]
    reconciled: int
    generation: int
    chunks: int
    media_bytes: int
    freed_bytes: int
    left_out: dict[str, MissingPart]


def carry(
    service: Service,
    store: Store,
    root: Path,
    progress: Progress = silent,
    doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE,
    keys: SealKeys | None = None,
) -> CarryReport:
    """Bring media mounted at `root` up to date with a new checkpoint of `service`.

    One call at a time on one medium. Raises MediaNotFound, MediaFull, MediaReadOnly, MediaGone,
    MediaOfOthers, NotLaunched, LogBusy when a client uses the medium, and what `reconcile` raises.
    After an error the medium has its old generation, or the new one, and a log that leads on from
    it to the newest operation; another call goes on with what was copied. A medium that has a part
    of its checkpoints gets a part of this one.
    """
    with Media.open(root, keys) as media:
        refuse_others(media, service)
        reconciled = reconcile(service, media, doubtful)
        service.replayed.wait_executed(service.last_logged)
        taken = service.checkpoint()
        written = _write(store, media, [(service, taken)], progress, budget_on(media))
    return CarryReport(
        checkpoint=taken.manifest.id,
        operation=taken.manifest.operation,
        paused_seconds=taken.paused_seconds,
        reconciled=reconciled,
        chunks=written.chunks,
        media_bytes=written.media_bytes,
        generation=written.generation,
    )


def sync(
    services: Sequence[Service],
    store: Store,
    root: Path,
    progress: Progress = silent,
    doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE,
    keys: SealKeys | None = None,
    budget: int | None = None,
) -> SyncReport:
    """Bring the newest checkpoints that home has of these services onto media, all at once.

    No machine is paused, none has to run. A service without a checkpoint is passed over. budget:
    bytes that checkpoints may take there; then what is most probably touched goes there, and the
    rest is had from home. 0: as much as the medium had before. Raises as `carry` does.
    """
    with Media.open(root, keys) as media:
        for service in services:
            refuse_others(media, service)
        reconciled = sum(reconcile(service, media, doubtful) for service in services)
        found = [(service, newest) for service in services if (newest := service.newest())]
        most = budget_on(media) if budget == 0 else budget
        written = _write(store, media, found, progress, most)
    return SyncReport(
        checkpoints={service.name: newest.manifest.id for service, newest in found},
        reconciled=reconciled,
        generation=written.generation,
        chunks=written.chunks,
        media_bytes=written.media_bytes,
        freed_bytes=written.freed_bytes,
        left_out={name: MissingPart.of(part) for name, part in written.parts.items()},
    )


def defragment(
    store: Store, root: Path, progress: Progress = silent, keys: SealKeys | None = None
) -> RelocationReport:
    """`relocate` on media at `root`, with what home has. Raises as that does, and MediaNotFound."""
    with Media.open(root, keys) as media:
        return relocate(media, store, progress)


def reconcile(
    service: Service, media: Media, doubtful: UnsealedPolicy = UnsealedPolicy.REFUSE
) -> int:
    """Log at home what only the log on the medium has; how many operations those were. A replica
    that runs at home executes them.

    Those that lack the seal of the service's key are whoever's who had the medium. Where home has
    them too, they are the same by the comparison below.

    Raises OperationsDoubtful where home has not, and has logged those before them; OperationsDiffer
    when the two logs parted, whose operations stay on the medium; OperationGap when the two logs do
    not meet; LogBusy, LogCorrupt. With DROP both kinds of operations move to a log beside home's.
    """
    path = media.log_path(service.name)
    if not service.record.stateful or not Log.exists(path):
        return 0
    before, beside = service.last_logged, service.shelf.root.parent / "log"
    with Log.open(path, keys=service.log_keys.ring, secret=media.log_secret(service.name)) as log:
        parted = first_difference(log, before, service.replayed.agrees)
        if parted is not None and doubtful is not UnsealedPolicy.DROP:
            raise OperationsDiffer(
                f"operation {parted} of {service.name} differs from the logged one",
                why=f"two clients wrote to one service; only the medium has its operations "
                f"{parted} to {log.last}, and the log at home is the one that counts",
                fix=f"`--doubtful drop` moves them off the medium, into a log in {beside.parent}",
            )
        strange = {number for number in log.doubtful if number > before}
        stop = log.last + 1
        if strange and doubtful is not UnsealedPolicy.ACCEPT:
            stop = min(strange)
        if parted is not None:
            stop = parted
        known = max(min(before, log.last), log.first) - 1
        ours = takewhile(lambda one: one.number < stop, log.read(OperationNumber(max(known, 0))))
        while batch := list(islice(ours, RECONCILE_BATCH)):
            service.replayed.append(batch)
        if stop > log.last:
            _vouch(service, log)
        if doubtful is UnsealedPolicy.DROP and stop <= log.last:
            kept = drop_from(log, OperationNumber(stop), beside)
            logger.warning("%s: operations of the medium were moved to %s", service.name, kept)
        elif stop <= log.last:
            raise OperationsDoubtful(
                strange,
                path,
                fix="`--doubtful accept` if you wrote them, `--doubtful drop` moves them and "
                f"what follows them off the medium, into a log in {beside.parent}",
            )
    return service.last_logged - before


def _vouch(service: Service, log: Log) -> None:
    """Let the current key vouch for a log whose operations home has. If a doubtful one is not
    home's, home's operations take the place of all."""
    strange = [
        number
        for number in sorted(log.doubtful)
        if service.replayed.digest(number) != next(log.read(OperationNumber(number - 1))).digest
    ]
    if strange:
        first = OperationNumber(log.first - 1)
        log.cut(log.last)
        log.start_from(first if _has(service, first) else strange[-1])
        with suppress(OperationsCut):
            while batch := service.replayed.operations(log.last, LEAD_BATCH):
                for operation in batch:
                    log.append(operation)
    log.vouch()


def _has(service: Service, after: OperationNumber) -> bool:
    """Whether home's log leads on from that operation."""
    try:
        return bool(service.replayed.operations(after, 1))
    except OperationsCut:
        return False


def refuse_others(media: Media, service: Service) -> None:
    """Its log would be taken for this home's and then cut, its checkpoint replaced: what only the
    medium has of the other home's service would be lost to it. What is damaged says nothing."""
    for checkpoint in media.checkpoints(service.name):
        try:
            owner = signer_of(*media.signed(checkpoint), SIGNATURE_NAMESPACE)
        except (MediaDamaged, SignatureInvalid):
            continue
        if owner != service.owner:
            raise MediaOfOthers(
                f"the medium at {media.root} has {service.name} of another home",
                why=f"its checkpoint is signed by {owner}, and {service.owner} signs here",
                fix="use another medium or another name; or remove the folder `satchel` from it",
            )


def _write(
    store: Store,
    media: Media,
    new: Sequence[tuple[Service, Checkpoint]],
    progress: Progress,
    budget: int | None = None,
) -> WriteReport:
    """Make a generation of these checkpoints and of what the medium has of other services."""
    for service, taken in new:
        _lead_log(service, media, taken.manifest.operation)
    signed = [taken for _, taken in new]
    if budget is None:
        written = write_checkpoints(store, media, signed, progress)
    else:
        written = write_part(store, media, signed, budget, progress)
    for service, taken in new:
        _cut_log(service, media, taken.manifest.operation)
    return written


def _lead_log(service: Service, media: Media, upto: OperationNumber) -> None:
    """Give the log on the medium what home has up to a checkpoint's operation. Where home has no
    history that long, it is left to be begun anew."""
    path = media.log_path(service.name)
    if not service.record.stateful or not Log.exists(path):
        return
    with Log.open(path, keys=service.log_keys.ring, secret=media.log_secret(service.name)) as log:
        while log.last < upto:
            try:
                found = service.replayed.operations(log.last, min(LEAD_BATCH, upto - log.last))
            except OperationsCut as error:
                logger.info("home has no history after operation %d: %s", log.last, error)
                return
            for operation in found:
                log.append(operation)
            if not found:
                return


def _cut_log(service: Service, media: Media, upto: OperationNumber) -> None:
    """Forget the operations on media that every checkpoint of its generations has executed."""
    path = media.log_path(service.name)
    if not Log.exists(path):
        return
    oldest = oldest_on(media, service.name, upto)
    with Log.open(path, keys=service.log_keys.ring, secret=media.log_secret(service.name)) as log:
        log.cut(oldest if log.last >= upto else upto)
