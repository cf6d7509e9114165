# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The chunk cache of a host within its limit: what machines touch is told to a policy, and what the
policy names is given up.

Nothing of this is on the way of a miss: a thread looks at the block maps of running machines now
and then, and at the size of the packs. What a map points to is pinned, by the store itself. So a
cache may be larger than its limit, when running machines need that much; it is `crowded` then, and
nothing is broken by it but the limit.

A disk that is full all the same, because others fill it, is met with a reserve: a file that is
given up first, so that there is room for the index to give up chunks, and for what running machines
still need. It is made again when there is room.

What the policy does not know (what was here before the daemon, what was brought ahead, table pages)
is in the low queue, in the order of arrival, from the first time that room is needed.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from caching import MakePolicy, Queue
from chunkstore import Store, name_blocks
from satchel.errors import CapacityError, SatchelError, StateError
from satchel.ids import ZERO_REF, ChunkRef
from volumes import Volume
from wire import CacheNumbers

logger = logging.getLogger(__name__)

PACK_BYTES = 16 << 20
"""Of a cache's packs: so much is copied at a time, while misses wait."""

CHUNK_BYTES = 4096 + 64
"""What a chunk takes in a pack, as it comes in."""

CACHE_POLL_SECONDS = 2.0

RESERVE_BYTES = 64 << 20

SLACK_PART = 16
"""One of so many parts of the limit is made free at once, so that this is seldom done."""


class CacheFull(CapacityError):
    """The warmed content does not fit into the cache."""


class ChunkCache:
    """See the module. Thread-safe; one for a store."""

    def __init__(
        self,
        store: Store,
        limit: Callable[[], int],
        volumes: Callable[[], Iterable[Volume]],
        make: MakePolicy,
        reserve: Path | None = None,
    ) -> None:
        """limit: bytes that packs may take now. volumes: those of all machines that run. make:
        the policy. reserve: where the file for a full disk is; without one there is none."""
        self._store = store
        self._limit = limit
        self._volumes = volumes
        self._reserve = reserve
        self._lock = threading.Lock()
        self._policy = make(max(1, limit() // CHUNK_BYTES))
        self._seen: dict[int, _TouchCursor] = {}
        self._hits: Counter[Queue] = Counter()
        self._misses = 0
        self._evicted = 0
        self._crowded = False
        self._stuck: tuple[set[int], int] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cache", daemon=True)

    def start(self) -> None:
        """Look now and then, until `close`."""
        self._thread.start()

    def close(self) -> None:
        """Harmless where it was never started."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def counts(self) -> CacheNumbers:
        with self._lock:
            return CacheNumbers(
                limit=self._limit(),
                size=self._store.pack_bytes,
                crowded=self._crowded,
                chunks={queue.value: count for queue, count in self._policy.counts().items()},
                hits={queue.value: self._hits[queue] for queue in Queue},
                misses=self._misses,
                evicted=self._evicted,
            )

    def look(self) -> None:
        """Note what was touched since the last time, and keep to the limit."""
        with self._lock:
            self._note()
            self._keep_to(self._limit())
            self._set_aside()

    def warm(self, blocks: bytes) -> int:
        """Have these blocks here; how many were not. They are given up as what the policy does not
        know. Raises CacheFull where they would take what others have."""
        refs = name_blocks(blocks)
        new = self._store.has(refs).count(False)
        if self._store.pack_bytes + new * CHUNK_BYTES > self._limit():
            raise CacheFull("the cache is full", fix="a larger `cache_mib` in surrogate.toml")
        self._store.put(blocks)
        return new

    def give_up(self, refs: Iterable[ChunkRef]) -> None:
        """These are not wanted here; what running machines use stays. Raises StoreFull."""
        with self._lock:
            wanted = [*refs]
            done = self._store.evict(b"".join(wanted))
            for ref in {*wanted}.difference(done.pinned):
                self._policy.removed(ref)
            self._evicted += done.chunks

    def make_room(self) -> bool:
        """The disk is full: give up the reserve and some chunks. Whether that made any room."""
        with self._lock:
            reserved = self._reserve is not None and self._reserve.exists()
            if self._reserve:
                self._reserve.unlink(missing_ok=True)
            before = self._store.pack_bytes
            try:
                self._note()
                self._keep_to(before - before // SLACK_PART - PACK_BYTES)
            except SatchelError as error:
                logger.warning("the disk is full: %s", error)
            return reserved or self._store.pack_bytes < before

    def _set_aside(self) -> None:
        path = self._reserve
        if path is None or path.exists():
            return
        if shutil.disk_usage(path.parent).free < 2 * RESERVE_BYTES:
            return
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)

    def _note(self) -> None:
        running = {id(volume): volume for volume in self._volumes()}
        for gone in self._seen.keys() - running.keys():
            del self._seen[gone]
        for number, volume in running.items():
            seen = self._seen.setdefault(number, _TouchCursor(volume))
            try:
                refs = seen.news(self._store)
            except StateError:
                continue  # it has just ended
            for ref in refs:
                where = self._policy.touched(ref)
                if where is None:
                    self._misses += 1
                else:
                    self._hits[where] += 1

    def _keep_to(self, limit: int) -> None:
        size = self._store.pack_bytes
        if size <= limit:
            self._crowded = False
            return
        if self._crowded and self._stuck == (set(self._seen), size // PACK_BYTES):
            return
        for ref in self._store.names():
            self._policy.brought(ref)
        excess = size - max(0, limit - limit // SLACK_PART)
        pinned = set[ChunkRef]().union(*(seen.refs for seen in self._seen.values()))
        chosen = self._policy.victims(-(-excess // CHUNK_BYTES), pinned)
        done = self._store.evict(b"".join(chosen))  # type: ignore[arg-type]
        for ref in done.pinned:
            self._policy.brought(ref)
        self._evicted += done.chunks
        crowded = done.pack_bytes > limit
        if crowded and not self._crowded:
            logger.warning(
                "the cache has %d MiB, %d more than its limit: running replicas need them",
                done.pack_bytes >> 20,
                (done.pack_bytes - limit) >> 20,
            )
        self._crowded = crowded
        self._stuck = set(self._seen), done.pack_bytes // PACK_BYTES

    def _run(self) -> None:
        while not self._closing.wait(CACHE_POLL_SECONDS):
            try:
                self.look()
            except CapacityError as error:
                logger.warning("the cache cannot be made smaller: %s", error)
            except (SatchelError, OSError) as error:
                logger.warning("cache: %s", error)


class _TouchCursor:
    """What of a volume was told already. refs: what its machine has touched of the cache."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._count = 0
        self.refs: set[ChunkRef] = set()

    def news(self, store: Store) -> list[ChunkRef]:
        """What it has touched since. Raises StateError for a volume that is closed."""
        if not self._volume.map.touched(self._count):
            return []
        touched = self._volume.map.touched()
        news, self._count = touched[self._count :], len(touched)
        refs = [ref for ref in store.names_in(self._volume.map, news) if ref != ZERO_REF]
        self.refs.update(refs)
        return refs


__all__ = ["PACK_BYTES", "CacheFull", "ChunkCache"]
