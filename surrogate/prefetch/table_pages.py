# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Brings the table pages above what a machine has written, before anybody wants to freeze it.

To name what a machine is, each page above a block that was written is made anew, of the one that
there is. A block that was streamed came without those. Whoever asks for a hand-over has just walked
away, so that they would come over two links more than now, and somebody would wait for them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable

from chunkstore import FANOUT, BlockState
from satchel.errors import SatchelError, StateError
from surrogate.fetching import Fetcher
from volumes import ReadAbandoned, Volume
from wire import Priority

logger = logging.getLogger(__name__)

PAGE_POLL_SECONDS = 2.0

FLUSH_SECONDS = 15.0
"""How often a machine's memory is flushed for this. Until then, or until the kernel does it, which
takes up to half a minute, nobody sees what a machine has written there."""

END_SECONDS = 2.0


def written(volume: Volume) -> Iterable[int]:
    """A block under each lowest page under which something was written."""
    for first in range(0, volume.blocks, FANOUT):
        count = min(FANOUT, volume.blocks - first)
        if volume.map.counts(first, count)[BlockState.DIRTY]:
            yield first


class TablePagePrefetcher:
    """Of one replica. Thread-safe."""

    def __init__(
        self, fetcher: Fetcher, quiet: Callable[[], bool], flush: Callable[[], None]
    ) -> None:
        """quiet: whether the machine runs, and nothing is fetched ahead of it that goes before
        this. flush: see Replica"""
        self._fetcher = fetcher
        self._quiet = quiet
        self._flush = flush
        self._volumes: Collection[Volume] = ()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pages-ahead", daemon=True)

    def start(self, volumes: Collection[Volume]) -> None:
        """Begin, with the volumes of a machine that is about to be loaded."""
        self._volumes = volumes
        self._thread.start()

    def close(self) -> None:
        """End it. A closed fetcher ends a request that is under way."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        had, flushed = 0, -math.inf
        while not self._closed.wait(PAGE_POLL_SECONDS):
            try:
                if not self._quiet():
                    continue
                if time.monotonic() - flushed > FLUSH_SECONDS:
                    self._flush()
                    flushed = time.monotonic()
                dirty = sum(volume.map.count(BlockState.DIRTY) for volume in self._volumes)
                if dirty == had:
                    continue
                for volume in self._volumes:
                    self._fetcher.pages(volume.root, written(volume), Priority.BACKGROUND)
                had = dirty
            except (ReadAbandoned, StateError):
                return
            except SatchelError as error:
                logger.info("pages above what was written are not here yet: %s", error)
