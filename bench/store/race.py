# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Keepers of images beside each other: every step in turn by all of them.

Every tool gets the same images one after the other into one folder of its own, step by step in
turn, so that a slow moment of the machine meets all of them; each round begins with another tool.
Of several rounds the median counts.
"""

from __future__ import annotations

import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.store.inputs import Input, warm
from bench.store.keepers import Keeper, Run
from satchel.errors import UnavailableError


class Race:
    """What every keeper took for every step. The first of `kinds` is ours."""

    def __init__(
        self, inputs: dict[str, Input], folder: Path, kinds: Sequence[type[Keeper]]
    ) -> None:
        self._inputs = inputs
        self._folder = folder
        self._rounds = 0
        self.kinds = [kind for kind in kinds if kind.here()]
        self.runs: dict[tuple[str, str], list[Run]] = defaultdict(list)
        self.sizes: dict[tuple[str, str], int] = {}

    @property
    def peers(self) -> list[type[Keeper]]:
        return self.kinds[1:]

    def enter(self) -> list[Keeper]:
        """All keepers, with nothing in them; in the order of `kinds`."""
        self._rounds += 1
        entered = [
            kind(self._folder / f"{self._rounds}-{position}")
            for position, kind in enumerate(self.kinds)
        ]
        for keeper in entered:
            keeper.init()
        return entered

    def put(
        self, entered: Sequence[Keeper], step: str, between: Callable[[], object] | None = None
    ) -> None:
        """Everybody keeps the image of a step. between: done before the next keeper's turn."""
        first = self._rounds % len(entered)
        for keeper in (*entered[first:], *entered[:first]):
            warm(self._inputs[step].path)
            self.runs[keeper.name, step].append(keeper.put(self._inputs[step].path))
            self.sizes[keeper.name, step] = keeper.bytes()
        if between is not None:
            between()

    def leave(self, entered: Sequence[Keeper]) -> None:
        for keeper in entered:
            shutil.rmtree(keeper.folder)

    def seconds(self, keeper: str, step: str) -> float:
        return statistics.median(run.seconds for run in self.runs[keeper, step])

    def peak_mb(self, keeper: str, step: str) -> float:
        return max(run.peak_mb for run in self.runs[keeper, step])

    def fastest(self, step: str) -> str:
        """The peer that deduplicates and took least for a step. Raises UnavailableError."""
        peers = [kind.name for kind in self.peers if kind.deduplicates]
        if not peers:
            raise UnavailableError(
                "no peer that deduplicates is installed", fix="run `scripts/bootstrap --peers`"
            )
        return min(peers, key=lambda name: self.seconds(name, step))
