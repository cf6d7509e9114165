# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine reads while its host can keep nothing: fetched, verified, handed on, forgotten.

The disk of the cache is full, and everything on it is needed by machines that run. A machine that
misses then is still served: what it asks for, and the table pages that lead there, come into a
small store in memory, which checks them as any other store does, and is thrown away when it has
grown. It is slow, as nothing is fetched ahead and pages come again and again; it ends when there is
room on the disk.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from chunkstore import Store, StoreFull
from satchel.ids import BLOCK_SIZE
from surrogate.fetching.exchange import Exchange, Supplier
from surrogate.fetching.fetcher import Fetcher
from surrogate.fetching.source import Source
from volumes import ReadAbandoned, Resolver, Volume

logger = logging.getLogger(__name__)

MEMORY = Path("/dev/shm")
"""A file system in memory."""

FULL_SECONDS = 5.0
"""Before it is tried again whether there is room."""

LIMIT_BYTES = 16 << 20
"""A store that has grown to so much is left for a new one; it goes with its last read."""


class UncachedReader:
    """See the module. Thread-safe. Takes memory only while it is used."""

    def __init__(self, fetcher: Fetcher, memory: Path = MEMORY) -> None:
        """fetcher: whose sources are asked, and in whose numbers it counts."""
        self._fetcher = fetcher
        self._memory = memory
        self._lock = threading.Lock()
        self._room: _Room | None = None
        self._full_until = 0.0
        self._closed = False

    def resolve(self, resolve: Resolver, volume: Volume, first: int, count: int) -> bytes | None:
        """What `resolve` does, or the content of the blocks where there is no room for them."""
        if time.monotonic() >= self._full_until:
            try:
                return resolve(volume, first, count)
            except StoreFull as error:
                if not self._full_until:
                    logger.warning("blocks are handed on without being kept: %s", error)
                self._full_until = time.monotonic() + FULL_SECONDS
        return self._read(volume, first, count)

    def _read(self, volume: Volume, first: int, count: int) -> bytes:
        with self._entered() as room:
            offset, length = first * BLOCK_SIZE, count * BLOCK_SIZE
            data = room.fetcher.read(volume.root, offset, min(length, volume.size - offset))
        self._fetcher.unkept(count)
        return data.ljust(length, b"\0")

    def close(self) -> None:
        """Give the memory back. Reads under way and reads to come fail; the last one under way
        takes the memory with it."""
        with self._lock:
            self._closed = True
            room, self._room = self._room, None
            if room:
                room.fetcher.close()
                self._leave(room)

    @contextlib.contextmanager
    def _entered(self) -> Iterator[_Room]:
        with self._lock:
            if self._closed:
                raise ReadAbandoned("nothing is handed on", why="the replica is being ended")
            if self._room and self._room.store.pack_bytes > LIMIT_BYTES:
                left, self._room = self._room, None
                self._leave(left)
            if self._room is None:
                self._room = _Room(self._memory, self._fetcher.sources())
            room = self._room
            room.users += 1
        try:
            yield room
        finally:
            with self._lock:
                room.users -= 1
                if room is not self._room:
                    self._leave(room)

    def _leave(self, room: _Room) -> None:
        """Nobody enters it any more. Under the lock."""
        if not room.users:
            room.close()


class _Room:
    """A store in memory, and who fetches into it. users: reads that are under way."""

    def __init__(self, memory: Path, sources: Sequence[Source]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="satchel-passing-", dir=memory))
        self.users = 0
        try:
            Store.create(self._folder / "store").close()
            self.store = Store.open(self._folder / "store", level=0)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._exchange = Exchange(self.store)
        for source in sources:
            self._exchange.join(Supplier(source, shared=True))
        self.fetcher = Fetcher(self.store, [], 1, self._exchange)

    def close(self) -> None:
        self.fetcher.close()
        self._exchange.close()
        self.store.close()
        shutil.rmtree(self._folder, ignore_errors=True)


__all__ = ["UncachedReader"]
