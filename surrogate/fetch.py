# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which source is asked for what: the nearest first, the next for what it has not.

A source that does not answer is put aside for a while. A chunk that is not what its name says is
asked of the next source (a stick has bad sectors); a source that delivers many of those lies, and
is put aside for long. Both are noted for the client to see; the guest notices neither as long as
another source has the chunk.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Protocol

from chunkstore import ChunkInvalid, Store, TableRoot, split_refs
from overlay import ReadAbandoned, Volume
from satchel.errors import SatchelError, UnavailableError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE

logger = logging.getLogger(__name__)

BATCH = 512
"""References asked for in one request: 2 MiB of content at most."""

LEAST_BATCH = 8
"""References in a request that nobody waits for, at least: 32 KB, so that it shows the rate."""

ASIDE_SECONDS = 0.25
ASIDE_BYTES = 100_000
"""What such a request may take; what the machine waits for may be behind it."""

STORED_BLOCK_BYTES = 2000
"""What a block takes on the wire, on average: compressed, with its header."""

RATE_SAMPLE_BYTES = 32 << 10

SILENCE_FACTOR = 6.0
LEAST_SILENCE_SECONDS = 3.0
FIRST_SILENCE_SECONDS = 15.0
MOST_SILENCE_SECONDS = 60.0
"""A source may be silent for six times its slowest recent request, within these bounds. Before its
rate is known that says nothing yet, and each silence in a row doubles the next: requests that wait
behind each other on a slow link must not all be given up for ever."""

RETRY_SECONDS = 1.0
"""How long a source that did not answer is left alone."""

MISTRUST_SECONDS = 3600.0
"""How long a source that lies is left alone."""

INVALID_LIMIT = 64
"""Chunks that were not what their names say, before a source counts as lying."""

PATIENCE_SECONDS = 60.0
"""How long a fetch goes on trying before the guest's read fails."""


class Source(Protocol):
    """Anything that can deliver chunks by reference. Thread-safe."""

    name: str

    def fetch(self, refs: bytes, silence: float) -> bytes:
        """Pack records of those chunks that the source has; raises SatchelError when it cannot
        answer now, or says nothing for `silence` seconds."""


class ChunksUnavailable(UnavailableError):
    """No source delivered some chunks that a machine needs."""


@dataclass
class SourceRecord:
    """What a fetcher knows of one source."""

    source: Source
    bytes: int = 0
    invalid: int = 0
    requests: int = 0
    fault_count: int = 0
    faults_in_row: int = 0
    last_fault: str = ""
    seconds: float = 0.0
    slowest: float = 0.0
    round_trip: float = float("inf")
    rate: float = 0.0
    usable_from: float = 0.0

    def learn(self, size: int, seconds: float) -> None:
        """Note that a request for `size` bytes took so long.

        round_trip: seconds, the shortest request; rate: bytes/s, a moving average over requests
        that are long enough to show it
        """
        self.faults_in_row = 0
        self.seconds += seconds
        self.round_trip = min(self.round_trip, seconds)
        self.slowest = max(seconds, 0.9 * self.slowest)
        if size >= RATE_SAMPLE_BYTES:
            rate = size / max(seconds - self.round_trip, 1e-4)
            self.rate = rate if self.rate == 0.0 else 0.7 * self.rate + 0.3 * rate

    @property
    def summary(self) -> str:
        """One line for a log."""
        return (
            f"{self.bytes} bytes in {self.requests} requests, {self.seconds:.1f} s, "
            f"round trip {self.round_trip * 1e3:.1f} ms, rate {self.rate / 1e6:.2f} MB/s, "
            f"{self.fault_count} faults"
        )

    @property
    def silence(self) -> float:
        """Seconds without a byte after which the connection counts as dead: a person who walked
        away leaves one that never says so."""
        least = LEAST_SILENCE_SECONDS if self.rate else FIRST_SILENCE_SECONDS
        patience = max(SILENCE_FACTOR * self.slowest, least) * (1 << min(self.faults_in_row, 8))
        return min(patience, MOST_SILENCE_SECONDS)

    @property
    def worthwhile_bytes(self) -> float:
        """What a request may carry besides a block before it takes twice as long: the link's
        bandwidth-delay product; 0 while it is not known."""
        return self.rate * self.round_trip if self.rate else 0.0


