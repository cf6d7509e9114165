# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine is at, in the words of profiles: resumed, at a first operation, steady, idle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from replica.profile import IDLE, STEADY, first_of
from satchel.spans import Spans, Steps

LABEL_LIMIT = 64
"""Kinds of operations that are told apart."""


class Phases:
    """Of one machine. Its owner enters them one at a time; any thread may look.

    now: empty until a machine that boots is ready
    spans, steps: what starting and freezing it took, and its operations
    """

    def __init__(self) -> None:
        self.now = ""
        self.spans = Spans()
        self.steps = Steps(self.spans, "machine")
        self._begun: dict[str, None] = {}
        self._labels: set[str] = set()

    def begun(self) -> tuple[str, ...]:
        """Those so far, each once, in the order in which they began."""
        return tuple(self._begun)

    def enter(self, phase: str) -> None:
        self.now = phase
        self._begun[phase] = None

    @contextlib.contextmanager
    def operation(self, label: str) -> Iterator[None]:
        """While an operation of that kind is executed; idle afterwards."""
        if label in self._labels or len(self._labels) >= LABEL_LIMIT:
            self.enter(STEADY)
        else:
            self._labels.add(label)
            self.enter(first_of(label))
        try:
            with self.spans.span(self.now, "operations"):
                yield
        finally:
            self.enter(IDLE)
