# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sources of chunks with a will of their own, over a real store."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chunkstore import PageRange, Store, records_below, split_refs
from satchel.errors import UnavailableError
from satchel.ids import ChunkRef
from surrogate.fetching import Fetcher, Prior
from tests.chunkstore.content import noise
from volumes import Volume, create_volume
from wire import Priority

Spoil = Callable[[bytes], bytes]


def flipped(records: bytes) -> bytes:
    """Records of which the last byte, a byte of a chunk's content, is another one."""
    return records[:-1] + bytes([records[-1] ^ 1]) if records else records


class StoreSource:
    """What is in `store`, as this source tells it. asked: the requests, in references; places:
    in blocks below pages; rates: what it was told of how fast it is, with each of the first.

    dead: it does not answer. back: it is reached by another way now. spoil: what it makes of an
    answer. fetched: references that it was asked for. silent: it hangs until that is set. slow:
    seconds before each answer. gives_way: what no miss waits for hangs until that is set.
    """

    def __init__(self, name: str, store: Store, spoil: Spoil = lambda records: records) -> None:
        self.name = name
        self.prior = Prior()
        self.store = store
        self.spoil = spoil
        self.dead = self.back = False
        self.slow = 0.0
        self.silent: threading.Event | None = None
        self.gives_way: threading.Event | None = None
        self.asked: list[int] = []
        self.fetched: set[ChunkRef] = set()
        self.places: list[int] = []
        self.urgency: list[Priority] = []

    def fetch(
        self, refs: bytes, priority: Priority = Priority.DEMAND, silence: float = 0.0
    ) -> bytes:
        self.asked.append(len(split_refs(refs)))
        self.fetched.update(split_refs(refs))
        self.urgency.append(priority)
        return self._answer(priority, lambda: self.store.records(refs))

    def below(self, places: Sequence[PageRange], priority: Priority, silence: float) -> bytes:
        self.places.append(sum(place.count for place in places))
        self.urgency.append(priority)
        return self._answer(priority, lambda: records_below(self.store.records, places))

    def renewed(self) -> bool:
        back, self.back = self.back, False
        return back

    def close(self) -> None:
        """The store stays."""

    def _answer(self, priority: Priority, records: Callable[[], bytes]) -> bytes:
        if self.gives_way and priority is not Priority.DEMAND:
            self.gives_way.wait(30)
        if self.slow:
            time.sleep(self.slow)
        if self.silent:
            self.silent.wait(30)
        if self.dead:
            raise UnavailableError(f"{self.name} is dead")
        return self.spoil(records())


class FarVolume:
    """A volume of so many blocks that are all at home, and a cache that has none of them."""

    def __init__(self, folder: Path, blocks: int, readahead: int) -> None:
        """readahead: blocks, of the fetcher."""
        self.home = Store.create(folder / "home")
        self.cache = Store.create(folder / "cache")
        path = folder / "disk"
        path.write_bytes(noise(1, blocks))
        self.volume: Volume = create_volume(folder, "disk0", self.home.import_file(path))
        self.source = StoreSource("home", self.home)
        self.fetcher = Fetcher(self.cache, [self.source], readahead)
