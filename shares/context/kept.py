# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The successors that home keeps for a share, from what all of its nodes tell."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from shares.context.context_file import load_successors, save_successors
from shares.context.successors import MOST, Succession

log = logging.getLogger(__name__)

SAVED_SECONDS = 60.0
"""Between two times at which they are saved. What a crash loses is learnt again."""


class KeptContext:
    """Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._successors = load_successors(path)
        self._saved = time.monotonic()
        self._changed = False

    def take(self, seen: list[Succession], most: int) -> list[Succession]:
        """A node tells what it has seen. What is known, at most `most` edges."""
        with self._lock:
            for edge in seen:
                if 0 <= edge.reads <= MOST and 0 <= edge.writes <= MOST:
                    self._successors.add(edge)
                    self._changed = True
            return [edge for edge, _ in zip(self._successors.edges(), range(most), strict=False)]

    def save(self, *, now: bool = False) -> None:
        """From time to time, or now; if there is anything new. That it fails is logged."""
        with self._lock:
            if not self._changed or not (now or time.monotonic() - self._saved > SAVED_SECONDS):
                return
            self._changed, self._saved = False, time.monotonic()
            try:
                save_successors(self._path, self._successors)
            except OSError as error:
                log.warning("what is opened after what is not saved: %s", error)
