# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Locks of byte ranges, as fcntl(2) has them, and of whole files, as flock(2) has them.

A lock belongs to a node and to an owner there. Who waits is served in the order of asking: nobody
passes somebody whom the new lock would be in the way of.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from shares.node import FLOCK, LockKind
from shares.protocol import FileId, NodeId

Owner = tuple[NodeId, int]

LIMIT = 8192
"""Locks that one node may have. Each is looked at for every other, and a guest asks for what it
likes."""


@dataclass(frozen=True)
class _Lock:
    """start and end are both of it."""

    owner: Owner
    start: int
    end: int
    kind: LockKind
    pid: int

    def meets(self, other: _Lock) -> bool:
        return self.start <= other.end and other.start <= self.end

    def forbids(self, other: _Lock) -> bool:
        exclusive = LockKind.WRITE in (self.kind, other.kind)
        of_one_kind = (self.owner[1] >= FLOCK) == (other.owner[1] >= FLOCK)
        return of_one_kind and self.owner != other.owner and exclusive and self.meets(other)


class _Waiter:
    def __init__(self, lock: _Lock) -> None:
        self.lock = lock
        self.over = False


class Locks:
    """All locks of one share. Thread-safe; a call that waits holds its thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: defaultdict[FileId, list[_Lock]] = defaultdict(list)
        self._waiting: defaultdict[FileId, list[_Waiter]] = defaultdict(list)

    def get(
        self, node: NodeId, file: FileId, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        """The first lock in the way: start, end (inclusive), kind, pid."""
        wanted = _checked(_Lock((node, owner), start, end, kind, 0))
        with self._changed:
            found = [held for held in self._held.get(file, ()) if held.forbids(wanted)]
            if not found:
                return None
            first = min(found, key=lambda held: held.start)
            return first.start, first.end, first.kind, first.pid

    def set(
        self,
        node: NodeId,
        file: FileId,
        owner: int,
        start: int,
        end: int,
        kind: LockKind,
        pid: int,
        wait: bool,
    ) -> None:
        """Raises OSError: EAGAIN where it is locked and `wait` is not set, EDEADLK where waiting
        would never end, EINTR where the wait was taken back: by an unlock of the same owner, or
        because the node is lost; ENOLCK where the node would have too many."""
        wanted = _checked(_Lock((node, owner), start, end, kind, pid))
        with self._changed:
            if kind is LockKind.UNLOCK:
                self._give_up(file, lambda lock: lock.owner == wanted.owner and lock.meets(wanted))
                self._put(file, wanted)
                return
            if not self._blocked(file, wanted, None):
                self._put(file, wanted)
                return
            if not wait:
                raise _error(errno.EAGAIN)
            if self._circle(wanted, file):
                raise _error(errno.EDEADLK)
            waiter = _Waiter(wanted)
            self._waiting[file].append(waiter)
            try:
                while not waiter.over and self._blocked(file, wanted, waiter):
                    self._changed.wait()
                if waiter.over:
                    raise _error(errno.EINTR)
                self._put(file, wanted)
            finally:
                self._waiting[file].remove(waiter)
                self._changed.notify_all()

    def _require_room(self, node: NodeId) -> None:
        if self.count() < LIMIT:
            return
        if sum(lock.owner[0] == node for held in self._held.values() for lock in held) >= LIMIT:
            raise _error(errno.ENOLCK)

    def forget(self, node: NodeId, file: FileId, owner: int) -> None:
        """The owner is no more."""
        self._drop(lambda lock: lock.owner == (node, owner), [file])

    def lost(self, node: NodeId) -> None:
        """The node is no more."""
        with self._changed:
            self._drop(lambda lock: lock.owner[0] == node, [*self._held, *self._waiting])

    def count(self) -> int:
        with self._changed:
            return sum(map(len, self._held.values()))

    def _drop(self, whose: Callable[[_Lock], bool], files: list[FileId]) -> None:
        with self._changed:
            for file in files:
                self._give_up(file, whose)
                if file in self._held:
                    self._held[file] = [lock for lock in self._held[file] if not whose(lock)]
                    if not self._held[file]:
                        del self._held[file]
            self._changed.notify_all()

    def _give_up(self, file: FileId, whose: Callable[[_Lock], bool]) -> None:
        for waiter in self._waiting.get(file, ()):
            waiter.over = waiter.over or whose(waiter.lock)

    def _blocked(self, file: FileId, wanted: _Lock, me: _Waiter | None) -> bool:
        held = self._held.get(file, ())
        if any(lock.forbids(wanted) for lock in held):
            return True
        if any(lock.owner == wanted.owner for lock in held):
            return False  # those who wait may wait for this very owner
        for waiter in self._waiting.get(file, ()):
            if waiter is me:
                return False
            if not waiter.over and waiter.lock.forbids(wanted):
                return True
        return False

    def _circle(self, wanted: _Lock, file: FileId) -> bool:
        """Whether somebody whom this lock would wait for waits, in the end, for its owner."""
        waits = {
            waiter.lock.owner: (where, waiter.lock)
            for where, waiters in self._waiting.items()
            for waiter in waiters
        }
        seen: set[Owner] = set()
        ahead = [(file, wanted)]
        while ahead:
            where, lock = ahead.pop()
            for held in self._held.get(where, ()):
                if not held.forbids(lock):
                    continue
                if held.owner == wanted.owner:
                    return True
                if held.owner not in seen and held.owner in waits:
                    seen.add(held.owner)
                    ahead.append(waits[held.owner])
        return False

    def _put(self, file: FileId, new: _Lock) -> None:
        """What the owner has in the range becomes this; neighbours of one kind become one."""
        kept: list[_Lock] = []
        before = self._held.get(file, [])
        for lock in before:
            if lock.owner != new.owner or not lock.meets(new):
                kept.append(lock)
                continue
            if lock.start < new.start:
                kept.append(replace(lock, end=new.start - 1))
            if lock.end > new.end:
                kept.append(replace(lock, start=new.end + 1))
        if new.kind is not LockKind.UNLOCK:
            for lock in list(kept):
                alike = (lock.owner, lock.kind, lock.pid) == (new.owner, new.kind, new.pid)
                if alike and lock.start <= new.end + 1 and new.start <= lock.end + 1:
                    kept.remove(lock)
                    start, end = min(lock.start, new.start), max(lock.end, new.end)
                    new = replace(new, start=start, end=end)
            kept.append(new)
        if len(kept) > len(before):
            self._require_room(new.owner[0])
        self._held.pop(file, None)
        if kept:
            self._held[file] = kept
        self._changed.notify_all()


def _checked(lock: _Lock) -> _Lock:
    if not 0 <= lock.start <= lock.end < 1 << 64:
        raise _error(errno.EINVAL)
    return lock


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
