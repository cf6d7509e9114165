# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks named by their place below a table page, for whoever has not got the page.

A reader that lacks a page knows neither what is below it nor how to ask for that by reference, so
pages would cost a round trip each before the chunk itself. A source that has them can go down at
its end. Who may read a page may read what it names: a place gives away nothing that references
do not.

    place := page reference (52)  level u8  zero u8  count u16  first u64

docs/formats/chunk-batch.md; little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from chunkstore._native import _core
from chunkstore.errors import ChunkMissing, StoreUsage
from chunkstore.store import Store, split_refs
from chunkstore.table import TableRoot
from satchel.errors import IntegrityError
from satchel.ids import CHUNK_REF_SIZE, ZERO_REF, ChunkRef

FANOUT = _core.PAGE_FANOUT

PLACE_SIZE = 64
PLACE_BLOCKS = 256
"""Blocks in one place at most."""

LEVELS = 8
"""Levels that a table of the largest volume has, and more."""

PIECE_PAGES = 256
"""Pages that are read at once."""

_PLACE = struct.Struct("<52sBBHQ")
assert _PLACE.size == PLACE_SIZE

Provider = Callable[[bytes], bytes]
"""From references to the pack records of those that are there."""


@dataclass(frozen=True)
class PageRange:
    """`count` blocks from the `first` on of those below a page of `level`, whose first block is 0.

    A page of level 0 has 64 blocks, each level above 64 times as many.
    """

    page: ChunkRef
    level: int
    first: int
    count: int

    @property
    def most_chunks(self) -> int:
        """Chunks that are there at most: the blocks, and the pages above them."""
        spans = (int(FANOUT ** (level + 1)) for level in range(self.level + 1))
        return self.count + sum(self.count // span + 2 for span in spans)

    def encode(self) -> bytes:
        return _PLACE.pack(self.page, self.level, 0, self.count, self.first)


@dataclass(frozen=True)
class LeafPage:
    """A page of level 0. path: the pages from the root down to it, itself the last; refs: of its
    blocks, 52 bytes each, of the last ones perhaps none."""

    path: tuple[ChunkRef, ...]
    refs: bytes

    def ref(self, block: int) -> ChunkRef:
        """Of a block by its number in the volume; ZERO_REF for a zero one."""
        at = block % FANOUT * CHUNK_REF_SIZE
        return ChunkRef(self.refs[at : at + CHUNK_REF_SIZE] or ZERO_REF)


def encode_places(places: Iterable[PageRange]) -> bytes:
    return b"".join(place.encode() for place in places)


def decode_places(data: bytes) -> list[PageRange]:
    """Places from anybody. Raises StoreUsage."""
    if len(data) % PLACE_SIZE:
        raise StoreUsage("places are cut short", why=f"{len(data)} bytes")
    places = []
    for page, level, zero, count, first in _PLACE.iter_unpack(data):
        fits = level < LEVELS and first + count <= FANOUT ** (level + 1)
        if zero or not fits or not 0 < count <= PLACE_BLOCKS:
            raise StoreUsage("a place that is not", why=f"{count} blocks from {first} on")
        places.append(PageRange(ChunkRef(page), level, first, count))
    return places


def records_below(provider: Provider, places: Sequence[PageRange]) -> bytes:
    """The records of the pages and chunks at these places that a provider has: level by level
    from the top, none twice. What it gives for a page that is no page is left out."""
    answer: list[bytes] = []
    chunks: dict[bytes, None] = {}
    top = max((place.level for place in places), default=-1)
    wanted: list[PageRange] = []
    for level in range(top, -1, -1):
        wanted += [place for place in places if place.level == level]
        refs = dict.fromkeys(place.page for place in wanted)
        records = provider(b"".join(refs)) if refs else b""
        answer.append(records)
        pages = _pages(records, level)
        here, wanted = wanted, []
        for place in here:
            for ref, first, count in _entries(place, pages.get(place.page, b"")):
                if level:
                    wanted.append(PageRange(ref, level - 1, first, count))
                else:
                    chunks[ref] = None
    if chunks:
        answer.append(provider(b"".join(chunks)))
    return b"".join(answer)


def answering_places(provider: Provider) -> Provider:
    """From encoded places, of anybody, to the records there. Raises StoreUsage as
    `decode_places` does, and what the provider raises."""
    return lambda places: records_below(provider, decode_places(places))


def places_missing(
    store: Store, root: TableRoot, first: int, count: int, most: int = PLACE_BLOCKS
) -> list[PageRange]:
    """Where to ask for the blocks [first, first + count) of a volume as far as pages are missing
    in the store; empty where none is. At most `most` blocks for each page. A page
    that is none counts as missing."""
    level = _core.root_level(root.blocks)
    end = min(first + count, root.blocks)
    if root.ref == ZERO_REF or first >= end:
        return []
    wanted = [PageRange(root.ref, level, first, end - first)]
    missing: list[PageRange] = []
    for at in range(level, -1, -1):
        pages = _pages(store.records(b"".join(place.page for place in wanted)), at)
        missing += [
            PageRange(place.page, at, place.first, min(place.count, most, PLACE_BLOCKS))
            for place in wanted
            if place.page not in pages
        ]
        if not at:
            break
        wanted = [
            PageRange(ref, at - 1, begin, size)
            for place in wanted
            if place.page in pages
            for ref, begin, size in _entries(place, pages[place.page])
        ]
    return missing


def pages_missing(store: Store, root: TableRoot, blocks: Iterable[int]) -> list[ChunkRef]:
    """The topmost pages above these blocks of a volume that are not in the store. A level is read
    at once, each page of it once: there may be a thousand above the blocks of a machine."""
    missing: list[ChunkRef] = []
    leaves_wanted = {block // FANOUT for block in blocks if block < root.blocks}
    if root.ref == ZERO_REF or not leaves_wanted:
        return missing
    wanted = {root.ref: leaves_wanted}
    for level in range(_core.root_level(root.blocks), -1, -1):
        pages = _pages(store.records(b"".join(wanted)), level)
        missing += [page for page in wanted if page not in pages]
        if not level:
            break
        span = FANOUT ** (level - 1)  # leaves below each reference of a page
        below: dict[ChunkRef, set[int]] = {}
        for page, leaves in wanted.items():
            refs = pages.get(page, b"")
            for leaf in leaves if refs else ():
                at = leaf // span * CHUNK_REF_SIZE
                below.setdefault(ChunkRef(refs[at : at + CHUNK_REF_SIZE]), set()).add(leaf % span)
        below.pop(ZERO_REF, None)
        wanted = below
    return missing


def leaves_of(
    store: Store, root: TableRoot, wanted: Iterable[int] | None = None
) -> dict[int, LeafPage]:
    """The leaves of a table that are not all zero, by number: leaf n is above the blocks from
    FANOUT * n on. wanted: of these only. Raises ChunkMissing where a page is not in the store."""
    if root.ref == ZERO_REF or not root.size:
        return {}
    top = _core.root_level(root.blocks)
    leaves = None if wanted is None else sorted(set(wanted))
    at: dict[int, tuple[ChunkRef, ...]] = {0: (root.ref,)}
    for level in range(top, -1, -1):
        pages = _all_pages(store, [path[-1] for path in at.values()], level)
        if not level:
            return {n: LeafPage(path, pages[path[-1]]) for n, path in at.items()}
        span = FANOUT ** (level - 1)
        needed = None if leaves is None else {leaf // span for leaf in leaves}
        at = {
            number * FANOUT + n: (*path, ref)
            for number, path in at.items()
            for n, ref in enumerate(split_refs(pages[path[-1]]))
            if ref != ZERO_REF and (needed is None or number * FANOUT + n in needed)
        }
    return {}


def _all_pages(store: Store, refs: Iterable[ChunkRef], level: int) -> dict[bytes, bytes]:
    wanted = [*dict.fromkeys(refs)]
    found: dict[bytes, bytes] = {}
    for start in range(0, len(wanted), PIECE_PAGES):
        found |= _pages(store.records(b"".join(wanted[start : start + PIECE_PAGES])), level)
    for ref in wanted:
        if ref not in found:
            raise ChunkMissing(f"page {ref[:20].hex()} of a table is not here", ref=ref)
    return found


def references_below(store: Store, roots: Iterable[TableRoot]) -> Iterator[ChunkRef]:
    """The references of pages and chunks below the roots, the roots included, as far as the pages
    are in the store. A level is read in pieces, each page of it once."""
    wanted: dict[int, dict[ChunkRef, None]] = {}
    for root in roots:
        if root.ref != ZERO_REF and root.size:
            wanted.setdefault(_core.root_level(root.blocks), {})[root.ref] = None
            yield root.ref
    for level in range(max(wanted, default=-1), -1, -1):
        pages = [*wanted.pop(level, {})]
        below = wanted.setdefault(level - 1, {})
        for start in range(0, len(pages), PIECE_PAGES):
            records = store.records(b"".join(pages[start : start + PIECE_PAGES]))
            pages_here = _pages(records, level).values()
            found = dict.fromkeys(ref for refs in pages_here for ref in split_refs(refs))
            found.pop(ZERO_REF, None)
            new = [ref for ref in found if ref not in below] if level else [*found]
            if level:
                below.update(dict.fromkeys(new))
            yield from new


def _pages(records: bytes, level: int) -> dict[bytes, bytes]:
    try:
        return dict(_core.read_pages(records, level))
    except IntegrityError:
        return {}


def _entries(place: PageRange, refs: bytes) -> Iterator[tuple[ChunkRef, int, int]]:
    """Of a page those references that lead to the place: each with the blocks below it."""
    span = FANOUT**place.level
    end = place.first + place.count
    for index in range(place.first // span, -(-end // span)):
        ref = ChunkRef(refs[index * CHUNK_REF_SIZE : (index + 1) * CHUNK_REF_SIZE])
        if ref and ref != ZERO_REF:
            begin = max(place.first, index * span)
            yield ref, begin - index * span, min(end, (index + 1) * span) - begin
