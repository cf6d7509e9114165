# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What of a cache is given up next: what a policy is."""

from __future__ import annotations

import enum
import itertools
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Iterable
from typing import Protocol

Key = Hashable


class Queue(enum.Enum):
    """Why a key is here, the last to be given up first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class EvictionPolicy(Protocol):
    """What is here, in the order in which it goes. Keeps no content, does no IO, knows no time but
    the order of the calls. Not thread-safe.

    It never gives anything up by itself: whoever needs room asks for `victims`.
    """

    def touched(self, key: Key) -> Queue | None:
        """Somebody has asked for it: it is here now. Where it was before; None: it was not
        here."""

    def brought(self, key: Key) -> None:
        """It is here, and nobody has asked for it yet. Nothing if it was here before."""

    def removed(self, key: Key) -> None:
        """It is not here any more, for another reason than want of room. Nothing if it was not
        here."""

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        """At most `count` keys that are given up: they are not here any more. Never one that is
        pinned."""

    def counts(self) -> dict[Queue, int]:
        """How many keys are in each queue."""


MakePolicy = Callable[[int], EvictionPolicy]
"""From how many keys there is room for, about."""


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


__all__ = ["EvictionPolicy", "Key", "MakePolicy", "Queue", "take"]
