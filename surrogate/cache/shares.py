# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Each tenant's share of the chunk cache: `tenant.cache-percent`.

What was brought for a machine or a staging that has ended stays in the cache, and is the tenant's
as before. For example, who stages a machine of a gigabyte, ends that and stages another one has
two. Where its share has no room for both, the first one goes, and nothing of anybody else's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from chunkstore import Store, TableRoot, references_below
from surrogate.cache.chunk_cache import ChunkCache
from surrogate.tenants.register import Tenants
from surrogate.tenants.tenant import Tenant

LEFT_KEPT = 64
"""Machines and stagings of a tenant that have ended and whose chunks stay."""


class CacheShares:
    """Of one host. Thread-safe."""

    def __init__(
        self,
        store: Store,
        cache: ChunkCache,
        limit: int,
        tenants: Tenants,
        live: Callable[[Tenant], Iterable[TableRoot]],
    ) -> None:
        """limit: bytes of the whole cache. live: tables of what a tenant has that has not ended"""
        self._store, self._cache, self._limit = store, cache, limit
        self._tenants, self._live = tenants, live
        self._lock = threading.Lock()
        self._left: WeakKeyDictionary[Tenant, deque[tuple[int, list[TableRoot]]]]
        self._left = WeakKeyDictionary()

    def ended(self, tenant: Tenant, size: int, roots: list[TableRoot]) -> None:
        """Something of it has, for which so many bytes were brought below these tables."""
        if size:
            with self._lock:
                self._left.setdefault(tenant, deque()).append((size, roots))

    def keep(self, tenant: Tenant, used: int) -> None:
        """Give up what its share has no room for, of what has ended, the oldest first. used: bytes
        that were brought for what has not ended. Raises StoreFull."""
        room = self._limit * tenant.caps.cache_percent // 100 - used
        surplus: list[TableRoot] = []
        with self._lock:
            left = self._left.get(tenant, deque())
            while left and (len(left) > LEFT_KEPT or sum(size for size, _ in left) > room):
                surplus += left.popleft()[1]
        if surplus:
            self._give_up(tenant, surplus)

    def _give_up(self, tenant: Tenant, roots: list[TableRoot]) -> None:
        """But for what somebody else has brought too, and what it still uses."""
        refs = {*references_below(self._store, roots)}
        refs.difference_update(references_below(self._store, self._live(tenant)))
        for other in self._tenants.all():
            if other is not tenant:
                refs.difference_update(other.brought.own(refs))
        self._cache.give_up(refs)
