# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints onto a medium that is too small for all of them.

What machines will most probably touch goes there, of all services in turn, as far as a budget
reaches; the rest comes from home. What every resume reads whole has to fit. How much a chunk takes
is known only when it is there, so the budget is used up in steps, each of as many chunks as fit
for certain. After an error the medium has its old generation, and what was copied.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from chunkstore import MediaDamaged, MediaFull, Store, split_refs
from homeserver.media.touch_forecast import TouchForecast
from media import (
    Media,
    MediaCheckpoint,
    Part,
    PartPlan,
    SignedManifest,
    WriteReport,
    checkpoints_on,
    commit_checkpoints,
    lack_of,
    part_of,
    parts_written,
    roots_on,
)
from satchel.errors import UsageError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ZERO_REF, ChunkRef
from satchel.progress import Progress, silent

INDEX_BYTES = 60
MOST_BYTES = BLOCK_SIZE + 64 + INDEX_BYTES
"""That a chunk takes on a medium at most: its record, and its entry in an index."""

LEAST_CHUNKS = 64
"""With room for fewer, nothing more is copied."""

AT_ONCE = 1024
"""Chunks that are read from the store at once."""

LINK_SECONDS = 0.04
LINK_RATE = 2.5e6
"""The way to home that costs are told for: a round trip, and bytes a second."""

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))? ?([kMGT]?)B?")


@dataclass(frozen=True)
class MissingPart:
    """What a medium lacks of a service's checkpoint. chunks, bytes: that come from home if they are
    touched, not compressed. likely: blocks that a life will probably touch of them; seconds: that
    waiting for these costs, one after the other over LINK_SECONDS and LINK_RATE; None where no
    profile says it."""

    chunks: int
    bytes: int
    likely: int | None
    seconds: float | None

    @classmethod
    def of(cls, part: Part) -> MissingPart:
        likely = part.likely
        each = LINK_SECONDS + MOST_BYTES / LINK_RATE
        seconds = None if likely is None else round(likely * each, 1)
        return cls(part.of - part.chunks, part.left_out_bytes, likely, seconds)


