# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What one replica fetches: blocks of its volumes, and blobs, through the exchange of its host.

The blocks of a miss whose table pages are not here are asked for by their place below the topmost
missing page, so that pages and chunks come with one answer.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from chunkstore import (
    BlockState,
    ChunkInvalid,
    PageChanges,
    PageRange,
    Store,
    TableRoot,
    pages_missing,
    places_missing,
    split_refs,
)
from satchel.errors import SatchelError, UnavailableError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ChunkRef
from surrogate.fetching.coverage import Coverage, Span
from surrogate.fetching.crew import Crew
from surrogate.fetching.exchange import Exchange, Supplier, Ticket
from surrogate.fetching.page_maker import PageMaker
from surrogate.fetching.source import Source
from surrogate.fetching.source_state import WHOLE_BLOCK_BYTES, Key
from surrogate.fetching.tally import FetchTally
from volumes import ReadAbandoned, Volume
from wire import Priority

logger = logging.getLogger(__name__)

STORED_BLOCK_BYTES = 2000
"""What a block takes on the wire, on average: compressed, with its header."""

PAGE_BYTES = 3500
"""What a page takes."""

AT_ONCE = 2048
"""Chunks that are waited for at a time."""

PLACE_BLOCKS = 64

PATIENCE_SECONDS = 600.0
"""How long a fetch goes on trying before the guest's read fails, which ends the machine: what only
a source has that is out of reach is waited for."""

BESIDE_SECONDS = 5.0
"""How long the neighbours of a miss are waited for while nothing of them comes."""

NamedBlocks = tuple[Volume, Sequence[int], bytes]
"""Blocks of a volume, by number, and the references of their chunks, one after the other."""


class ChunksUnavailable(UnavailableError):
    """No source delivered some chunks that a machine needs."""


