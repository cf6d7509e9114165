# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which blocks two tables of volumes of one size give differently."""

from __future__ import annotations

from collections.abc import Iterator

from chunkstore._native import _core
from chunkstore.below import FANOUT
from chunkstore.errors import ChunkMissing, StoreUsage
from chunkstore.store import Store
from chunkstore.table import TableRoot
from satchel.ids import CHUNK_REF_SIZE, ZERO_REF, ChunkRef

_ZEROS = bytes(CHUNK_REF_SIZE * FANOUT)


def differing_blocks(store: Store, old: TableRoot, new: TableRoot) -> list[int]:
    """The numbers of those blocks, in order; only pages that differ are read.

    Raises StoreUsage for volumes of different sizes, ChunkMissing where a page is not in the store.
    """
    if old.size != new.size:
        raise StoreUsage("cannot compare tables", why=f"{old.size} and {new.size} bytes")
    pairs = [(old.ref, new.ref, 0)] if old.ref != new.ref else []
    for level in range(_core.root_level(old.blocks), -1, -1):
        pages = _pages(store, {ref for pair in pairs for ref in pair[:2]}, level)
        pairs = [
            (before, after, first * FANOUT + n)
            for mine, other, first in pairs
            for n, before, after in _entries(pages[mine], pages[other])
        ]
    return [number for _, _, number in pairs if number < old.blocks]


def _pages(store: Store, refs: set[ChunkRef], level: int) -> dict[bytes, bytes]:
    wanted = sorted(refs - {ZERO_REF})
    pages: dict[bytes, bytes] = dict(_core.read_pages(store.records(b"".join(wanted)), level))
    for ref in wanted:
        if ref not in pages:
            what = f"page {ref[:20].hex()} is not in the store at {store.path}"
            raise ChunkMissing(what, ref=ref)
    return pages | {ZERO_REF: _ZEROS}


def _entries(old: bytes, new: bytes) -> Iterator[tuple[int, ChunkRef, ChunkRef]]:
    """The places of two pages where they differ, with what each has there."""
    for n in range(FANOUT):
        place = slice(n * CHUNK_REF_SIZE, (n + 1) * CHUNK_REF_SIZE)
        before, after = old[place], new[place]
        if before != after:
            yield n, ChunkRef(before or ZERO_REF), ChunkRef(after or ZERO_REF)
