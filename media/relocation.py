# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoints on media, and where on it lies what a resume reads first.

A resume streams some blobs whole before anything else (`Manifest.first_roots`). Where a medium
seeks slowly, that they lie in one piece and in that order is worth more than all else. They are
laid so when they are new; chunks that a checkpoint shares with those before it lie where they were.
To relocate writes them once more, as records of new packs, and makes a generation of the same
checkpoints: the one before stays, so whoever pulls the medium out has one of the two.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from chunkstore import Store, TableRoot
from images import Manifest
from media.generations import checkpoints_on, read_manifest, roots_on
from media.medium import Media, MediaCheckpoint
from satchel.errors import IntegrityError, UnsupportedError
from satchel.ids import CHUNK_REF_SIZE
from satchel.progress import Progress, silent

logger = logging.getLogger(__name__)

AT_ONCE = 512
"""Chunks that are read from media at once."""


@dataclass(frozen=True)
class RelocationReport:
    """In how many pieces lay what resumes read first, by service, and in how many it lies now."""

    before: dict[str, int]
    after: dict[str, int]
    generation: int
    media_bytes: int
    freed_bytes: int


def relocate(media: Media, store: Store, progress: Progress = silent) -> RelocationReport:
    """Lay in one piece what a resume of each checkpoint of the newest generation reads first; of
    those of which `store` has that.

    A new generation of the same checkpoints comes of it. Raises IntegrityError where a manifest is
    damaged, MediaFull, MediaReadOnly, MediaGone; after an error the medium has its old generation
    or the new one.
    """
    kept = checkpoints_on(media)
    readable, unknown = _manifests(media, kept)
    roots = roots_on(media, list(kept))
    found = [one for one in readable if not store.missing(*one.first_roots())]
    before = _pieces(media, found)
    refs = store.reachable([root for manifest in found for root in manifest.first_roots()])
    media_bytes = media.add(store, refs, progress, again=len(refs) // CHUNK_REF_SIZE)
    generation, freed = media.commit(
        kept, [], carried=roots.carried, partial=roots.partial, keep_packs=unknown
    )
    return RelocationReport(before, _pieces(media, found), generation, media_bytes, freed)


@contextmanager
def read_first(media: Media, folder: Path) -> Iterator[Store]:
    """Within the block a store below `folder` with what resumes from the newest generation read
    first, as far as the medium has it whole. It is gone afterwards."""
    with (
        TemporaryDirectory(prefix="relocate-", dir=folder) as name,
        Store.create(Path(name) / "store") as store,
    ):
        for manifest in _manifests(media, checkpoints_on(media))[0]:
            _copy(media, store, manifest.first_roots())
        yield store


def _manifests(media: Media, checkpoints: Sequence[MediaCheckpoint]) -> tuple[list[Manifest], bool]:
    """Of those of this version, and whether there are others."""
    found = []
    for checkpoint in checkpoints:
        with suppress(UnsupportedError):
            found.append(read_manifest(media, checkpoint))
    return found, len(found) < len(checkpoints)


def _pieces(media: Media, manifests: Sequence[Manifest]) -> dict[str, int]:
    return {one.service: media.pieces(*one.first_roots()).pieces for one in manifests}


def _copy(media: Media, store: Store, roots: Sequence[TableRoot]) -> None:
    """What lies below these roots, pages before what they name; ends where nothing more is had."""
    left = -1
    while (missing := store.missing(*roots)) and len(missing) != left:
        left = len(missing)
        step = AT_ONCE * CHUNK_REF_SIZE
        for start in range(0, len(missing), step):
            try:
                store.admit(media.records(missing[start : start + step]))
            except IntegrityError as error:
                logger.warning("%s", error)