def parse_size(text: str) -> int:
    """Bytes of `2GB`, `1.5 GB`, `300M` or `4096`. Raises UsageError."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size", why="such as 2GB, 1.5GB or 300MB")
    whole, part, unit = found.groups(default="")
    return int(float(f"{whole}.{part or 0}") * _UNITS[unit])


def write_part(
    store: Store,
    media: Media,
    new: Sequence[SignedManifest],
    budget: int,
    progress: Progress = silent,
) -> WriteReport:
    """Make a generation with what most matters of these checkpoints. Its chunks, with those of the
    services that were there before, take at most `budget` bytes, about.

    Raises MediaFull, before anything is written, where that is too little for what every resume
    reads whole; MediaReadOnly, MediaGone, ChunkMissing.
    """
    if _has(media, new, budget):
        parts_there = parts_written(media, {taken.manifest.service for taken in new})
        named = sum(part.of for part in parts_there.values())
        return WriteReport(media.newest, named, 0, 0, parts_there)
    likely = [TouchForecast.of(store, taken.manifest) for taken in new]
    roots = [root for taken in new for root in taken.manifest.first_roots()]
    first = [*dict.fromkeys(split_refs(store.reachable(roots)))]
    room = budget - _others(media, {taken.manifest.service for taken in new})
    _require_room(store, media, first, room)
    order = [*dict.fromkeys(itertools.chain(first, _in_turn(store, likely)))]
    filled = _BudgetCopier(store, media, order, room, progress)
    filled.fill(len(first))
    kept = set(order[: filled.count])
    parts = {}
    for one in likely:
        of = len(store.reachable(one.manifest.roots())) // CHUNK_REF_SIZE
        chunks = b"".join(one.reached(store, kept))
        parts[one.manifest.service] = PartPlan(of, budget, one.touched_of(store, kept), chunks)
    generation, freed = commit_checkpoints(media, new, parts=parts)
    named = sum(meant.of for meant in parts.values())
    return WriteReport(generation, named, filled.written, freed, parts_written(media, set(parts)))


def budget_on(media: Media) -> int | None:
    """That of a medium which has a part of its checkpoints; None of one that has all of them."""
    parts = (_part(media, checkpoint) for checkpoint in checkpoints_on(media))
    return next((part.budget for part in parts if part), None)


def _part(media: Media, checkpoint: MediaCheckpoint) -> Part | None:
    """None also where what the medium says of it is damaged."""
    with suppress(MediaDamaged):
        return part_of(media, checkpoint)
    return None


def _others(media: Media, services: Collection[str]) -> int:
    """Bytes that the chunks of other services take, about."""
    kept = [one for one in checkpoints_on(media) if one.service not in services]
    roots = roots_on(media, kept)
    there = media.pieces(*roots.carried, *roots.partial).chunks if kept else 0
    return int(there * _bytes_each(media))


def _has(media: Media, new: Sequence[SignedManifest], budget: int) -> bool:
    """Whether the medium has what such a budget brings already."""
    there = {(one.service, one.id): one for one in checkpoints_on(media)}
    for taken in new:
        checkpoint = there.get((taken.manifest.service, taken.manifest.id))
        part = _part(media, checkpoint) if checkpoint else None
        if checkpoint is None or part is None or part.budget != budget:
            return False
        if lack_of(media, checkpoint, taken.manifest):
            return False
    return bool(new)


def _in_turn(store: Store, likely: Sequence[TouchForecast]) -> Iterator[ChunkRef]:
    """Class by class, within each by service."""
    for classes in zip(*(one.classes(store) for one in likely), strict=True):
        for references in classes:
            yield from (ref for ref in references if ref != ZERO_REF)


def _require_room(store: Store, media: Media, first: Sequence[ChunkRef], budget: int) -> None:
    need = 0
    for start in range(0, len(first), AT_ONCE):
        piece = first[start : start + AT_ONCE]
        need += len(store.records(b"".join(piece))) + INDEX_BYTES * len(piece)
    if need > budget:
        raise MediaFull(
            f"cannot bring a part of these checkpoints onto the medium at {media.root}",
            why=f"what every resume reads takes {need} bytes, and the budget has {budget}",
            fix="name fewer services with --service, or a larger --budget",
        )


class _BudgetCopier:
    """Copies what of `order` fits into a budget. count: how many chunks of it, from the first on,
    are on the medium then; written: bytes that were copied."""

    def __init__(
        self, store: Store, media: Media, order: list[ChunkRef], budget: int, progress: Progress
    ) -> None:
        self._store = store
        self._media = media
        self._order = order
        self._left = budget
        self._progress = progress
        self.count = 0
        self.written = 0

    def fill(self, first: int) -> None:
        """first: so many go there whatever they take. Raises what `Media.add` raises, but for
        MediaFull behind those."""
        there = self._media.has(b"".join(self._order))
        each = _bytes_each(self._media)
        step, most = first, len(self._order)
        while step and self.count < len(self._order):
            end = self.count + step
            try:
                written = self._copy(end)
            except MediaFull:
                if not self.count:
                    raise
                most = step // 2
            else:
                self.written += written
                self._left -= written + int(each * sum(there[self.count : end]))
                self.count = end
            left = len(self._order) - self.count
            step = min(max(self._left, 0) // MOST_BYTES, left, most)
            step = step if step >= min(LEAST_CHUNKS, left) else 0

    def _copy(self, end: int) -> int:
        """All up to `end`: what was copied before is not to make room for the rest."""
        before, most = self.count, len(self._order) * BLOCK_SIZE

        def told(done: int, total: int) -> None:
            copied = (end - before) * done // max(total, 1)
            self._progress((before + copied) * BLOCK_SIZE, most)

        return self._media.add(self._store, b"".join(self._order[:end]), told)


def _bytes_each(media: Media) -> float:
    """That chunks take which are there, on average."""
    files = (media.root / "satchel" / "packs").iterdir()
    return sum(file.stat().st_size for file in files) / max(1, media.chunks)