class Fetcher:
    """Brings chunks into a store, from sources of its own and from those of its host. Thread-safe.

    It owns its sources.
    """

    def __init__(
        self,
        store: Store,
        sources: Sequence[Source],
        readahead_blocks: int,
        exchange: Exchange | None = None,
    ) -> None:
        """sources: the nearest first. exchange: of the host, by default one of its own."""
        self._store = store
        self._exchange = exchange or Exchange(store)
        self._owns_exchange = exchange is None
        self._suppliers = [Supplier(source) for source in sources]
        for supplier in self._suppliers:
            self._exchange.join(supplier)
        self._readahead = max(1, readahead_blocks)
        self._lock = threading.Lock()
        self._tickets: set[Ticket] = set()
        self._closed = threading.Event()
        self._maker: PageMaker | None = None
        self._beside = Crew("beside")
        self.tally = FetchTally()
        self.coverage = Coverage()

    def close(self) -> None:
        """Make every fetch to come and under way fail at once; log what was learnt.

        A request to a source that is silent goes on; nobody waits for it.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        with self._lock:
            tickets = list(self._tickets)
        for ticket in tickets:
            self._exchange.drop(ticket, _abandoned())
        for supplier in self._suppliers:
            self._exchange.part(supplier)
            logger.info("source %s: %s", supplier.source.name, supplier.standing.estimate)
            supplier.source.close()
        self._beside.close()
        if self._owns_exchange:
            self._exchange.close()

    def bytes_by_source(self) -> dict[str, int]:
        """Bytes received so far, by source; its own ones always, the host's where there are any."""
        own = {supplier.source.name: 0 for supplier in self._suppliers}
        return own | self.tally.bytes_by_source()

    def sources(self) -> list[Source]:
        """All that are asked, those of the host first."""
        return [supplier.source for supplier in (*self._exchange.shared(), *self._suppliers)]

    def unkept(self, blocks: int) -> None:
        """So many were handed on without being kept."""
        self.tally.unkept(blocks)
        self._exchange.tally.unkept(blocks)

    def faults(self) -> dict[str, int]:
        """Requests without an answer and chunks that were not themselves, by source; where any."""
        return self.tally.faults()

    @contextlib.contextmanager
    def stalling(self) -> Iterator[None]:
        """Within it a machine stands still for blocks, whoever brings them."""
        began = time.monotonic()
        try:
            yield
        finally:
            stalled = time.monotonic() - began
            self.tally.stall(stalled)
            self._exchange.tally.stall(stalled)

    def resolve(self, volume: Volume, first: int, count: int) -> None:
        """The resolver of a second-class replica: makes blocks present. Neighbours of what was not
        here come in requests of their own, and hold up nothing."""
        missing = self._unresolved(volume, first, count)
        around = self._around(volume, first, count) if missing else []
        with self.coverage.coming([(volume, first, count)]) as came:
            while missing:
                wanted = self._wanted(volume.root, first, count, missing)
                if not any(isinstance(key, PageRange) for key in wanted):
                    self._bring_beside(around)
                    around = []
                came.update(self._bring(wanted, Priority.DEMAND))
                missing = self._unresolved(volume, first, count)
        self._bring_beside(around)

    def _around(self, volume: Volume, first: int, count: int) -> list[Span]:
        """The neighbours of blocks, as many as are worthwhile."""
        window = self._window()
        start, after = first - first % window, first + count
        end = min(volume.blocks, -(-after // window) * window)
        spans = [(volume, start, first - start), (volume, after, max(0, end - after))]
        return [span for span in spans if span[2]]

    def _bring_beside(self, spans: Sequence[Span]) -> None:
        """Begin to make these present, or those that somebody has: the rest is left to misses."""

        def bring() -> None:
            with contextlib.suppress(SatchelError):
                try:
                    self.ahead(spans, BESIDE_SECONDS, Priority.PREFETCH)
                except ChunksUnavailable:
                    self._lacking(spans)

        if spans:
            self._beside.run(bring)

    def ahead(
        self,
        spans: Sequence[Span],
        patience: float | None = None,
        priority: Priority = Priority.BACKGROUND,
    ) -> None:
        """Make blocks present that nobody waits for, all of them together. Raises as `read`, with
        which it has `patience`."""
        self._bring_all(spans, lambda: self._lacking(spans), patience, priority)

    def named(
        self,
        blocks: Sequence[NamedBlocks],
        patience: float | None = None,
        priority: Priority = Priority.BACKGROUND,
    ) -> bool:
        """Make blocks present by the references of their chunks, without any page. Whether the
        nearest source, or one of the host's, had most of what was not here. The caller answers for
        it that these are the volumes' chunks. Raises as `read`, with which it has `patience`."""
        spans = [(volume, number, 1) for volume, numbers, _ in blocks for number in numbers]
        nearest = (*self._exchange.shared(), *self._suppliers[:1])
        near = {supplier.source.name for supplier in nearest}

        def lacking() -> dict[Key, int]:
            return dict.fromkeys(self._lacked(blocks)[:AT_ONCE], STORED_BLOCK_BYTES)

        came = self._bring_all(spans, lacking, patience, priority)
        return 2 * sum(came[name] for name in near) >= came.total()

    def _bring_all(
        self,
        spans: Sequence[Span],
        lacking: Callable[[], dict[Key, int]],
        patience: float | None,
        priority: Priority,
    ) -> Counter[str]:
        """Bring what is lacking for these spans until nothing is; what came, by source."""
        for volume, first, count in spans:
            volume.map.foresee(first, count)
        with self.coverage.coming(spans) as came:
            while wanted := lacking():
                came.update(self._bring(wanted, priority, patience=patience))
        return came

    def pages(
        self, root: TableRoot, blocks: Iterable[int], priority: Priority = Priority.PREFETCH
    ) -> bool:
        """Have the table pages above these blocks here: then they can be written anew, and need
        nobody any more. Whether any was lacking. Raises as `read`, and ChunkInvalid for what is no
        page."""
        blocks, lacking = list(blocks), False
        here: set[ChunkRef] = set()
        while wanted := pages_missing(self._store, root, blocks):
            for page in here & set(wanted):
                what = f"chunk {page[:20].hex()} is not what its name says"
                raise ChunkInvalid(what, ref=page, why="it is not a table page")
            if not (self._maker and self._maker.make(wanted)):
                pages = [self._instead(page) for page in wanted[:AT_ONCE]]
                self._bring(dict.fromkeys(pages, PAGE_BYTES), priority)
            held = self._store.has(b"".join(wanted))
            here = {page for page, is_here in zip(wanted, held, strict=True) if is_here}
            lacking = True
        return lacking

    def make_pages(self, changes: PageChanges) -> None:
        """From now on these pages are made of those that they differ from, which are asked for in
        their place."""
        self._maker = PageMaker(self._store, changes)

    def _unresolved(self, volume: Volume, first: int, count: int) -> bytes:
        """What is missing for these blocks to be present, once the pages are made that can be."""
        while missing := self._store.resolve(volume.root, volume.map, first, count):
            places = places_missing(self._store, volume.root, first, count) if self._maker else []
            if not (self._maker and self._maker.make(place.page for place in places)):
                break
        return missing

    def _lacked(self, blocks: Sequence[NamedBlocks]) -> list[ChunkRef]:
        """What is not here of these chunks, once those blocks are present that are."""
        missing = b"".join(
            self._store.place_named(volume.map, numbers, refs) for volume, numbers, refs in blocks
        )
        return [*dict.fromkeys(split_refs(missing))]

    def _instead(self, page: ChunkRef) -> ChunkRef:
        return self._maker.instead(page) if self._maker else page

    def _lacking(self, spans: Sequence[Span]) -> dict[Key, int]:
        """What is missing for these blocks. Of those that are here already no pages are: what was
        streamed is, and its pages would cost a round trip each."""
        absent = [s for s in spans if s[0].map.counts(*s[1:])[BlockState.ABSENT]]
        wanted: dict[Key, int] = {}
        for volume, first, count in absent:
            if missing := self._unresolved(volume, first, count):
                wanted |= self._wanted(volume.root, first, count, missing)
        return wanted

    def read(
        self,
        root: TableRoot,
        offset: int = 0,
        length: int | None = None,
        priority: Priority = Priority.DEMAND,
        came: Counter[str] | None = None,
        patience: float | None = None,
    ) -> bytes:
        """Bytes of a volume, by default all of it; for small ones. Raises ChunksUnavailable.

        came: where chunks that came are counted, by source. patience: as `_bring` has it
        """
        came = Counter() if came is None else came
        length = root.size - offset if length is None else length
        first = offset // BLOCK_SIZE
        count = -(-min(offset + length, root.size) // BLOCK_SIZE) - first
        while missing := self._store.missing_in(root, offset, length):
            wanted = self._wanted(root, first, count, missing, self._blob_piece(priority))
            came.update(self._bring(wanted, priority, patience=patience))
        return self._store.read(root, offset, length)

    def bring(self, refs: bytes, priority: Priority = Priority.DEMAND) -> None:
        """Make the chunks present in the store, verified.

        Raises ChunksUnavailable, and ReadAbandoned once the fetcher is closed.
        """
        step = AT_ONCE * CHUNK_REF_SIZE
        for start in range(0, len(refs), step):
            part = split_refs(refs[start : start + step])
            self._bring(dict.fromkeys(part, STORED_BLOCK_BYTES), priority)

    def _wanted(
        self,
        root: TableRoot,
        first: int,
        count: int,
        missing: bytes,
        piece: tuple[int, int] = (STORED_BLOCK_BYTES, PLACE_BLOCKS),
    ) -> dict[Key, int]:
        """What to ask for, with its size: places where pages are missing, else chunks. piece: bytes
        of a block, and how many below a page at most."""
        each, most = piece
        places = places_missing(self._store, root, first, count, most)
        if places:
            places = [replace(place, page=self._instead(place.page)) for place in places]
            return {p: p.count * each + (p.level + 1) * PAGE_BYTES for p in places}
        return dict.fromkeys(split_refs(missing)[:AT_ONCE], each)

    def _bring(
        self,
        wanted: Mapping[Key, int],
        priority: Priority,
        *,
        patience: float | None = None,
    ) -> Counter[str]:
        """Have it here; how many chunks came, by source. patience: seconds in which nothing comes,
        before it fails; by default PATIENCE_SECONDS."""
        if self._closed.is_set():
            raise _abandoned()
        everyone = [*self._exchange.shared(), *self._suppliers]
        ticket = self._exchange.want(wanted, priority, everyone, self.tally)
        with self._lock:
            self._tickets.add(ticket)
        try:
            if self._closed.is_set():
                raise _abandoned()
            if not self._exchange.wait(ticket, patience or PATIENCE_SECONDS):
                raise ChunksUnavailable(
                    f"{len(ticket.missing)} chunks cannot be had",
                    why=self.tally.complaint() or "no source has them",
                    fix="check the media",
                )
        finally:
            with self._lock:
                self._tickets.discard(ticket)
            self._exchange.drop(ticket)
        return ticket.came

    @property
    def rate(self) -> float:
        """Bytes a second that the nearest source gives; 0 while that is not known."""
        known = (s.standing.estimate for s in self._near() if s.standing.estimate.rate_known)
        return max((estimate.rate for estimate in known), default=0.0)

    def _window(self) -> int:
        """Blocks to fetch for a missing one: as many as the nearest source's link has room for
        during a round trip, a power of two."""
        worthwhile = max((s.standing.estimate.bandwidth_delay for s in self._near()), default=0.0)
        blocks = max(1, int(worthwhile / STORED_BLOCK_BYTES))
        return min(self._readahead, 1 << (blocks.bit_length() - 1))

    def _blob_piece(self, priority: Priority) -> tuple[int, int]:
        if priority is Priority.DEMAND:
            return STORED_BLOCK_BYTES, PLACE_BLOCKS
        sizes = [s.standing.batch_bytes(priority) for s in self._near()]
        modest = max(sizes, default=STORED_BLOCK_BYTES)
        return WHOLE_BLOCK_BYTES, max(1, modest // WHOLE_BLOCK_BYTES)

    def _near(self) -> list[Supplier]:
        """The nearest source that can be asked."""
        now = time.monotonic()
        usable = [s for s in self._suppliers if s.standing.usable_from <= now]
        return usable[:1]


def _abandoned() -> ReadAbandoned:
    return ReadAbandoned("chunks are not fetched", why="the replica is being ended")
