# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files that a node makes ahead: in a folder that no other node knows anything of it makes them by
itself, under ids that it was given for that, and home hears of them behind that, in order.

What home answers to such a file is handled before anything that it says later, and home does it
before it takes up what this node says later. So whatever is said of the file goes behind it, and
nothing has to be held back.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from shares.node.hub.current_hub import CurrentHub
from shares.node.hub.hub import OwnFolder, PendingCreate
from shares.node.names.marks import Marks
from shares.protocol import FileId

log = logging.getLogger(__name__)

FEW = 512
"""Ids: with fewer the node asks for more."""

FOLDERS = 4096
"""Folders of its own that a node remembers."""


class LocalCreations:
    """What a node may make by itself, and what home has not answered yet. Thread-safe.

    lock: is held while something is made, until home is told: whoever asks home for a name in the
    folder, or is told to give it up, does that before or after
    """

    def __init__(self, home: CurrentHub, *, makes: bool) -> None:
        """makes: whether the node makes files by itself at all"""
        self._home, self._makes = home, makes
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._folders: OrderedDict[FileId, OwnFolder] = OrderedDict()
        self._ids: deque[range] = deque()
        self._asked = False
        self._asking: Counter[FileId] = Counter()
        self._marks = Marks()
        self._pending: OrderedDict[FileId, PendingCreate] = OrderedDict()
        self._disowning: list[tuple[FileId, Callable[[], None]]] = []

    # What the node may do.

    def right(self, folder: FileId) -> tuple[OwnFolder, FileId] | None:
        """With the lock: whether a file may be made in the folder, and under which id (`next` takes
        it). Not while the node asks home for names in it."""
        own = self._folders.get(folder)
        if own is None or self._asking[folder] or not self._ids:
            return None
        self._folders.move_to_end(folder)
        return own, FileId(self._ids[0].start)

    def made(self, making: PendingCreate) -> None:
        """With the lock: it is made, and home is about to be told."""
        ids = self._ids.popleft()
        assert ids.start == making.file
        if len(ids) > 1:
            self._ids.appendleft(ids[1:])
        self._pending[making.file] = making

    def want_ids(self) -> None:
        """Ask for more where there are few; once, until they come."""
        with self.lock:
            if not self._makes or self._asked or sum(map(len, self._ids)) >= FEW:
                return
            self._asked = True
        self._home.latest.ids(self._given_ids)

    def _given_ids(self, given: tuple[FileId, int] | OSError | None) -> None:
        if not isinstance(given, tuple):
            return
        first, count = given
        with self.lock:
            self._asked = False
            self._ids.append(range(first, first + count))

    def mark(self) -> int:
        """To be taken before home is asked for what it may answer with folders."""
        with self.lock:
            return self._marks.now

    def take(self, mark: int, folders: Iterable[OwnFolder]) -> None:
        """They are this node's own, unless that was over before the answer came."""
        with self.lock:
            for own in folders:
                if self._marks.steady(mark, own.folder):
                    self._folders[own.folder] = own
            while len(self._folders) > FOLDERS:
                self._folders.popitem(last=False)

    @contextmanager
    def asking(self, *folders: FileId | None) -> Iterator[int]:
        """Within this home is asked for names in these folders, or to take them away: nothing is
        made there by itself. The mark for `take`."""
        asked = [folder for folder in folders if folder is not None]
        with self.lock:
            self._asking.update(asked)
            mark = self._marks.now
        try:
            yield mark
        finally:
            with self.lock:
                self._asking.subtract(asked)
                for folder in asked:
                    if not self._asking[folder]:
                        del self._asking[folder]

    def drop(self, folder: FileId) -> None:
        """It is as home's to this node from now on; what was made is made."""
        with self.lock:
            self._marks.changed([folder])
            self._folders.pop(folder, None)

    def drop_all(self) -> None:
        """The same of all, and of the ids."""
        with self.lock:
            self._marks.changed_all()
            self._folders.clear()
            self._ids.clear()
            self._asked = False

    # What home has not answered.

    def disown(self, folder: FileId, done: Callable[[], None]) -> None:
        """Another node is about to be told of the folder. done: is called when home has answered
        all that was made in it."""
        with self.lock:
            self.drop(folder)
            self._disowning.append((folder, done))
        self._answer_home()

    def answered(self, file: FileId) -> None:
        """Home has made the file, or refuses it, and the node goes by that."""
        with self.lock:
            self._pending.pop(file, None)
            self._changed.notify_all()
        self._answer_home()

    def _answer_home(self) -> None:
        with self.lock:
            waiting = {making.folder for making in self._pending.values()}
            over = [done for folder, done in self._disowning if folder not in waiting]
            self._disowning = [each for each in self._disowning if each[0] in waiting]
        for done in over:
            done()

    def is_pending(self, file: FileId) -> bool:
        with self.lock:
            return file in self._pending

    def pending(self) -> list[PendingCreate]:
        """In the order in which they were made."""
        with self.lock:
            return list(self._pending.values())

    def lost(self) -> None:
        """The membership is over: nobody is answered, and nothing is made but by home."""
        with self.lock:
            self._disowning.clear()
            self.drop_all()

    def await_made(self, file: FileId | None) -> None:
        """Until home has answered the file, or all, that was made here. Raises OSError: EIO where
        home is not reached."""

        def over() -> bool:
            return file not in self._pending if file is not None else not self._pending

        def wait(seconds: float) -> bool:
            with self.lock:
                return self._changed.wait_for(over, seconds)

        self._home.wait_until(wait)

    def note_unmade(self) -> None:
        """Nobody tells home any more."""
        for making in self.pending():
            log.error("home has perhaps not made %r, which was made here", making.name)
