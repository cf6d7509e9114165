# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Streams a checkpoint's working set ahead of the machine, in the order of first touch.

Of a machine that another surrogate handed over, what has changed there comes first, and of the
working set only the rest. What it has touched there besides may be had from others; it comes last,
when whoever handed it over is not needed any more.

Where the cache holds anything, the names of the blocks are read as far as they are of use
(`names`). What it has of a frame is then not fetched again, whatever table it came with,
and the rest comes alone where that is less than the frame.

Three threads fetch frame after frame, so that the link is busy while frames are unpacked. A miss of
the machine in a frame that is still to come fetches that frame itself, as urgently as any other
miss; what the stream has of it under way is not asked for again. Other misses are fetched beside
the stream, whose requests are so small that they never wait long.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from chunkstore import (
    PAGE_CHANGES_LIMIT,
    BlockState,
    ChunkInvalid,
    PageChanges,
    PageChangesInvalid,
    Store,
    TableRoot,
    decode_page_changes,
    split_refs,
)
from replica import (
    Frame,
    Run,
    WorkingSetInvalid,
    decode_working_set,
    directory_size,
)
from satchel.errors import SatchelError, StateError
from satchel.ids import BLOCK_SIZE, CHUNK_REF_SIZE, ZERO_REF
from surrogate.fetching import ChunksUnavailable, Fetcher, NamedBlocks, Span
from surrogate.prefetch.names import BlockNames
from volumes import Volume
from wire import Priority

logger = logging.getLogger(__name__)

STREAMS = 3

ALONE_BYTES = 4 * BLOCK_SIZE
"""Blocks without names that the cache lacks are fetched alone, if their frame has so many bytes for
each of them: they need pages of their table as well."""

WHOLE_PART = 0.6
"""A frame is fetched whole where the cache lacks more than this part of its blocks, zeros not
counted. In a frame a block takes 0.68 of what it takes alone, for `speech`; headers come on top."""

ALONE_SECONDS = 5.0
"""How long names, and blocks that are fetched by them, are waited for while nothing of them comes.
The frame has those blocks as well."""

HELD_BYTES = 64 << 10
"""A cache that holds less has nothing of use."""

SPANS = 64
"""Runs of blocks that are brought at once, of those that a machine touched elsewhere."""

END_SECONDS = 2.0

MISS_SECONDS = 30.0
"""How long a miss waits for what says which frames there are, and for the frame that it is in while
nothing of that comes: over the slowest links either takes some seconds. Its blocks are in the
volume as well, and may be had where a frame may not."""

Block = tuple[str, int]
"""A volume and the number of one of its blocks."""


class PendingBlock(enum.Enum):
    """What a block of the stream waits for."""

    LATER = "its frame is not asked for yet"
    UNDER_WAY = "its frame is under way"


@dataclass(frozen=True)
class _Part:
    """A frame of a blob, and those of its blocks that are outdated. number: of a frame of
    the working set; names: of its blocks, once they are here."""

    blob: TableRoot
    frame: Frame
    outdated: frozenset[Block] = frozenset()
    number: int | None = None
    names: bytes = b""

    def blocks(self) -> Iterator[Block]:
        return (block for run, _ in self.pieces() for block in run.blocks())

    def pieces(self) -> list[tuple[Run, int]]:
        """What is to be placed, with the number of its first block in the frame."""
        pieces, start = [], 0
        for run in self.frame.runs:
            own = enumerate(run.blocks())
            good = [n for n, block in own if block not in self.outdated]
            for _, group in itertools.groupby(enumerate(good), lambda item: item[1] - item[0]):
                at = [n for _, n in group]
                pieces.append((Run(run.volume, run.first + at[0], len(at)), start + at[0]))
            start += run.count
        return pieces

    def named(self) -> dict[str, tuple[list[int], bytes]]:
        """What is to be placed, by volume: numbers and names. Nothing without names."""
        found: dict[str, tuple[list[int], bytes]] = {}
        for run, at in self.pieces() if self.names else ():
            numbers, names = found.get(run.volume, ([], b""))
            own = self.names[at * CHUNK_REF_SIZE : (at + run.count) * CHUNK_REF_SIZE]
            numbers += [number for _, number in run.blocks()]
            found[run.volume] = numbers, names + own
        return found

    def comes_whole(self, absent: int) -> bool:
        """Whether it takes fewer bytes than so many of its blocks alone."""
        if not self.names:
            return absent * ALONE_BYTES > self.frame.length
        zeros = split_refs(self.names).count(ZERO_REF)
        return absent > WHOLE_PART * (self.frame.count - zeros)


