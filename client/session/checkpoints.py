# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""From which checkpoint a session goes on: one that the owner signed and the journal leads on from.

Media is trusted by nobody: a manifest there that is damaged, not signed by the owner, or of another
service is passed over as long as there is another one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from client.places.home import Home
from client.platform.settings import HOME, OWNER
from client.session.home_endpoint import compare
from client.session.journal import Journal, JournalGap
from images import SIGNATURE_NAMESPACE, Manifest
from media import Media, Part, SignedManifest, part_of
from replay import OperationsDoubtful
from satchel.errors import (
    AccessError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    UnavailableError,
)
from satchel.ids import OperationNumber
from wire import HandoverState, SignerUnknown, verify_signer

logger = logging.getLogger(__name__)

Read = Callable[[], tuple[bytes, bytes]]


class CheckpointRefused(AccessError):
    """The owner did not sign the checkpoint."""


class CheckpointDamaged(IntegrityError):
    """The checkpoint differs from the signed one, or belongs to another service."""


class CheckpointPartial(UnavailableError):
    """The medium has only a part of a checkpoint, and home, which has the rest, is unreachable."""

    def __init__(self, candidate: Candidate) -> None:
        service, part = candidate.manifest.service, candidate.part
        assert part is not None
        probably = "" if part.likely is None else f", of which {part.likely} are probably needed"
        super().__init__(
            f"the medium has only a part of {service}",
            why=f"{part.of - part.chunks} blocks were left out{probably}, and home cannot be "
            "asked: a machine stands still at the first of them",
            fix=f"start where home can be reached, or take the risk: `satchel run {service} "
            "--accept-part`",
        )


@dataclass(frozen=True)
class OwnerOverrides:
    """What the owner lets a session go on with. log: operations on the medium that lack the seal of
    the service's key; older: the id of a checkpoint that is older than what this client has known;
    part: without home, a checkpoint of which the medium has a part
    """

    log: bool = False
    older: str = ""
    part: bool = False


NOTHING = OwnerOverrides()


@dataclass(frozen=True)
class Candidate:
    """A signed checkpoint, where it was found, and whether every pack of it is there. part: what
    the medium has of it; None: all."""

    manifest: Manifest
    place: str
    whole: bool
    signature: bytes = b""
    part: Part | None = None


def candidates(
    service: str, media: Sequence[Media], home: Home | None, allowed_signers: Path
) -> list[Candidate]:
    """Signed checkpoints that can be had: those of all media, newest first, then home's. One of
    which the media lacks a part comes after those that it has whole; where home is not reached,
    also one of which it was to have a part.

    Raises NotFoundError when there is none, or the first fault when there was one.
    """
    found: list[Candidate] = []
    faults: list[SatchelError] = []
    for place, whole, read, told in _places(service, media, home, faults):
        try:
            data, signature = read()
            manifest = verified(service, data, signature, place, allowed_signers)
            found.append(Candidate(manifest, place, whole, signature, told()))
        except SatchelError as error:
            logger.warning("%s", error)
            faults.append(error)
    if found:

        def rank(c: Candidate) -> tuple[bool, bool, bool, int, int]:
            short, fresh = home is None and c.part is not None, c.manifest.freshness
            age = -c.manifest.operation, -fresh.epoch if fresh else 0
            return c.place == HOME, not c.whole, short, *age

        return sorted(found, key=rank)
    if faults:
        raise faults[0]
    looked = [str(one.root) for one in media] + (["home"] if home else [])
    raise NotFoundError(
        f"no checkpoint of {service} at {' or '.join(looked) or 'any place'}",
        why="" if home else "home was not asked",
        fix=f"`satchel-home checkpoint {service} --media PATH` at home",
    )


def verified(
    service: str, manifest: bytes, signature: bytes, place: str, allowed_signers: Path
) -> Manifest:
    """The manifest, if the owner signed it and it is of that service."""
    what = f"the checkpoint of {service} from {place} is of no use"
    fix = f"`satchel-home checkpoint {service} --media PATH` at home makes a good one"
    try:
        verify_signer(
            manifest,
            signature,
            allowed_signers=allowed_signers,
            signer=OWNER,
            namespace=SIGNATURE_NAMESPACE,
        )
        decoded = Manifest.from_bytes(manifest)
    except SignerUnknown as error:
        raise CheckpointRefused(what, why=f"{error.what}: {error.why}", fix=error.fix) from error
    except IntegrityError as error:
        raise CheckpointDamaged(what, why=str(error), fix=fix) from error
    if decoded.service != service:
        raise CheckpointDamaged(what, why=f"it is of service {decoded.service}", fix=fix)
    return decoded


def newest_at_home(home: Home, allowed_signers: Path) -> SignedManifest:
    """Home's newest checkpoint. Raises as `verified`, and what home raises."""
    manifest, signature = home.checkpoint()
    return SignedManifest(
        verified(home.service, manifest, signature, HOME, allowed_signers), signature
    )


