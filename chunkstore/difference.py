# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which blocks two tables of volumes of one size give differently, and which pages differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from chunkstore._native import _core
from chunkstore.errors import ChunkMissing, StoreUsage
from chunkstore.page_changes import PageChange, PageChanges
from chunkstore.page_ranges import FANOUT
from chunkstore.store import Buffer
from chunkstore.table import TableRoot
from satchel.ids import CHUNK_REF_SIZE, ZERO_REF, ChunkRef

_ZEROS = bytes(CHUNK_REF_SIZE * FANOUT)


class Records(Protocol):
    """What has chunks: a store, a medium, or both."""

    def records(self, refs: Buffer) -> bytes:
        """The pack records of those that are here."""


@dataclass(frozen=True)
class Difference:
    """Between the tables of two volumes of one size. blocks: the numbers of those that the two give
    differently, in order; pages: how the pages of the second come out of those of the first."""

    blocks: tuple[int, ...]
    pages: PageChanges

    def references(self) -> list[ChunkRef]:
        """What the second names otherwise than the first: pages from the top on, then chunks in
        the order of the blocks, none twice."""
        pages = dict.fromkeys(self.pages)
        leaves = (change for change in self.pages.values() if change.level == 0)
        chunks = dict.fromkeys(ref for change in leaves for ref in change.entries.values())
        chunks.pop(ZERO_REF, None)
        return [*pages, *(ref for ref in chunks if ref not in pages)]


def difference(store: Records, old: TableRoot, new: TableRoot) -> Difference:
    """What `new` has otherwise than `old`; only pages that differ are read.

    Raises StoreUsage for volumes of different sizes, ChunkMissing where a page is not there.
    """
    if old.size != new.size:
        raise StoreUsage("cannot compare tables", why=f"{old.size} and {new.size} bytes")
    pairs = [(old.ref, new.ref, 0)] if old.ref != new.ref else []
    changes: PageChanges = {}
    for level in range(_core.root_level(old.blocks), -1, -1):
        pages = _pages(store, {ref for pair in pairs for ref in pair[:2]}, level)
        below = []
        for mine, other, first in pairs:
            entries = list(_entries(pages[mine], pages[other]))
            if other != ZERO_REF:
                changes[other] = PageChange(level, mine, {n: after for n, _, after in entries})
            below += [(before, after, first * FANOUT + n) for n, before, after in entries]
        pairs = below
    blocks = tuple(number for _, _, number in pairs if number < old.blocks)
    return Difference(blocks, changes)


def _pages(store: Records, refs: set[ChunkRef], level: int) -> dict[bytes, bytes]:
    wanted = sorted(refs - {ZERO_REF})
    pages: dict[bytes, bytes] = dict(_core.read_pages(store.records(b"".join(wanted)), level))
    for ref in wanted:
        if ref not in pages:
            raise ChunkMissing(f"page {ref[:20].hex()} of a table is not here", ref=ref)
    return pages | {ZERO_REF: _ZEROS}


def _entries(old: bytes, new: bytes) -> Iterator[tuple[int, ChunkRef, ChunkRef]]:
    """The places of two pages where they differ, with what each has there."""
    for n in range(FANOUT):
        place = slice(n * CHUNK_REF_SIZE, (n + 1) * CHUNK_REF_SIZE)
        before, after = old[place], new[place]
        if before != after:
            yield n, ChunkRef(before or ZERO_REF), ChunkRef(after or ZERO_REF)
