# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a medium has of checkpoints, and how a generation with newer ones is made.

Home writes what its store has; a client what it had from home during a session. In either case
chunks come first, then the signed manifest, then the commit. Each is durable before the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from chunkstore import Store, TableRoot
from images import Manifest
from media.medium import Media, MediaCheckpoint
from media.parts import Part, PartPlan, part_of, put_part, split_roots
from satchel.errors import IntegrityError, SatchelError, UnsupportedError
from satchel.ids import CHUNK_REF_SIZE, OperationNumber
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

PIECE_CHUNKS = 32
"""What is read first is laid anew where it would lie in pieces smaller than that."""


@dataclass(frozen=True)
class SignedManifest:
    """A manifest with the owner's signature."""

    manifest: Manifest
    signature: bytes


@dataclass(frozen=True)
class WriteReport:
    """What a generation took. generation: the newest one, of before where nothing was missing; 0
    where there is none.

    chunks: that the new checkpoints name. media_bytes: written to the medium's packs. freed_bytes:
    of packs that no generation needs any more. parts: by service, what the medium has of those of
    which it has a part.
    """

    generation: int
    chunks: int
    media_bytes: int
    freed_bytes: int
    parts: Mapping[str, Part] = field(default_factory=dict)


def write_checkpoints(
    store: Store, media: Media, new: Sequence[SignedManifest], progress: Progress = silent
) -> WriteReport:
    """Add what the medium lacks of these checkpoints and commit them with the other services'.

    `store` has all of them. What a resume reads first (`Manifest.first_roots`) is laid first, in
    that order, and again where it would lie in many pieces. Writes nothing where the newest
    generation has them all.
    """
    roots = [root for taken in new for root in taken.manifest.roots()]
    first = store.reachable([root for taken in new for root in taken.manifest.first_roots()])
    refs = first + store.reachable(roots)
    chunks = (len(refs) - len(first)) // CHUNK_REF_SIZE
    ids = {(taken.manifest.service, taken.manifest.id) for taken in new}
    there = {(one.service, one.id) for one in checkpoints_on(media) if not one.part}
    if ids <= there and not media.missing(*roots):
        return WriteReport(media.newest, chunks, 0, 0)
    again = len(first) // CHUNK_REF_SIZE if _scattered(media.has(first)) else 0
    media_bytes = media.add(store, refs, progress, again=again)
    generation, freed = commit_checkpoints(media, new)
    return WriteReport(generation, chunks, media_bytes, freed)


def commit_checkpoints(
    media: Media,
    new: Sequence[SignedManifest],
    needed: Sequence[TableRoot] = (),
    parts: Mapping[str, PartPlan] = MappingProxyType({}),
) -> tuple[int, int]:
    """Make a generation of these checkpoints, whose chunks are on the medium, and of what it has of
    other services: its number, and bytes freed by it.

    needed: what the medium keeps besides. parts: by service, of checkpoints of which it is meant to
    have a part. Raises ChunkMissing, MediaFull, MediaReadOnly, MediaGone; the medium has its old
    generation then.
    """
    services = {taken.manifest.service for taken in new}
    kept = [one for one in checkpoints_on(media) if one.service not in services]
    roots = roots_on(media, kept)
    named = []
    chunks: list[bytes] = []
    for taken in sorted(new, key=lambda one: one.manifest.service):
        manifest = taken.manifest
        media.put_checkpoint(manifest.service, manifest.id, manifest.to_bytes(), taken.signature)
        one = MediaCheckpoint(manifest.service, manifest.id, (), whole=True)
        meant = parts.get(manifest.service)
        partial = meant is not None and bool(media.missing(*manifest.roots()))
        whole, some = split_roots(manifest, partial=partial)
        if meant is not None and partial:
            one = put_part(media, one, manifest, meant)
            chunks.append(meant.chunks or b"")
            some = some if meant.chunks is None else []
        named.append(one)
        roots.whole.extend(whole)
        roots.partial.extend(some)
    # Beside a checkpoint that is there in part, one that is used may be there in part, too.
    (roots.partial if parts else roots.carried).extend(needed)
    return media.commit(
        [*kept, *named],
        roots.whole,
        carried=roots.carried,
        partial=roots.partial,
        chunks=b"".join(chunks),
        keep_packs=roots.unknown,
    )


def oldest_on(media: Media, service: str, newest: OperationNumber) -> OperationNumber:
    """The operation of the oldest checkpoint of a service in the medium's generations, at most
    `newest`: its log has to lead on from that one."""
    oldest = newest
    for checkpoint in media.checkpoints(service):
        try:
            oldest = min(oldest, read_manifest(media, checkpoint).operation)
        except SatchelError as error:
            logger.warning("%s", error)
    return oldest


def checkpoints_on(media: Media) -> list[MediaCheckpoint]:
    """The checkpoints of the newest whole generation; of the newest one where none is whole."""
    generations = media.generations()
    best = next((g for g in generations if g.whole), generations[0] if generations else None)
    return [c for c in media.checkpoints() if best and best.number in c.generations]


def read_manifest(media: Media, checkpoint: MediaCheckpoint) -> Manifest:
    """What the medium has under that name. Raises MediaDamaged, and what a manifest raises."""
    manifest = Manifest.from_bytes(media.signed(checkpoint)[0])
    if (manifest.service, manifest.id) != (checkpoint.service, checkpoint.id):
        raise IntegrityError(
            f"the manifest {checkpoint.id} of {checkpoint.service} on {media.root} is another one",
            why=f"it is {manifest.id} of {manifest.service}",
        )
    return manifest


@dataclass
class Roots:
    """What a generation needs. whole: all of which has to be there; carried: of checkpoints that
    stay; partial: of which there is a part. unknown: whether something else is needed, too."""

    whole: list[TableRoot]
    carried: list[TableRoot]
    partial: list[TableRoot]
    unknown: bool = False


def roots_on(media: Media, kept: list[MediaCheckpoint]) -> Roots:
    """The roots of checkpoints that stay on the medium. One that cannot be read goes from `kept`;
    one of a newer version stays."""
    roots = Roots([], [], [])
    for checkpoint in list(kept):
        try:
            manifest = read_manifest(media, checkpoint)
        except UnsupportedError:
            roots.unknown = True
        except IntegrityError as error:
            logger.warning("%s: it is left out of the next generation", error)
            kept.remove(checkpoint)
            roots.unknown = True
        else:
            whole, some = split_roots(manifest, partial=bool(checkpoint.part))
            roots.carried.extend(whole)
            roots.partial.extend(some)
    return roots


def parts_written(media: Media, services: Collection[str]) -> dict[str, Part]:
    """What the medium has of those services' checkpoints of which it has a part."""
    found = {}
    for checkpoint in checkpoints_on(media):
        if checkpoint.service in services and (part := part_of(media, checkpoint)):
            found[checkpoint.service] = part
    return found


def _scattered(there: list[bool]) -> bool:
    """Whether what is added to what is there would make many pieces."""
    changes = sum(one != other for one, other in pairwise(there))
    return changes * PIECE_CHUNKS > len(there)
