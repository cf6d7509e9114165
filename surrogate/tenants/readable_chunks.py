# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks of the cache a tenant may ask for: those below tables that it brought or was given.

It brought the tables and blobs of what it asked to run or to stage. It was given those of its
machines when they were frozen. A reference of anything else is not looked for in the store at all.
So who guesses a block of somebody else's hears of it what it hears of a block that is not there,
and as soon.

The references below the tables are found when they are asked for, from those pages that are here:
eight bytes of each, in order. More pages come in all the time, so they are found anew, but only for
a small part of the time. Until then a new page costs that the chunk is asked for elsewhere.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice

from chunkstore import (
    Store,
    TableRoot,
    decode_places,
    records_below,
    references_below,
    split_refs,
)
from satchel.ids import ChunkRef

ROOTS_KEPT = 64
"""Of the newest tables; older ones are of machines that went on."""

MOST = 1 << 20
"""References of a tenant that are known; the chunks of 4 GiB. Of more, the rest is not served."""

REST_SECONDS = 1.0
REST_PART = 10
"""They are found anew after so many times what it took the last time."""


class ReadableChunks:
    """Of one tenant. Thread-safe."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds that do not go back"""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._roots: dict[TableRoot, None] = {}  # the oldest first
        self._keys = array("Q")
        self._changed = False
        self._found_at = -float("inf")
        self._took = 0.0

    def add(self, roots: Iterable[TableRoot]) -> None:
        """These are the tenant's, too."""
        with self._lock:
            for root in roots:
                self._changed |= root not in self._roots
                self._roots.pop(root, None)
                self._roots[root] = None
            for root in [*self._roots][:-ROOTS_KEPT]:
                del self._roots[root]

    def records(self, refs: bytes) -> bytes:
        """The pack records of those of n references that are its own and are here."""
        allowed = self.own(split_refs(refs))
        return self._store.records(b"".join(allowed)) if allowed else b""

    def records_below(self, body: bytes) -> bytes:
        """As `records`, of places. Raises StoreUsage for what are none."""
        places = decode_places(body)
        allowed = {*self.own([place.page for place in places])}
        return records_below(
            self._store.records, [place for place in places if place.page in allowed]
        )

    def own(self, refs: Iterable[ChunkRef]) -> list[ChunkRef]:
        """Those of the references that are its own."""
        wanted = [*refs]
        with self._lock:
            own = [ref for ref in wanted if self._knows(ref)]
            if len(own) < len(wanted) and self._may_find():
                self._find()
                own = [ref for ref in wanted if self._knows(ref)]
            return own

    def _knows(self, ref: ChunkRef) -> bool:
        key = _key(ref)
        at = bisect_left(self._keys, key)
        return at < len(self._keys) and self._keys[at] == key

    def _may_find(self) -> bool:
        rest = self._took if self._changed else self._took * REST_PART + REST_SECONDS
        return self._clock() - self._found_at > rest

    def _find(self) -> None:
        began = self._clock()
        refs = references_below(self._store, self._roots)
        self._keys = array("Q", sorted({_key(ref) for ref in islice(refs, MOST)}))
        self._changed = False
        self._found_at = self._clock()
        self._took = self._found_at - began


def _key(ref: ChunkRef) -> int:
    """Of a reference its first eight bytes. Who makes two references with the same ones has had to
    name the second one whole all the same."""
    return int.from_bytes(ref[:8], "big")
