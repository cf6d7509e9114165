# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Fetches a checkpoint's working set ahead of the machine, in the order of first touch.

Runs in a thread of its own beside the misses of the machine, in groups small enough that a miss
never waits long behind one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from chunkstore import Store, TableRoot
from overlay import Volume
from replica import Run, decode_working_set
from satchel.errors import SatchelError
from surrogate.fetch import Fetcher

logger = logging.getLogger(__name__)

GROUP_BLOCKS = 96
"""Blocks asked for at once: some 150 KB compressed."""

END_SECONDS = 2.0


class Prefetcher:
    """Brings the working set of one replica; ends by itself when that is done."""

    def __init__(self, store: Store, fetcher: Fetcher, blob: TableRoot) -> None:
        self._store = store
        self._fetcher = fetcher
        self._blob = blob
        self._thread: threading.Thread | None = None

    def start(self, volumes: Mapping[str, Volume]) -> None:
        """Begin, with the volumes of a machine that is about to be loaded."""
        self._thread = threading.Thread(
            target=self._run, args=(dict(volumes),), name="prefetch", daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Wait for the end, which a closed fetcher brings about, but not for a silent source."""
        if self._thread:
            self._thread.join(END_SECONDS)

    def _run(self, volumes: Mapping[str, Volume]) -> None:
        try:
            roots = {name: volume.root for name, volume in volumes.items()}
            runs = decode_working_set(self._fetcher.read(self._blob), roots)
            group: list[Run] = []
            blocks = 0
            for run in runs:
                group.append(run)
                blocks += max(1, run.count)
                if blocks >= GROUP_BLOCKS:
                    self._bring(volumes, group)
                    group, blocks = [], 0
            self._bring(volumes, group)
        except SatchelError as error:
            logger.info("prefetch ended early: %s", error)

    def _bring(self, volumes: Mapping[str, Volume], group: list[Run]) -> None:
        while missing := b"".join(self._missing(volumes[run.volume], run) for run in group):
            self._fetcher.bring(missing)

    def _missing(self, volume: Volume, run: Run) -> bytes:
        return self._store.resolve(volume.root, volume.map, run.first, run.count)
