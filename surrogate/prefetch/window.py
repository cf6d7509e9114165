# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How much is fetched of what is predicted, and how sure a prediction has to be. Pure.

As congestion control does with a link: it goes up a step while predictions are right, and down two
where they are not. A batch is judged once the machine has touched as much again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

Block = tuple[str, int]

GOOD = 0.8
"""The part of a batch that has to be used: a quarter of what is used may come in vain."""

JUDGED_AFTER = 32
"""Touches after a batch, besides twice its size, after which it is judged."""


class WindowStep(NamedTuple):
    """blocks: in a request, at most; trust: in a block, at least; cold: whether runs that are
    seldom used count."""

    blocks: int
    trust: int
    cold: bool


STEPS = (
    WindowStep(8, 2, False),
    WindowStep(16, 1, False),
    WindowStep(32, 1, True),
    WindowStep(64, 1, True),
    WindowStep(128, 1, True),
)
"""The last one is 512 KB."""

FIRST_STEP = 2


@dataclass
class _Batch:
    left: set[Block]
    size: int
    judged_at: int


class ReadaheadWindow:
    """See the module. Not thread-safe; for one replica."""

    def __init__(self) -> None:
        self._step = FIRST_STEP
        self._touched = 0
        self._batches: deque[_Batch] = deque()

    @property
    def step(self) -> WindowStep:
        return STEPS[self._step]

    def asked(self, blocks: Iterable[Block]) -> None:
        """These are fetched together, on a prediction."""
        batch = set(blocks)
        due = self._touched + 2 * len(batch) + JUDGED_AFTER
        self._batches.append(_Batch(batch, len(batch), due))

    def touched(self, blocks: Iterable[Block]) -> None:
        """The machine has touched these for the first time."""
        for block in blocks:
            self._touched += 1
            for batch in self._batches:
                batch.left.discard(block)
        while self._batches and self._batches[0].judged_at <= self._touched:
            self._judge(self._batches.popleft())

    def _judge(self, batch: _Batch) -> None:
        right = batch.size - len(batch.left) >= GOOD * batch.size
        self._step = min(self._step + 1, len(STEPS) - 1) if right else max(self._step - 2, 0)
