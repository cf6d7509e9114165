# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a program did, from when to when: the last of it, in memory, for whoever asks.

- span: a name, a kind and two moments of this host's monotonic clock, in seconds
- kind: what spans are told apart by, such as `fetch`; those of one kind may overlap
- steps: spans that follow each other without a gap
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SPANS_KEPT = 8192
"""The most spans that a recorder keeps; it drops the oldest."""


class Span(NamedTuple):
    """See the module."""

    name: str
    kind: str
    began: float
    ended: float


class Spans:
    """Records spans. Thread-safe, and cheap enough to be always on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Span] = deque(maxlen=SPANS_KEPT)

    def add(self, name: str, kind: str, began: float, ended: float) -> None:
        """Record one that has ended."""
        with self._lock:
            self._kept.append(Span(name, kind, began, ended))

    @contextmanager
    def span(self, name: str, kind: str) -> Iterator[None]:
        """Record the block, however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(name, kind, began, time.monotonic())

    def since(self, moment: float) -> list[Span]:
        """Return the spans that ended after that moment of the monotonic clock, oldest first."""
        with self._lock:
            return [span for span in self._kept if span.ended > moment]


class Steps:
    """Names what was done since the step before. Of one thread."""

    def __init__(self, spans: Spans, kind: str, began: float | None = None) -> None:
        """began: when the first step began, by default now."""
        self._spans = spans
        self._kind = kind
        self._at = time.monotonic() if began is None else began

    def done(self, name: str) -> None:
        """The step that ends now, which began where the one before ended."""
        began, self._at = self._at, time.monotonic()
        self._spans.add(name, self._kind, began, self._at)


def process_began() -> float:
    """When this process was started, on the monotonic clock; right to 10 ms. (proc(5): the 22nd
    field of stat is in ticks since the host began, with the time that it slept.)"""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    ticks = int(fields.rpartition(")")[2].split()[19])
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - since


__all__ = ["SPANS_KEPT", "Span", "Spans", "Steps", "process_began"]
