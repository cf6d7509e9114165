# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pages of a machine that was handed over, made of the checkpoint's pages.

Only the giver has these pages; what they were before it changed them the media and home have. So
the giver tells what it changed in them, and is not needed for them any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from chunkstore import PageChanges, Store, name_blocks
from satchel.errors import IntegrityError
from satchel.ids import ZERO_REF, ChunkRef

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

    def instead(self, page: ChunkRef) -> ChunkRef:
        """What to ask for to have a page: the one that it is made of, or itself."""
        change = self._changes.get(page)
        return page if change is None or change.base == ZERO_REF else change.base

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
