# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What long work on a store reports, and how much is in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from satchel.ids import ChunkRef, chunk_id


@dataclass(frozen=True)
class Level:
    """What of an import's blocks was new and stored at one level of zstd; table pages not counted.

    level: 0 is raw
    bytes: of the records that they are stored in
    """

    level: int
    chunks: int
    bytes: int


@dataclass(frozen=True)
class EvictionReport:
    """What became of chunks that a cache wanted to give up.

    chunks: how many are gone
    pinned: those that a block map points to
    pack_bytes: of all packs, afterwards
    """

    chunks: int
    pinned: tuple[ChunkRef, ...]
    pack_bytes: int


@dataclass(frozen=True)
class BadRecord:
    """A place in a pack where no whole record is.

    pack: number of the pack
    offset: bytes from its beginning
    why: what is wrong there
    """

    pack: int
    offset: int
    why: str


@dataclass(frozen=True)
class VerifyReport:
    """What reading every record of a store showed.

    records, bytes: whole records, both hashes right
    unclaimed: bytes that are no records, at places where the index has nothing; a power cut may
        leave such
    bad: where packs hold something else than what the index has there
    lost: chunks that the index names but that are not whole in any pack at the place it names; of
        settled ones, those that a table of the store names (the others are in `bad`)
    unindexed: whole records of chunks that the index does not have: garbage that prune left, or an
        index to rebuild
    """

    records: int
    bytes: int
    unclaimed: int
    bad: tuple[BadRecord, ...]
    lost: tuple[ChunkRef, ...]
    unindexed: tuple[ChunkRef, ...]

    @property
    def ok(self) -> bool:
        """Whether every chunk of the store is what its name says."""
        return not self.bad and not self.lost

    def to_json(self) -> dict[str, Any]:
        """The same with chunk ids in hexadecimal, and how many records are unindexed."""
        return {
            "ok": self.ok,
            "records": self.records,
            "bytes": self.bytes,
            "unclaimed_bytes": self.unclaimed,
            "bad": [asdict(bad) for bad in self.bad],
            "lost": [chunk_id(ref).hex() for ref in self.lost],
            "unindexed": len(self.unindexed),
        }


@dataclass(frozen=True)
class PruneReport:
    """What a prune did: chunks kept and removed, bytes of packs before and after."""

    kept: int
    removed: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class SettleReport:
    """What settling did.

    chunks: that went into frames
    damaged: chunks that could not be read; the packs that they are in stay, `verify` names them
    pinned: packs that stay because the volume of a map reads from them
    bytes_before, bytes_after: of packs
    """

    chunks: int
    damaged: int
    pinned: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class StoreStats:
    """How much is in a store.

    chunks: distinct chunks, table pages included
    variants: chunks that share their SHA-1 with another chunk here
    packs, pack_bytes: pack files and their bytes
    live_bytes: bytes of the records and frames that the index points to
    settled: chunks that are in frames
    damaged: records that were found bad since the store was opened, and are not served any more
    """

    chunks: int
    variants: int
    packs: int
    pack_bytes: int
    live_bytes: int
    settled: int
    damaged: int
