# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Policies that no share can have, to tell apart what a policy's parts do."""

from __future__ import annotations

from collections.abc import Callable

from shares.protocol import Block, DelayedUpdate, FileId, PushPolicy, WriteInvalidate

THRESHOLD = "delayed-update, threshold alone"
AHEAD = "write-invalidate, ahead of opens"


class ThresholdAlone(DelayedUpdate):
    """The paper's rule, and nothing without a threshold ahead of who opens a file."""

    name = THRESHOLD

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return self._due(file, block)


class AheadPolicy(WriteInvalidate):
    """The other half: nothing is pushed, and native content goes ahead of who opens it."""

    name = AHEAD

    def engaged(self, file: FileId, number: int, block: Block, now: float) -> bool:
        return DelayedUpdate().engaged(file, number, block, now)


VARIANTS: dict[str, Callable[[], PushPolicy]] = {THRESHOLD: ThresholdAlone, AHEAD: AheadPolicy}

__all__ = ["AHEAD", "THRESHOLD", "VARIANTS"]
