# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunk store: chunks in packs, volumes as tables of chunks.

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
- media engine: reads and writes packs on a removable device (the package `media`)

The engine is chunkstore/core (C++17, no Python in it; its README.md says where to begin), its
binding chunkstore/binding.
"""

from chunkstore.block_map import BlockEntry, BlockMap, BlockState, Foresight
from chunkstore.catalog import Catalog, CatalogEntry
from chunkstore.compression import compress, decompress
from chunkstore.difference import Difference, difference
from chunkstore.dump import DumpedPart, dump
from chunkstore.engines import (
    ENGINES_HERE,
    MadeGeneration,
    MediaEngine,
    MediaEngines,
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
from chunkstore.page_ranges import (
    FANOUT,
    LeafPage,
    PageRange,
    answering_places,
    decode_places,
    encode_places,
    leaves_of,
    pages_missing,
    places_missing,
    records_below,
    references_below,
)
from chunkstore.reports import (
    BadRecord,
    EvictionReport,
    Level,
    PruneReport,
    SettleReport,
    StoreStats,
    VerifyReport,
)
from chunkstore.store import Buffer, Store, name_blocks, split_refs
from chunkstore.table import MAX_VOLUME_SIZE, TableRoot

__all__ = [
    "ENGINES_HERE",
    "FANOUT",
    "MAX_VOLUME_SIZE",
    "PAGE_CHANGES_LIMIT",
    "BadRecord",
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
    "EvictionReport",
    "FileExists",
    "FileMissing",
    "Foresight",
    "LeafPage",
    "Level",
    "MadeGeneration",
    "MediaDamaged",
    "MediaEngine",
    "MediaEngines",
    "MediaExists",
    "MediaFull",
    "MediaGone",
    "MediaNotFound",
    "MediaRead",
    "MediaReadOnly",
    "MediaVersion",
    "NameNotFound",
    "PageChange",
    "PageChanges",
    "PageChangesInvalid",
    "PageRange",
    "PruneReport",
    "Root",
    "SettleReport",
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
    "compress",
    "decode_page_changes",
    "decode_places",
    "decompress",
    "difference",
    "dump",
    "encode_page_changes",
    "encode_places",
    "leaves_of",
    "name_blocks",
    "one_after_other",
    "pages_missing",
    "places_missing",
    "records_below",
    "references_below",
    "split_refs",
    "told_pages",
]
