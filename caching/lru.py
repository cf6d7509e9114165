# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What was asked for longest ago goes first, but before it what nobody has asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container

from caching.policy import Key, Queue, take


class Lru:
    """See the module. What was asked for is normal; nothing is high."""

    def __init__(self, capacity: int) -> None:
        """capacity: keys, about; of no meaning here."""
        self._low: OrderedDict[Key, None] = OrderedDict()
        self._normal: OrderedDict[Key, None] = OrderedDict()

    def touched(self, key: Key) -> Queue | None:
        if key in self._normal:
            self._normal.move_to_end(key)
            return Queue.NORMAL
        before = Queue.LOW if key in self._low else None
        self._low.pop(key, None)
        self._normal[key] = None
        return before

    def brought(self, key: Key) -> None:
        if key not in self._normal:
            self._low.setdefault(key)

    def removed(self, key: Key) -> None:
        self._low.pop(key, None)
        self._normal.pop(key, None)

    def victims(self, count: int, pinned: Container[Key] = ()) -> list[Key]:
        found = take(self._low, count, pinned)
        return found + take(self._normal, count - len(found), pinned)

    def counts(self) -> dict[Queue, int]:
        return {Queue.HIGH: 0, Queue.NORMAL: len(self._normal), Queue.LOW: len(self._low)}


__all__ = ["Lru"]
