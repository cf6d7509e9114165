# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of a machine that was handed over, made of the checkpoint's pages.

Only the giver has these pages; what they were before it changed them the media and home have. So
the giver tells what it changed in them, and is not needed for them any more.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chunkstore import FANOUT, Below, PageChanges, Store, name_blocks
from satchel.errors import IntegrityError
from satchel.ids import ZERO_REF, ChunkRef
from surrogate.fetching.standing import Key

logger = logging.getLogger(__name__)


class PageMaker:
    """Of one replica. Thread-safe."""

    def __init__(self, store: Store, changes: PageChanges) -> None:
        self._store = store
        self._changes = dict(changes)

    def make(self, pages: Iterable[ChunkRef]) -> bool:
        """Have those of these pages in the store whose bases are there; whether there are any. What
        does not come out as its name says is left to the sources."""
        made = [block for page in set(pages) if (block := self._made(page)) is not None]
        if made:
            self._store.put(b"".join(made))
        return bool(made)

    def base(self, page: ChunkRef) -> ChunkRef:
        """What to ask for to have a page: the one that it is made of, or itself."""
        change = self._changes.get(page)
        return page if change is None or change.base == ZERO_REF else change.base

    def instead(self, place: Below) -> Iterator[Key]:
        """What to ask for to have the blocks at a place, and the pages above: below a page that
        others have only what is the same there, and by its own name what has changed."""
        change = self._changes.get(place.page)
        if change is None or change.level != place.level:
            yield place
            return
        span = FANOUT**place.level
        numbers = range(place.first // span, -(-place.end // span))
        same = [number for number in numbers if number not in change.entries]
        if change.base != ZERO_REF:
            yield from _below(change.base, place, same, span)
        for number in numbers:
            ref = change.entries.get(number, ZERO_REF)
            if ref != ZERO_REF and place.level:
                part = _cut(place, number * span, (number + 1) * span)
                below = replace(part, page=ref, level=place.level - 1, first=part.first % span)
                yield from self.instead(below)
            elif ref != ZERO_REF:
                yield ref

    def _made(self, page: ChunkRef) -> bytes | None:
        change = self._changes.get(page)
        if change is None:
            return None
        try:
            block = change.make(self._store)
            if block is None or name_blocks(block) == page:
                return block
            why = "it has another name"
        except IntegrityError as error:
            why = str(error)
        logger.warning("page %s is not what was told of it: %s", page[:20].hex(), why)
        self._changes.pop(page, None)
        return None


def _below(base: ChunkRef, place: Below, same: Sequence[int], span: int) -> Iterator[Key]:
    """Those parts of a place whose numbers are given, below another page; at least that page."""
    if not same:
        yield base
    for _, group in itertools.groupby(enumerate(same), lambda item: item[1] - item[0]):
        numbers = [number for _, number in group]
        yield replace(_cut(place, numbers[0] * span, (numbers[-1] + 1) * span), page=base)


def _cut(place: Below, begin: int, end: int) -> Below:
    """What of a place is in [begin, end)."""
    first = max(begin, place.first)
    return replace(place, first=first, count=min(end, place.end) - first)
