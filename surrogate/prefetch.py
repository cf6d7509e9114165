# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Streams a checkpoint's working set ahead of the machine, in the order of first touch.

Three threads fetch frame after frame, so that the link is busy while frames are unpacked. A miss of
the machine in a frame that is still to come fetches that frame itself, as urgently as any other
miss; what the stream has of it under way is not asked for again. Other misses are fetched beside
the stream, whose requests are so small that they never wait long.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from chunkstore import BlockState, Store, TableRoot
from overlay import Volume
from replica import Frame, WorkingSetInvalid, decode_working_set, directory_size
from satchel.errors import SatchelError
from satchel.ids import BLOCK_SIZE
from surrogate.fetching import Fetcher
from wire import Priority

logger = logging.getLogger(__name__)

STREAMS = 3

END_SECONDS = 2.0


class Prefetcher:
    """Brings the working set of one replica; ends by itself when that is done. Thread-safe."""

    def __init__(self, store: Store, fetcher: Fetcher, blob: TableRoot) -> None:
        self._store = store
        self._fetcher = fetcher
        self._blob = blob
        self._volumes: dict[str, Volume] = {}
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._learning = False
        self._began = 0.0
        self._frames: list[Frame] = []
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
            return sum(self._frames[number].length for number in set(self._coming.values()))

    def resolve(self, volume: Volume, first: int, count: int) -> None:
        """The resolver of a replica with a working set: makes blocks present. Raises as the
        fetcher's."""
        blocks = [(volume.name, block) for block in range(first, first + count)]
        with self._changed:
            self._changed.wait_for(lambda: not self._learning)
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

    def _begin(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name="prefetch", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        frames: list[Frame] = []
        try:
            frames = self._directory()
        except Exception as error:
            _tell("no prefetch", error)
        with self._changed:
            for number, frame in enumerate(frames):
                self._coming.update((b, number) for run in frame.runs for b in run.blocks())
            self._frames = frames
            self._queue.extend(range(len(frames)))
            self._learning = False
            self._changed.notify_all()
        for _ in range(STREAMS - 1):
            self._begin(self._stream)
        self._stream()
        count = sum(frame.count for frame in frames)
        seconds = time.monotonic() - self._began
        logger.info("working set: %d blocks in %.1f s", count, seconds)

    def _directory(self) -> list[Frame]:
        blob = self._blob
        head = self._fetcher.read(blob, 0, min(BLOCK_SIZE, blob.size))
        size = directory_size(head)
        if size > blob.size:
            raise WorkingSetInvalid("not a working set", why="its directory is cut short")
        roots = {name: volume.root for name, volume in self._volumes.items()}
        return decode_working_set(self._fetcher.read(blob, 0, size), blob.size, roots)

    def _stream(self) -> None:
        while (number := self._next()) is not None:
            self._bring(number, Priority.PREFETCH)

    def _bring(self, number: int, priority: Priority) -> None:
        """Have a frame in its place. Where that fails, the stream ends and misses go on alone."""
        frame = self._frames[number]
        try:
            self._place(frame, priority)
        except Exception as error:
            _tell("prefetch ended early", error)
            self._give_up()
        with self._changed:
            for block in (b for run in frame.runs for b in run.blocks()):
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

    def _place(self, frame: Frame, priority: Priority) -> None:
        spans = [(self._volumes[run.volume], run.first, run.count) for run in frame.runs]
        if not any(v.map.counts(first, count)[BlockState.ABSENT] for v, first, count in spans):
            return
        for volume, first, count in spans:
            volume.map.foresee(first, count)
        with self._fetcher.coverage.coming(spans) as came:
            data = self._fetcher.read(self._blob, frame.offset, frame.length, priority, came)
            content = memoryview(frame.expand(data))
            for name, runs in itertools.groupby(frame.runs, key=lambda run: run.volume):
                numbers = [block for run in runs for _, block in run.blocks()]
                size = len(numbers) * BLOCK_SIZE
                self._store.place(self._volumes[name].map, numbers, content[:size])
                content = content[size:]


def _tell(what: str, error: Exception) -> None:
    """Of an error after which the machine's misses go on without the stream."""
    logger.info("%s: %s", what, error, exc_info=not isinstance(error, SatchelError))