class Prefetcher:
    """Brings the working set of one replica; ends by itself when that is done. Thread-safe."""

    def __init__(
        self,
        store: Store,
        fetcher: Fetcher,
        working_set: TableRoot | None,
        changed: TableRoot | None = None,
        pages: TableRoot | None = None,
        touched: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """changed: of a machine that was handed over, the blocks that differ from the checkpoint's;
        without its directory nothing is streamed, as the working set's blocks may be outdated.
        pages: what has changed in its tables' pages, None where they come whole. touched: blocks
        that it touched there, as HandoverState has them."""
        self._store = store
        self._fetcher = fetcher
        self._held = store.pack_bytes > HELD_BYTES
        self._names: BlockNames | None = None
        self._piecemeal = True
        self._working_set = working_set
        self._changed_set = changed
        self._pages_set = pages
        self._page_changes: PageChanges | None = None if changed else {}
        self._touched = touched
        self._changes: frozenset[Block] | None = None
        self._independent = threading.Event()
        self._done = threading.Event()
        self._volumes: dict[str, Volume] = {}
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._learning = False
        self._began = 0.0
        self._frames: list[_Part] = []
        self._queue: deque[int] = deque()
        self._coming: dict[tuple[str, int], int] = {}
        self._urgent: set[int] = set()

    def start(self, volumes: Mapping[str, Volume]) -> None:
        """Begin, with the volumes of a machine that is about to be loaded."""
        self._volumes = dict(volumes)
        self._learning = True
        self._began = time.monotonic()
        self._begin(self._run)

    def join(self) -> None:
        """Wait for the end, which a closed fetcher brings about, but not for a silent source."""
        for thread in self._threads:
            thread.join(END_SECONDS)

    @property
    def remaining(self) -> int | None:
        """Bytes that are still to come; None before that is known."""
        with self._changed:
            if self._learning or not self._began:
                return None
            return sum(self._frames[n].frame.length for n in set(self._coming.values()))

    @property
    def independent(self) -> bool:
        """Whether all has come that only the surrogate has that handed the machine over."""
        return self._independent.is_set() or self._changed_set is None

    @property
    def done(self) -> bool:
        """Whether it brings nothing more."""
        return self._done.is_set()

    def coming(self, block: Block) -> PendingBlock | None:
        """How near a block of the stream is; None: it is here, or no part of it."""
        with self._changed:
            number = self._coming.get(block)
            if number is None:
                return None
            return PendingBlock.LATER if number in self._queue else PendingBlock.UNDER_WAY

    def changes(self) -> frozenset[Block]:
        """What had changed when the machine was handed over. Raises StateError where that could
        not be found out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._learning)
            if self._changes is None:
                raise StateError("the changes since the checkpoint are unknown")
            return self._changes

    def page_changes(self) -> PageChanges | None:
        """What had changed in the tables' pages then; None where that is not known."""
        return self._page_changes

    def resolve(self, volume: Volume, first: int, count: int) -> None:
        """The resolver of a replica with a working set: makes blocks present. Raises as the
        fetcher's."""
        blocks = [(volume.name, block) for block in range(first, first + count)]
        with self._changed:
            left = self._began + MISS_SECONDS - time.monotonic()
            self._changed.wait_for(lambda: not self._learning, max(0.0, left))
            awaited = {self._coming[block] for block in blocks if block in self._coming}
            mine = awaited - self._urgent
            self._urgent |= mine
            self._queue = deque(number for number in self._queue if number not in mine)
        for number in sorted(mine):
            self._bring(number, Priority.DEMAND)
        with self._changed:
            self._changed.wait_for(lambda: not any(block in self._coming for block in blocks))
        if any(volume.map.entry(block).state is BlockState.ABSENT for _, block in blocks):
            self._fetcher.resolve(volume, first, count)

    def _begin(self, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name="prefetch", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _run(self) -> None:
        parts: list[_Part] = []
        changes: frozenset[Block] | None = None
        try:
            if self._changed_set:
                parts = [_Part(self._changed_set, f) for f in self._directory(self._changed_set)]
            changes = frozenset(block for part in parts for block in part.blocks())
            if self._working_set:
                blob = self._working_set
                frames = self._directory(blob)
                if self._held:
                    self._names = BlockNames(
                        frames, partial(self._read_names, blob), self._store.has
                    )
                parts += [_Part(blob, f, changes, n) for n, f in enumerate(frames)]
        except Exception as error:
            _tell("no prefetch", error)
        with self._changed:
            for number, part in enumerate(parts):
                self._coming.update((block, number) for block in part.blocks())
            self._frames, self._changes = parts, changes
            self._queue.extend(range(len(parts)))
            self._learning = False
            self._changed.notify_all()
        after = [self._begin(self._stream) for _ in range(STREAMS - 1)]
        if changes is not None:
            after.append(self._begin(lambda: self._become_independent(changes)))
        self._stream()
        for thread in after:
            thread.join()
        self._bring_touched(changes or frozenset())
        count = sum(part.frame.count for part in parts)
        seconds = time.monotonic() - self._began
        logger.info("working set: %d blocks in %.1f s", count, seconds)
        self._done.set()

    def _become_independent(self, changes: frozenset[Block]) -> None:
        """Have every changed block here, also where the stream ended early, and the pages above, or
        what they are made of."""
        self._learn_pages()
        with self._changed:
            self._changed.wait_for(lambda: changes.isdisjoint(self._coming))
        try:
            for name, volume in self._volumes.items():
                blocks = sorted(number for which, number in changes if which == name)
                self._fetcher.ahead([(volume, block, 1) for block in blocks])
                if self._page_changes is None:
                    self._fetcher.pages(volume.root, blocks)
            self._independent.set()
        except Exception as error:
            _tell("some changes stay with who handed the machine over", error)

    def _learn_pages(self) -> None:
        """Without it pages come whole, from who handed the machine over."""
        if (blob := self._pages_set) is None:
            return
        roots = {name: volume.root for name, volume in self._volumes.items()}
        try:
            if blob.size > PAGE_CHANGES_LIMIT:
                raise PageChangesInvalid("too many changes of pages", why=f"{blob.size} bytes")
            changes = decode_page_changes(
                self._fetcher.read(blob, priority=Priority.PREFETCH), roots
            )
            self._fetcher.make_pages(changes)
            self._page_changes = changes
        except Exception as error:
            _tell("pages come whole", error)

    def _bring_touched(self, changes: frozenset[Block]) -> None:
        """What neither the changes nor the working set had, and the machine has touched before.
        Then the pages above the changes, which the next hand-over is going to need."""
        spans = []
        for name, volume in self._volumes.items():
            runs = self._touched.get(name, ())
            pairs = zip(runs[::2], runs[1::2], strict=True)
            spans += [(volume, first, n) for first, n in pairs if first + n <= volume.blocks]
        try:
            for start in range(0, len(spans), SPANS):
                self._fetcher.ahead(spans[start : start + SPANS])
            for name, volume in self._volumes.items():
                blocks = [number for which, number in changes if which == name]
                self._fetcher.pages(volume.root, blocks, Priority.BACKGROUND)
        except Exception as error:
            _tell("what was touched before is not brought ahead", error)

    def _directory(self, blob: TableRoot) -> list[Frame]:
        head = self._fetcher.read(blob, 0, min(BLOCK_SIZE, blob.size))
        size = directory_size(head)
        if size > blob.size:
            raise WorkingSetInvalid("not a working set", why="its directory is cut short")
        roots = {name: volume.root for name, volume in self._volumes.items()}
        return decode_working_set(self._fetcher.read(blob, 0, size), blob.size, roots)

    def _read_names(self, blob: TableRoot, offset: int, length: int, priority: Priority) -> bytes:
        patience = ALONE_SECONDS if priority is Priority.DEMAND else None
        return self._fetcher.read(blob, offset, length, priority, patience=patience)

    def _named(self, part: _Part, priority: Priority) -> _Part:
        """The part with its names, where they are of use."""
        if self._names is None or part.number is None:
            return part
        read = self._names.at_once if priority is Priority.DEMAND else self._names.ahead
        return replace(part, names=read(part.number))

    def _stream(self) -> None:
        while (number := self._next()) is not None:
            self._bring(number, Priority.PREFETCH)

    def _bring(self, number: int, priority: Priority) -> None:
        """Have a frame in its place. Where that fails, the stream ends and misses go on alone; of a
        frame that a miss cannot have soon, its blocks are left to misses."""
        part = self._frames[number]
        try:
            self._place(part, priority)
        except ChunksUnavailable as error:
            _tell("a frame of the working set is left out", error)
            if priority is not Priority.DEMAND:
                self._give_up()
        except Exception as error:
            _tell("prefetch ended early", error)
            self._give_up()
        with self._changed:
            for block in part.blocks():
                self._coming.pop(block, None)
            self._changed.notify_all()

    def _next(self) -> int | None:
        with self._changed:
            return self._queue.popleft() if self._queue else None

    def _give_up(self) -> None:
        """What has not come yet is left to the machine's misses."""
        with self._changed:
            self._queue.clear()
            self._coming.clear()

    def _place(self, part: _Part, priority: Priority) -> None:
        part = self._named(part, priority)
        pieces, frame = part.pieces(), part.frame
        spans = [(self._volumes[run.volume], run.first, run.count) for run, _ in pieces]
        named = [(self._volumes[name], *blocks) for name, blocks in part.named().items()]
        absent = self._absent(spans, named)
        if not absent or self._alone(part, spans, named, absent, priority):
            return
        for volume, first, count in spans:
            volume.map.foresee(first, count)
        with self._fetcher.coverage.coming(spans) as came:
            extent = frame.offset, frame.length
            data = self._fetcher.read(part.blob, *extent, priority, came, self._patience(priority))
            content = memoryview(frame.expand(data))
            for name, group in itertools.groupby(pieces, key=lambda piece: piece[0].volume):
                numbers, blocks = [], []
                for run, at in group:
                    numbers += [block for _, block in run.blocks()]
                    blocks.append(content[at * BLOCK_SIZE : (at + run.count) * BLOCK_SIZE])
                self._store.place(self._volumes[name].map, numbers, b"".join(blocks))

    def _absent(self, spans: Sequence[Span], named: Sequence[NamedBlocks]) -> int:
        """How many of these blocks are not here, once those that the cache has are in the maps: by
        their names, and without these by the tables' pages."""
        for volume, numbers, names in named:
            self._store.place_named(volume.map, numbers, names)
        left = 0
        for volume, first, count in spans:
            if not named and volume.map.counts(first, count)[BlockState.ABSENT]:
                with suppress(ChunkInvalid):  # a page that is none; the frame does without pages
                    self._store.resolve(volume.root, volume.map, first, count)
            left += volume.map.counts(first, count)[BlockState.ABSENT]
        return left

    def _alone(
        self,
        part: _Part,
        spans: Sequence[Span],
        named: Sequence[NamedBlocks],
        absent: int,
        priority: Priority,
    ) -> bool:
        """Have the absent blocks without their frame, where that brings fewer bytes; whether they
        are here. Once only a far source has blocks that are asked for by name, frames come whole:
        a medium with a part of the state has those."""
        extent = part.frame.offset, part.frame.length
        if part.comes_whole(absent) or not self._store.missing_in(part.blob, *extent):
            return False
        if not named:
            self._fetcher.ahead(spans, self._patience(priority), priority)
            return True
        if self._piecemeal:
            try:
                self._piecemeal = self._fetcher.named(named, ALONE_SECONDS, priority)
            except ChunksUnavailable as error:
                _tell("frames come whole from now on", error)
                self._piecemeal = False
            else:
                return True
        return False

    def _patience(self, priority: Priority) -> float | None:
        return MISS_SECONDS if priority is Priority.DEMAND else None


def _tell(what: str, error: Exception) -> None:
    """Of an error after which the machine's misses go on without the stream."""
    logger.info("%s: %s", what, error, exc_info=not isinstance(error, SatchelError))
