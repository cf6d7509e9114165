# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks of a cache are given up next: what a policy is, and the plainest one."""

from __future__ import annotations

import enum
import itertools
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable
from typing import Protocol

Key = Hashable


class Queue(enum.Enum):
    """Why a chunk is here, the last to be given up first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Policy(Protocol):
    """What is here, in the order in which it goes. Keeps no content, does no IO, knows no time but
    the order of the calls. Not thread-safe.

    It never gives anything up by itself: whoever needs room asks for `victims`.
    """

    def touched(self, key: Key) -> Queue | None:
        """Somebody has asked for a chunk: it is here now. Where it was before; None: it was not
        here."""

    def brought(self, key: Key) -> None:
        """A chunk is here that nobody has asked for yet. Nothing if it was here before."""

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        """At most `count` chunks that are given up: they are not here any more. Never one that is
        pinned."""

    def counts(self) -> dict[Queue, int]:
        """How many chunks are in each queue."""


class Lru:
    """Gives up what was asked for longest ago, but first what nobody has asked for."""

    def __init__(self, capacity: int) -> None:
        """capacity: chunks, about; of no meaning here."""
        self._low: OrderedDict[Key, None] = OrderedDict()
        self._order: OrderedDict[Key, None] = OrderedDict()

    def touched(self, key: Key) -> Queue | None:
        if key in self._order:
            self._order.move_to_end(key)
            return Queue.NORMAL
        self._order[key] = None
        return Queue.LOW if self._low.pop(key, _ABSENT) is None else None

    def brought(self, key: Key) -> None:
        if key not in self._order:
            self._low.setdefault(key)

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        found = take(self._low, count, pinned)
        return found + take(self._order, count - len(found), pinned)

    def counts(self) -> dict[Queue, int]:
        return {Queue.HIGH: 0, Queue.NORMAL: len(self._order), Queue.LOW: len(self._low)}


_ABSENT = object()


def take(
    queue: OrderedDict[Key, None],
    count: int,
    pinned: Container[Key],
    *,
    newest: bool = False,
    spared: int = 0,
) -> list[Key]:
    """The first of a queue that are not pinned, taken out of it. newest: the last, but `spared` of
    them only after all others."""
    found: list[Key] = []
    order: Iterable[Key] = queue
    if newest:
        last = itertools.islice(reversed(queue), spared)
        order = itertools.chain(itertools.islice(reversed(queue), spared, None), last)
    for key in order:
        if len(found) >= count:
            break
        if key not in pinned:
            found.append(key)
    for key in found:
        del queue[key]
    return found


MakePolicy = Callable[[int], Policy]

__all__ = ["Key", "Lru", "MakePolicy", "Policy", "Queue", "take"]
