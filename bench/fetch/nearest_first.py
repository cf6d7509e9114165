# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What `bench fetch` compares with: the fetcher that surrogates had before.

The nearest source is asked first and the next for what it has not, one request at a time for each
who waits; pages are fetched like chunks, a level at a time. Readers of one chunk know nothing of
each other, and a source is waited for until it has been silent for long.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

from chunkstore import Store, TableRoot, split_refs
from overlay import Volume
from satchel.errors import SatchelError, UnavailableError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE
from surrogate import Coverage, Source
from wire import Priority

BATCH = 512
LEAST_BATCH = 8
ASIDE_SECONDS = 0.25
ASIDE_BYTES = 100_000
STORED_BLOCK_BYTES = 2000
RATE_SAMPLE_BYTES = 32 << 10
RETRY_SECONDS = 1.0
PATIENCE_SECONDS = 60.0


class _Record:
    """What is known of one source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.round_trip = float("inf")
        self.rate = 0.0
        self.slowest = 0.0
        self.usable_from = 0.0

    def learn(self, size: int, seconds: float) -> None:
        self.round_trip = min(self.round_trip, seconds)
        self.slowest = max(seconds, 0.9 * self.slowest)
        if size >= RATE_SAMPLE_BYTES:
            rate = size / max(seconds - self.round_trip, 1e-4)
            self.rate = rate if self.rate == 0.0 else 0.7 * self.rate + 0.3 * rate

    @property
    def silence(self) -> float:
        return min(max(6 * self.slowest, 3.0 if self.rate else 15.0), 60.0)

    @property
    def worthwhile_bytes(self) -> float:
        return self.rate * self.round_trip if self.rate else 0.0


class NearestFirst:
    """Has what a prefetcher and a replica use of a Fetcher. Thread-safe."""

    def __init__(self, store: Store, sources: Sequence[Source], readahead_blocks: int) -> None:
        self._store = store
        self._records = [_Record(source) for source in sources]
        self._readahead = readahead_blocks
        self._closed = threading.Event()
        self.coverage = Coverage()

    def close(self) -> None:
        self._closed.set()
        for record in self._records:
            record.source.close()

    def resolve(self, volume: Volume, first: int, count: int) -> None:
        window = self._window()
        start = first - first % window
        end = min(volume.root.blocks, -(-(first + count) // window) * window)
        while missing := self._store.resolve(volume.root, volume.map, start, end - start):
            self.bring(missing, BATCH)

    def read(
        self,
        root: TableRoot,
        offset: int = 0,
        length: int | None = None,
        priority: Priority = Priority.DEMAND,
        came: Counter[str] | None = None,
    ) -> bytes:
        length = root.size - offset if length is None else length
        while missing := self._store.missing_in(root, offset, length):
            self.bring(missing, BATCH if priority is Priority.DEMAND else self._modest())
        return self._store.read(root, offset, length)

    def bring(self, refs: bytes, batch: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._closed.is_set():
            for record in self._usable():
                refs = self._ask(record, refs, batch)
                if not refs:
                    return
            if time.monotonic() > deadline:
                break
            self._closed.wait(0.2)
        raise UnavailableError("chunks cannot be had")

    def _ask(self, record: _Record, refs: bytes, batch: int) -> bytes:
        missing: list[bytes] = []
        step = batch * CHUNK_REF_SIZE
        for start in range(0, len(refs), step):
            if record.usable_from > time.monotonic():
                return b"".join([*missing, refs[start:]])
            part = refs[start : start + step]
            began = time.monotonic()
            try:
                records = record.source.fetch(part, Priority.DEMAND, record.silence)
                record.learn(len(records), time.monotonic() - began)
                self._store.admit(records)
            except SatchelError:
                record.usable_from = time.monotonic() + RETRY_SECONDS
            held = zip(split_refs(part), self._store.has(part), strict=True)
            missing.append(b"".join(ref for ref, here in held if not here))
        return b"".join(missing)

    def _usable(self) -> list[_Record]:
        now = time.monotonic()
        return [record for record in self._records if record.usable_from <= now]

    def _window(self) -> int:
        usable = self._usable()
        worthwhile = usable[0].worthwhile_bytes if usable else 0.0
        blocks = max(1, int(worthwhile / STORED_BLOCK_BYTES))
        return min(self._readahead, 1 << (blocks.bit_length() - 1))

    def _modest(self) -> int:
        usable = self._usable()
        if not usable:
            return LEAST_BATCH
        short = min(ASIDE_SECONDS * usable[0].rate, ASIDE_BYTES)
        wanted = max(2 * usable[0].worthwhile_bytes, short)
        return min(BATCH, max(LEAST_BATCH, int(wanted / BLOCK_SIZE)))
