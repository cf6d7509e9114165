# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What `predicted` has learnt of a share's files: tables that are bounded, and outlive a mount."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shares.protocol.messages import FileId

LIMIT = 16
"""Answers that a context remembers, so that a pattern that changes is learnt anew."""

CONTEXTS, BLOCKS = 65536, 16384
"""Contexts, and blocks, of which something is remembered."""

Context = tuple[object, ...]
"""Words, numbers, None, and tuples of these."""

K = TypeVar("K")
V = TypeVar("V")


class Latest(OrderedDict[K, V], Generic[K, V]):
    """As many as the limit says: those that were put in last."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Answers:
    """How often the next access was another node's, and how often this one's own."""

    elsewhere: float = 0.0
    here: float = 0.0

    @property
    def count(self) -> float:
        return self.elsewhere + self.here

    def with_one(self, *, elsewhere: bool) -> Answers:
        """And one more."""
        part = 0.5 if self.count >= LIMIT else 1.0
        return Answers(self.elsewhere * part + elsewhere, self.here * part + (not elsewhere))


@dataclass
class Tables:
    """answers: by context. groups: what was written soon after a block the last time. before: the
    last two answers of a block."""

    answers: Latest[Context, Answers] = field(default_factory=lambda: Latest(CONTEXTS))
    groups: Latest[tuple[FileId, int], tuple[int, ...]] = field(
        default_factory=lambda: Latest(BLOCKS)
    )
    before: Latest[tuple[FileId, int], tuple[bool, ...]] = field(
        default_factory=lambda: Latest(BLOCKS)
    )