def handed_over(checkpoint: Manifest, handed: HandoverState, journal: Journal | None) -> Manifest:
    """The checkpoint as a surrogate says that its replica has become, which nobody signed: home's
    answers tell whether it is so. Raises CheckpointDamaged for what cannot be."""
    what = f"what a surrogate hands over of {checkpoint.service} is of no use"
    fields = {"operation", "device_state", "volumes"}
    new = {key: value for key, value in handed.to_json().items() if key in fields}
    try:
        manifest = Manifest.from_json(checkpoint.to_json() | new)
    except SatchelError as error:
        raise CheckpointDamaged(what, why=str(error)) from error
    sizes = [{name: root.size for name, root in m.volumes.items()} for m in (checkpoint, manifest)]
    if sizes[0] != sizes[1]:
        raise CheckpointDamaged(what, why="its volumes have other sizes")
    if journal and not journal.base <= manifest.operation <= journal.last:
        raise CheckpointDamaged(what, why=f"it is at operation {manifest.operation}")
    return manifest


def require_all_of_it(
    found: list[Candidate], chosen: Manifest, home: Home | None, *, accepted: bool
) -> None:
    """Without home: of the checkpoint to go on from the medium is to have all. accepted: the person
    goes on with a part of it. Raises CheckpointPartial."""
    part = next((c for c in found if c.part and c.manifest.id == chosen.id), None)
    if part is not None and home is None and not accepted:
        raise CheckpointPartial(part)


def choose(found: list[Candidate], journal: Journal, home: Home | None) -> Manifest:
    """The first checkpoint from which the journal, with what home has, leads to now.

    The journal has everything since then on return: what home has logged, and what an earlier run
    had to log beside the medium. Raises ConflictError when home's log and the journal have parted,
    JournalGap when operations are missing in between.
    """
    merged = journal.merge()
    logged = home.status().last_logged if home else OperationNumber(0)
    if home:
        compare(home, journal, min(logged, journal.last))
    for candidate in found:
        if _lead_on(journal, candidate.manifest.operation, home, logged):
            if not merged and not journal.merge():
                raise JournalGap(
                    f"operations after {journal.last} are missing",
                    why="some were logged on this device while the medium had failed, but not "
                    "those before them",
                    fix="start where home can be reached: home has them",
                )
            return candidate.manifest
    raise NotFoundError(
        "no checkpoint goes together with the operation log",
        why=f"the log has operations {journal.base + 1} to {journal.last}, the checkpoints are "
        f"at {', '.join(str(c.manifest.operation) for c in found)}",
        fix="refresh the medium: `satchel-home checkpoint SERVICE --media PATH`",
    )


def require_sealed(journal: Journal, after: OperationNumber, home: Home | None) -> None:
    """Raises OperationsDoubtful unless each operation behind `after` has the seal of the service's
    key or is home's as well. Whoever had the medium in hand may have written the others.

    Doubtful operations that the checkpoint has executed leave the journal, unless home has them:
    the seals of later operations would vouch for them.
    """
    doubtful = journal.doubtful(OperationNumber(0))
    if not doubtful:
        return
    if home:
        try:
            for operation in home.operations(OperationNumber(min(doubtful) - 1)):
                if operation == journal.get(operation.number):
                    doubtful.discard(operation.number)
        except NotFoundError as error:
            logger.info("home has no history of operation %d: %s", min(doubtful), error)
    later = {number for number in doubtful if number > after}
    if later and journal.place:
        fix = "`satchel run --accept-log` if you wrote them; at home, `satchel-home media sync"
        raise OperationsDoubtful(later, journal.place, fix=f"{fix} --doubtful drop` removes them")
    if doubtful:
        journal.cut(max(doubtful))
    elif home:
        journal.vouch()


def _lead_on(
    journal: Journal, operation: OperationNumber, home: Home | None, logged: OperationNumber
) -> bool:
    """Give the journal everything since `operation`; False where that cannot be had.

    A journal that begins after a checkpoint or ends before it is begun anew if nothing is lost by
    that: it is empty, or home has all of it.
    """
    if not journal.base <= operation <= journal.last:
        empty = journal.base == journal.last
        if not (home and logged >= journal.last) and not (empty and operation >= journal.base):
            return False
        journal.restart(operation)
    if home:
        try:
            journal.extend(home.operations(journal.last))
        except NotFoundError as error:
            logger.info("home has no history after operation %d: %s", journal.last, error)
            return False
    return True


def _places(
    service: str, media: Sequence[Media], home: Home | None, faults: list[SatchelError]
) -> Iterator[tuple[str, bool, Read, Callable[[], Part | None]]]:
    """faults: gets those of media that cannot be read at all"""
    for one in media:
        try:
            checkpoints = one.checkpoints(service)
        except SatchelError as error:
            faults.append(error)
            continue
        for checkpoint in checkpoints:
            read = functools.partial(one.signed, checkpoint)
            told = functools.partial(part_of, one, checkpoint)
            yield str(one.root), checkpoint.whole, read, told
    if home is not None:
        yield HOME, True, home.checkpoint, lambda: None
