# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of tables, told as what differs from pages that others have, too.

A block that changes makes a page on each level anew, of which 63 of 64 references are what they
were. Whoever can have the old pages needs to be told the new references only. A page that is made
from a change has the name that was expected, or it is of no use: nobody is believed.

    changes := magic "SATX" (4)  version u8  zero (3)  page*
    page    := base (52)  bitmap u64  reference (52)*

docs/formats/delta.md; little-endian.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chunkstore._native import _core
from chunkstore.page_ranges import FANOUT
from chunkstore.store import Store, split_refs
from chunkstore.table import TableRoot
from satchel.errors import IntegrityError
from satchel.ids import CHUNK_REF_SIZE, ZERO_REF, ChunkRef

MAGIC = b"SATX"
VERSION = 1

PAGE_CHANGES_LIMIT = 16 << 20
"""Bytes of changes: 50,000 pages with a few changes each."""

_HEADER = struct.Struct("<4sB3s")
_PAGE = struct.Struct(f"<{CHUNK_REF_SIZE}sQ")
_NO_REFS = bytes(CHUNK_REF_SIZE * FANOUT)


class PageChangesInvalid(IntegrityError):
    """The bytes do not describe changes of these tables' pages."""


@dataclass(frozen=True)
class PageChange:
    """A page as another one with some references changed. level: of both; base: the other page,
    ZERO_REF for one of zeros only; entries: what is at which place of the page."""

    level: int
    base: ChunkRef
    entries: Mapping[int, ChunkRef]

    def make(self, store: Store) -> bytes | None:
        """The 4096 bytes of the page, of a base that is in the store; None where it is not. Raises
        IntegrityError where what is there under that name is no page of this level."""
        refs = bytearray(_NO_REFS)
        if self.base != ZERO_REF:
            pages = _core.read_pages(store.records(self.base), self.level)
            if not pages:
                return None
            refs[:] = pages[0][1]
        for n, ref in self.entries.items():
            refs[n * CHUNK_REF_SIZE : (n + 1) * CHUNK_REF_SIZE] = ref
        return _core.make_page(refs, self.level)


PageChanges = dict[ChunkRef, PageChange]
"""By the names of the pages that come out."""


def one_after_other(first: PageChanges, then: PageChanges) -> PageChanges:
    """From the pages that `first` begins with to those that `then` leads to. Pages of `first` that
    `then` leaves as they are stay in it, and some that nothing leads to any more."""
    both = dict(first)
    for ref, change in then.items():
        before = first.get(change.base)
        if before and before.level == change.level:
            entries = {**before.entries, **change.entries}
            both[ref] = PageChange(change.level, before.base, entries)
        else:
            both[ref] = change
    return both


def encode_page_changes(changes: PageChanges, volumes: Mapping[str, TableRoot]) -> bytes:
    """Those of the pages of these volumes' tables."""
    out = [_HEADER.pack(MAGIC, VERSION, bytes(3))]
    for ref, _ in (walk := _Walk(volumes)):
        change = changes.get(ref)
        if change is None:
            out.append(_PAGE.pack(ref, 0))
            continue
        places = sorted(change.entries)
        below = [change.entries[n] for n in places]
        out.append(_PAGE.pack(change.base, sum(1 << n for n in places)) + b"".join(below))
        walk.enter(below)
    return b"".join(out)


def decode_page_changes(data: bytes, volumes: Mapping[str, TableRoot]) -> PageChanges:
    """From anybody; `volumes` as when it was encoded. All pages are there that differ from
    their bases, or PageChangesInvalid is raised. Whether they come out of them `make` tells."""
    told = told_pages(data)
    changes: PageChanges = {}
    for ref, level in (walk := _Walk(volumes)):
        page = next(told, None)
        if page is None:
            raise PageChangesInvalid("changes of pages are cut short", why=f"{len(data)} bytes")
        if not page.entries and page.base != ref:
            raise PageChangesInvalid("changes of pages are not whole", why=f"at byte {page.at}")
        if page.entries:
            changes[ref] = PageChange(level, page.base, page.entries)
            walk.enter(list(page.entries.values()))
    if (more := next(told, None)) is not None:
        why = f"{len(data) - more.at} bytes"
        raise PageChangesInvalid("changes of pages are too long", why=why)
    return changes


class PageDerivation(NamedTuple):
    """`size` bytes from `at` on: of which page another one is made, and with what."""

    at: int
    size: int
    base: ChunkRef
    entries: dict[int, ChunkRef]


def told_pages(data: bytes) -> Iterator[PageDerivation]:
    """The pages of changes from anybody, as they stand there; which ones they make nobody knows but
    by the tables. Raises PageChangesInvalid, at the latest behind the last whole one."""
    if len(data) > PAGE_CHANGES_LIMIT:
        raise PageChangesInvalid("too many changes of pages", why=f"{len(data)} bytes")
    if data[: _HEADER.size] != _HEADER.pack(MAGIC, VERSION, bytes(3)):
        raise PageChangesInvalid("no changes of pages of this version")
    at = _HEADER.size
    while at < len(data):
        if at + _PAGE.size > len(data):
            raise PageChangesInvalid("changes of pages are cut short", why=f"{len(data)} bytes")
        base, bitmap = _PAGE.unpack_from(data, at)
        begin = at + _PAGE.size
        end = begin + bitmap.bit_count() * CHUNK_REF_SIZE
        if end > len(data):
            raise PageChangesInvalid("changes of pages are not whole", why=f"at byte {begin}")
        places = [n for n in range(FANOUT) if bitmap >> n & 1]
        entries = dict(zip(places, split_refs(data[begin:end]), strict=True))
        yield PageDerivation(at, end - at, ChunkRef(base), entries)
        at = end


class _Walk:
    """The pages that are told, each once: the roots in the order of the volumes' names, and then
    what is entered below the last one, first come, first gone. With the level of each."""

    def __init__(self, volumes: Mapping[str, TableRoot]) -> None:
        roots = [root for _, root in sorted(volumes.items())]
        self._to_come = deque((root.ref, _core.root_level(root.blocks)) for root in roots)
        self._seen = {ZERO_REF}
        self._level = 0

    def __iter__(self) -> Iterator[tuple[ChunkRef, int]]:
        while self._to_come:
            ref, self._level = self._to_come.popleft()
            if ref not in self._seen:
                self._seen.add(ref)
                yield ref, self._level

    def enter(self, refs: Sequence[ChunkRef]) -> None:
        """What is below the page that came last."""
        if self._level:
            self._to_come.extend((ref, self._level - 1) for ref in refs)
