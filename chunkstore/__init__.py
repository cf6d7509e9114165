# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunk store: chunks in packs, volumes as tables of chunks, portable media.

Words of this package:

- block: 4096 bytes at a fixed offset of a volume
- chunk: the content of a block; its reference is SHA-1 (the name) and SHA-256 (the truth)
- record: one chunk as it stands in a pack and crosses the network
- pack: an append-only file of records
- index: chunk reference to place in a pack; can be rebuilt from the packs
- table: the tree of references that describes a volume's content; its pages are chunks too
- root: the reference of a table's top page and the volume's size; equal roots, equal content
- place: blocks named by where they are below a table page, for who lacks the page
- block map: where each block of an attached volume is, shared with the nbdkit plugin
- catalog: names given to roots
- media: a removable device with packs and checkpoints; trusted by nobody

The engine is chunkstore/core (C++17, no Python in it; its README.md says where to begin), its
binding chunkstore/binding.
"""

from chunkstore.below import (
    FANOUT,
    Below,
    Leaf,
    answering_places,
    decode_places,
    encode_places,
    leaves_of,
    pages_missing,
    places_missing,
    records_below,
    references_below,
)
from chunkstore.block_map import BlockEntry, BlockMap, BlockState, Foresight
from chunkstore.catalog import Catalog, CatalogEntry
from chunkstore.compression import compress, decompress
from chunkstore.difference import Difference, difference
from chunkstore.dump import DumpedPart, dump
from chunkstore.engines import (
    ENGINES_HERE,
    MadeGeneration,
    MediaEngine,
    MediaRead,
    Root,
    Told,
)
from chunkstore.errors import (
    ChunkInvalid,
    ChunkMissing,
    FileExists,
    FileMissing,
    MediaDamaged,
    MediaExists,
    MediaFull,
    MediaGone,
    MediaNotFound,
    MediaReadOnly,
    MediaVersion,
    NameNotFound,
    StoreDamaged,
    StoreDenied,
    StoreExists,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreNotFound,
    StoreState,
    StoreUsage,
    StoreVersion,
)
from chunkstore.media import Generation, Layout, Media, MediaCheckpoint, MediaReport, media_uuid
from chunkstore.mounts import (
    MediaBusy,
    MediaInClear,
    await_media,
    find_media,
    mounted_media,
    release_media,
    require_sealed,
)
from chunkstore.page_changes import (
    PAGE_CHANGES_LIMIT,
    PageChange,
    PageChanges,
    PageChangesInvalid,
    decode_page_changes,
    encode_page_changes,
    one_after_other,
    told_pages,
)
from chunkstore.reports import (
    BadRecord,
    Evicted,
    Level,
    PruneReport,
    SettleReport,
    StoreStats,
    VerifyReport,
)
from chunkstore.seal import (
    MEDIA_KEY_NAMESPACE,
    MediaRevoked,
    MediaSealed,
    NewSeal,
    Seal,
    SealedBefore,
    SealKeys,
    Sign,
    new_seal,
)
from chunkstore.store import Buffer, Store, name_blocks, split_refs
from chunkstore.table import MAX_VOLUME_SIZE, TableRoot

__all__ = [
    "ENGINES_HERE",
    "FANOUT",
    "MAX_VOLUME_SIZE",
    "MEDIA_KEY_NAMESPACE",
    "PAGE_CHANGES_LIMIT",
    "BadRecord",
    "Below",
    "BlockEntry",
    "BlockMap",
    "BlockState",
    "Buffer",
    "Catalog",
    "CatalogEntry",
    "ChunkInvalid",
    "ChunkMissing",
    "Difference",
    "DumpedPart",
    "Evicted",
    "FileExists",
    "FileMissing",
    "Foresight",
    "Generation",
    "Layout",
    "Leaf",
    "Level",
    "MadeGeneration",
    "Media",
    "MediaBusy",
    "MediaCheckpoint",
    "MediaDamaged",
    "MediaEngine",
    "MediaExists",
    "MediaFull",
    "MediaGone",
    "MediaInClear",
    "MediaNotFound",
    "MediaRead",
    "MediaReadOnly",
    "MediaReport",
    "MediaRevoked",
    "MediaSealed",
    "MediaVersion",
    "NameNotFound",
    "NewSeal",
    "PageChange",
    "PageChanges",
    "PageChangesInvalid",
    "PruneReport",
    "Root",
    "Seal",
    "SealKeys",
    "SealedBefore",
    "SettleReport",
    "Sign",
    "Store",
    "StoreDamaged",
    "StoreDenied",
    "StoreExists",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "StoreNotFound",
    "StoreState",
    "StoreStats",
    "StoreUsage",
    "StoreVersion",
    "TableRoot",
    "Told",
    "VerifyReport",
    "answering_places",
    "await_media",
    "compress",
    "decode_page_changes",
    "decode_places",
    "decompress",
    "difference",
    "dump",
    "encode_page_changes",
    "encode_places",
    "find_media",
    "leaves_of",
    "media_uuid",
    "mounted_media",
    "name_blocks",
    "new_seal",
    "one_after_other",
    "pages_missing",
    "places_missing",
    "records_below",
    "references_below",
    "release_media",
    "require_sealed",
    "split_refs",
    "told_pages",
]