class Fetcher:
    """Brings chunks into a store from sources, nearest first. Thread-safe."""

    def __init__(self, store: Store, sources: list[Source], readahead_blocks: int) -> None:
        self._store = store
        self._records = [SourceRecord(source) for source in sources]
        self._readahead = max(1, readahead_blocks)
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def close(self) -> None:
        """Make every fetch to come fail at once, each one under way after its request; log what
        was learnt."""
        self._closed.set()
        for record in self._records:
            logger.info("source %s: %s", record.source.name, record.summary)

    def bytes_by_source(self) -> dict[str, int]:
        """Bytes received so far, by source."""
        with self._lock:
            return {record.source.name: record.bytes for record in self._records}

    def faults(self) -> dict[str, int]:
        """Requests without an answer and chunks that were not themselves, by source; where any."""
        with self._lock:
            return {r.source.name: r.fault_count for r in self._records if r.fault_count}

    def resolve(self, volume: Volume, first: int, count: int) -> None:
        """The resolver of a second-class replica: makes blocks present, with their neighbours."""
        blocks = volume.root.blocks
        window = self._window()
        start = first - first % window
        end = min(blocks, -(-(first + count) // window) * window)
        while missing := self._store.resolve(volume.root, volume.map, start, end - start):
            self.bring(missing)

    def read(
        self, root: TableRoot, offset: int = 0, length: int | None = None, *, aside: bool = False
    ) -> bytes:
        """Bytes of a volume, by default all of it; for small ones.

        aside: nobody waits for it, so it is fetched in requests that those who wait for something
        else can bear. Raises ChunksUnavailable.
        """
        length = root.size - offset if length is None else length
        while missing := self._store.missing_in(root, offset, length):
            self.bring(missing, self._modest() if aside else BATCH)
        return self._store.read(root, offset, length)

    def bring(self, refs: bytes, batch: int = BATCH) -> None:
        """Make the chunks present in the store, verified, so many with a request.

        Raises ChunksUnavailable, and ReadAbandoned once the fetcher is closed.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for record in self._usable():
                refs = self._ask(record, refs, batch)
                if not refs:
                    return
            count = len(refs) // CHUNK_REF_SIZE
            if self._closed.is_set():
                raise ReadAbandoned(
                    f"{count} chunks are not fetched", why="the replica is being ended"
                )
            if time.monotonic() > deadline:
                raise ChunksUnavailable(
                    f"{count} chunks cannot be had", why=self._complaint(), fix="check the media"
                )
            self._closed.wait(0.2)

    def _window(self) -> int:
        """Blocks to fetch for a missing one: as many as the nearest source's link has room for
        during a round trip, a power of two."""
        usable = self._usable()
        worthwhile = usable[0].worthwhile_bytes if usable else 0.0
        blocks = max(1, int(worthwhile / STORED_BLOCK_BYTES))
        return min(self._readahead, 1 << (blocks.bit_length() - 1))

    def _modest(self) -> int:
        """Blocks in a request that keeps the nearest source's link busy and not much more."""
        usable = self._usable()
        if not usable:
            return LEAST_BATCH
        short = min(ASIDE_SECONDS * usable[0].rate, ASIDE_BYTES)
        wanted = max(2 * usable[0].worthwhile_bytes, short)
        return min(BATCH, max(LEAST_BATCH, int(wanted / BLOCK_SIZE)))

    def _usable(self) -> list[SourceRecord]:
        now = time.monotonic()
        with self._lock:
            return [record for record in self._records if record.usable_from <= now]

    def _ask(self, record: SourceRecord, refs: bytes, batch: int) -> bytes:
        """Ask one source in batches; what is still missing afterwards."""
        missing: list[bytes] = []
        step = batch * CHUNK_REF_SIZE
        for start in range(0, len(refs), step):
            if self._closed.is_set() or record.usable_from > time.monotonic():
                return b"".join([*missing, refs[start:]])
            missing.append(self._ask_batch(record, refs[start : start + step]))
        return b"".join(missing)

    def _ask_batch(self, record: SourceRecord, refs: bytes) -> bytes:
        """One request, and another one for what followed each chunk that was not itself.

        Raises what the store raises: a full disk is no fault of the source.
        """
        bad = b""
        while refs:
            began = time.monotonic()
            try:
                records = record.source.fetch(refs, record.silence)
            except SatchelError as error:
                self._put_aside(record, error, RETRY_SECONDS, silent=True)
                break
            self._count(record, len(records), time.monotonic() - began)
            try:
                self._store.admit(records)
                break
            except ChunkInvalid as error:
                lies, asked_for = self._lies(record), error.ref in split_refs(refs)
                pause = MISTRUST_SECONDS if lies else 0.0 if asked_for else RETRY_SECONDS
                self._put_aside(record, error, pause)
                if pause:
                    break
                bad += error.ref
                refs = _without(self._lacking(refs), error.ref)
        return self._lacking(refs) + bad

    def _lies(self, record: SourceRecord) -> bool:
        with self._lock:
            record.invalid += 1
            return record.invalid > INVALID_LIMIT

    def _lacking(self, refs: bytes) -> bytes:
        pairs = zip(split_refs(refs), self._store.has(refs), strict=True)
        return b"".join(ref for ref, held in pairs if not held)

    def _count(self, record: SourceRecord, size: int, seconds: float) -> None:
        with self._lock:
            record.bytes += size
            record.requests += 1
            if size:
                record.learn(size, seconds)

    def _put_aside(
        self, record: SourceRecord, error: SatchelError, seconds: float, *, silent: bool = False
    ) -> None:
        """silent: it gave no answer, rather than a wrong one"""
        logger.warning("source %s: %s", record.source.name, error)
        with self._lock:
            record.fault_count += 1
            record.faults_in_row += silent
            record.last_fault = str(error)
            record.usable_from = time.monotonic() + seconds

    def _complaint(self) -> str:
        with self._lock:
            faults = [f"{r.source.name}: {r.last_fault}" for r in self._records if r.fault_count]
            return "; ".join(faults) or "no source has them"


def _without(refs: bytes, bad: bytes) -> bytes:
    return b"".join(ref for ref in split_refs(refs) if ref != bad)
