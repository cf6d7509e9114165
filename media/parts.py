# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of which a medium has only a part, because it is too small.

What every resume reads whole is there (`Manifest.first_roots`), and of the volumes what the machine
will most probably touch; the rest comes from home. A file beside the manifest says so, and how much
has to be there. What is missing of a checkpoint without such a file is lost; of one with it, it was
left out. docs/formats/media.md
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

from chunkstore import MediaDamaged, TableRoot
from images import Manifest
from media.medium import Media, MediaCheckpoint
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE

VERSION = 1
_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class Part:
    """What a medium has of a checkpoint. chunks: that are there, pages and content; of: all that
    it has. budget: bytes that the checkpoints of the medium may take there. likely: of the blocks
    that are left out, how many a machine will probably touch; None where nothing is known of
    that."""

    chunks: int
    of: int
    budget: int
    likely: int | None

    @property
    def left_out_bytes(self) -> int:
        """Bytes of content, not compressed, that the medium lacks."""
        return (self.of - self.chunks) * BLOCK_SIZE

    def to_bytes(self) -> bytes:
        """One line of JSON."""
        text = json.dumps({"version": VERSION, **asdict(self)}, sort_keys=True)
        return f"{text}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Part:
        """Of bytes from anybody. Raises MediaDamaged."""
        try:
            value = json.loads(data.decode("ascii"))
            names = {one.name for one in fields(cls)}
            if value.pop("version") != VERSION or set(value) != names:
                raise ValueError("it is of another version")
            part = cls(**value)
            _require_counts(part)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MediaDamaged(
                "cannot read the content of a medium", why=str(error)[:200]
            ) from error
        return part


def _require_counts(part: Part) -> None:
    counts = [part.chunks, part.of, part.budget, 0 if part.likely is None else part.likely]
    if any(type(count) is not int or not 0 <= count <= _MOST for count in counts):
        raise ValueError("it has a malformed count")
    if part.chunks > part.of:
        raise ValueError("it has more than there is")


@dataclass(frozen=True)
class PartPlan:
    """What a medium is meant to have of a new checkpoint. chunks: references, pages with what they
    lead to, none twice; None: what it has of it. of, budget, likely: as of a Part."""

    of: int
    budget: int
    likely: int | None
    chunks: bytes | None = None


def part_of(media: Media, checkpoint: MediaCheckpoint) -> Part | None:
    """What the medium is meant to have of a checkpoint; None: all of it. Raises MediaDamaged,
    MediaGone."""
    return Part.from_bytes(media.read_part(checkpoint.part)) if checkpoint.part else None


def lack_of(media: Media, checkpoint: MediaCheckpoint, manifest: Manifest) -> str:
    """What the medium lacks of what it is meant to have of a checkpoint; empty where nothing is.
    Raises MediaDamaged, MediaGone."""
    part = part_of(media, checkpoint)
    missing = media.missing(*(manifest.first_roots() if part else manifest.roots()))
    lacking = len(missing) // CHUNK_REF_SIZE
    if part:
        lacking = max(lacking, part.chunks - media.pieces(*manifest.roots()).chunks)
    return f"{lacking} chunks are not there or damaged" if lacking > 0 else ""


def found_part(
    media: Media, checkpoint: MediaCheckpoint, manifest: Manifest
) -> MediaCheckpoint | None:
    """The checkpoint with the file that says most of what is there, of those on the medium that are
    true; None where none is. Raises MediaGone."""
    found: list[tuple[int, MediaCheckpoint]] = []
    for path in media.stray_parts(checkpoint):
        named = replace(checkpoint, part=path)
        try:
            part = part_of(media, named)
            if part and not lack_of(media, named, manifest):
                found.append((part.chunks, named))
        except MediaDamaged:
            continue
    return max(found, key=lambda one: one[0])[1] if found else None


def put_part(
    media: Media, checkpoint: MediaCheckpoint, manifest: Manifest, meant: PartPlan
) -> MediaCheckpoint:
    """The checkpoint with a new file that says what the medium has of it. Raises MediaFull,
    MediaReadOnly."""
    if meant.chunks is None:
        count = media.pieces(*manifest.roots()).chunks
    else:
        count = len(meant.chunks) // CHUNK_REF_SIZE
    part = Part(count, max(meant.of, count), meant.budget, meant.likely)
    return replace(checkpoint, part=media.put_part(checkpoint, part.to_bytes()))


def split_roots(manifest: Manifest, *, partial: bool) -> tuple[Sequence[TableRoot], ...]:
    """The roots that have to be on the medium whole, and those of which it has a part."""
    if not partial:
        return manifest.roots(), []
    first = manifest.first_roots()
    return first, manifest.roots()[len(first) :]
