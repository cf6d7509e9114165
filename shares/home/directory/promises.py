# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What nodes were told of names and attributes: they answer from it until they are called back.

As the callbacks of AFS (Howard et al., ACM TOCS 1988): home puts down who was told of what, and
calls those back before it changes that. A node is silent for no longer than its lease; then it
answers from nothing. Size and times of a file that a node has open to write are in block -1, and
the coherence protocol's: while there is such a node, nobody is promised the file's attributes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from shares.home.directory.own_folders import OwnFolders
from shares.home.nodes.session import NodeSession
from shares.node import EVERYTHING, Marks
from shares.protocol import FileId

LIMIT = 100_000
"""Files and folders that a node is known to know; then it is told to forget everything."""

Key = tuple[FileId, bytes | None]
"""A folder and a name in it; or a file, and None: its attributes."""


@dataclass
class _NodeKnowledge:
    """What a node knows: names in these folders, attributes of these files. flushing: how often it
    is being told to forget everything. writes: files that it has open to write. ahead: whether it
    makes files by itself in folders of its own."""

    folders: set[FileId] = field(default_factory=set)
    files: set[FileId] = field(default_factory=set)
    flushing: int = 0
    writes: set[FileId] = field(default_factory=set)
    ahead: bool = False

    def has(self, key: Key) -> bool:
        file, name = key
        named = name is not None and file in self.folders
        return bool(self.flushing) or named or file in self.files


class CallBack:
    """Nodes that are being called back."""

    def __init__(self, told: Iterable[tuple[NodeSession, Key]]) -> None:
        """Never waits."""
        self._done = threading.Semaphore(0)
        self._count = 0
        for session, (file, name) in told:
            self._count += 1
            session.tell_stale(file, name, self._done.release)

    def disown(self, owner: NodeSession, folder: FileId, done: Callable[[], None]) -> None:
        """Call back the owner of a folder as well. Never waits."""

        def over() -> None:
            done()
            self._done.release()

        self._count += 1
        owner.tell_disown(folder, over)

    def wait(self) -> None:
        """Until they have forgotten it, or are no more."""
        for _ in range(self._count):
            self._done.acquire()
        self._count = 0


class Promises:
    """Of one share. Thread-safe; nothing but `changing`, `asked` of a folder, `call_back` and
    CallBack.wait waits.

    What home says to a node is promised where nothing was being changed meanwhile: `asked`, then
    look, then `told`. Names in a folder, and its attributes, are looked at when no other node makes
    files there by itself.
    """

    def __init__(self, relaxed: Callable[[], bool] = lambda: False) -> None:
        """relaxed: whether names that nodes remember may be old for a while. Then a folder is a
        node's own also while others know it: these are called back when home hears of a file."""
        self._relaxed = relaxed
        self._lock = threading.RLock()
        self._sessions: dict[NodeSession, _NodeKnowledge] = {}
        self._changing: Counter[FileId] = Counter()
        self._marks = Marks()
        self._own = OwnFolders()

    def joined(self, session: NodeSession) -> None:
        """From now on the node may be told."""
        with self._lock:
            self._sessions[session] = _NodeKnowledge()

    def asked(self, session: NodeSession, folder: FileId | None = None) -> int:
        """Home is about to look at something for the node; at names in that folder. A word for
        `told`."""
        if folder is not None:
            with self._lock:
                self._known(session).folders.add(folder)
            self.look(session, folder)
        with self._lock:
            return self._marks.now

    def told(self, session: NodeSession, mark: int, files: Collection[FileId]) -> set[FileId]:
        """Home has looked at attributes of these files and folders after that mark: of which the
        node may keep what it was told. Whatever it keeps, it is called back."""
        with self._lock:
            known = self._known(session)
            known.files.update(files)
            flush = len(known.files) + len(known.folders) > LIMIT
            if flush:
                known.files, known.folders = set(files), set()
                known.flushing += 1
            kept = set() if flush else {file for file in files if self._steady(mark, file)}
            kept.difference_update(file for _, file in self._own.others(session, files))
        if flush:
            session.tell_stale(EVERYTHING, None, lambda: self._flushed(known))
        return kept

    def _known(self, session: NodeSession) -> _NodeKnowledge:
        """One that is no more gets its answer no more, and is not put down."""
        return self._sessions.get(session) or _NodeKnowledge()

    def _flushed(self, known: _NodeKnowledge) -> None:
        with self._lock:
            known.flushing -= 1

    @contextmanager
    def changing(self, session: NodeSession, *keys: Key) -> Iterator[list[Key]]:
        """The block changes that for a node. Before it, and after it again, the other nodes are
        called back and waited for. What turns out to be changed as well is added to the list."""
        changed = list(keys)
        with self._lock:
            self._begin(file for file, _ in keys)
            recall = self._recall(session, changed)
            self._disown(recall, session, [file for file, _ in keys])
        try:
            recall.wait()
            yield changed
        finally:
            with self._lock:
                self._marks.changed(file for file, _ in changed)
                self._end(file for file, _ in keys)
                recall = self._recall(session, changed)
            recall.wait()

    # Folders of a node's own.

    def makes_ahead(self, session: NodeSession) -> None:
        """The node is given folders of its own from now on."""
        with self._lock:
            self._known(session).ahead = True

    def own(self, session: NodeSession, folder: FileId) -> bool:
        """Whether the folder is the node's own now: no other one knows anything about it, unless
        names may be old, nor is it being changed."""
        with self._lock:
            others = [known for other, known in self._sessions.items() if other is not session]
            known = any(other.has((folder, b"")) for other in others)
            known = known and not self._relaxed()
            if known or self._changing[folder] or not self._known(session).ahead:
                return False
            given = self._own.give(session, folder)
            if given:  # what others look at now is not promised to them
                self._marks.changed([folder])
            return given

    def made(self, session: NodeSession, folder: FileId) -> bool:
        """The node has made a file in it by itself; whether it may, because it is its own."""
        with self._lock:
            self._marks.changed([folder])
            return self._own.owns(session, folder)

    def made_ahead(self, session: NodeSession, folder: FileId, name: bytes) -> None:
        """Home has made it, too. Who knows the folder is called back, and not waited for."""
        with self._lock:
            self._marks.changed([folder])
            self._recall(session, [(folder, name), (folder, None)])

    def look(self, session: NodeSession, *folders: FileId) -> bool:
        """Home is about to look at these for the node: as `call_back`, but where names may be old
        home looks at what it has."""
        return not self._relaxed() and self.call_back(session, *folders)

    def call_back(self, session: NodeSession, *folders: FileId) -> bool:
        """No other node makes anything in these by itself any more, and what they made home has.
        Waits. Whether there were such nodes."""
        with self._lock:
            recall = CallBack([])
            called = self._disown(recall, session, folders)
        recall.wait()
        return called

    def call_back_all(self) -> None:
        """No node makes anything by itself in the folders that are its own now. Waits."""
        with self._lock:
            recall = CallBack([])
            for owner, folder in self._own.all():
                self._own.calling(folder)
                recall.disown(owner, folder, partial(self._disowned, owner, folder))
        recall.wait()

    def _disown(
        self, recall: CallBack, session: NodeSession | None, folders: Iterable[FileId]
    ) -> bool:
        others = self._own.others(session, folders)
        for owner, folder in others:
            self._own.calling(folder)
            recall.disown(owner, folder, partial(self._disowned, owner, folder))
        return bool(others)

    def _disowned(self, owner: NodeSession, folder: FileId) -> None:
        with self._lock:
            self._own.called(owner, folder)

    def gone(self, folder: FileId) -> None:
        """There is no such folder any more."""
        with self._lock:
            self._own.gone(folder)

    # Files that are written.

    def writing(self, session: NodeSession, file: FileId) -> CallBack:
        """The node is about to be allowed to write a file, until it has `written`. The other nodes
        are called back, and have to be waited for; those that have it open follow block -1. With
        the share's lock."""
        with self._lock:
            known = self._sessions.get(session)
            if known is None or file in known.writes:
                return CallBack([])
            known.writes.add(file)
            self._begin([file])
            return self._recall(session, [(file, None)], but=file)

    def written(self, session: NodeSession, file: FileId) -> None:
        """It writes no more. Harmless where it did not."""
        with self._lock:
            known = self._known(session)
            if file in known.writes:
                known.writes.discard(file)
                self._end([file])

    def writes(self, session: NodeSession, file: FileId) -> bool:
        with self._lock:
            known = self._sessions.get(session)
            return known is not None and file in known.writes

    def written_by_others(self, session: NodeSession, file: FileId) -> bool:
        """Whether nodes but this one may write it."""
        with self._lock:
            known = self._sessions.items()
            return any(file in each.writes for other, each in known if other is not session)

    def recall(self, session: NodeSession | None, file: FileId) -> None:
        """The attributes are others, by nobody's doing: who knows them is called back, but for that
        session."""
        with self._lock:
            self._marks.changed([file])
            self._recall(session, [(file, None)])

    def outside(self, keys: list[Key]) -> None:
        """No node did it, but these are others now: all nodes are called back. Never waits."""
        with self._lock:
            self._marks.changed(file for file, _ in keys)
            self._disown(self._recall(None, keys), None, [file for file, _ in keys])

    def known(self, session: NodeSession) -> int:
        """How many files and folders the node may know."""
        with self._lock:
            known = self._known(session)
            return len(known.files) + len(known.folders)

    def lost(self, session: NodeSession) -> None:
        """The node is no more."""
        with self._lock:
            known = self._sessions.pop(session, None)
            self._own.lost(session)
            if known:
                self._end(known.writes)

    def steady(self, mark: int, folder: FileId) -> bool:
        """Whether the node may keep what it was told after that mark of names in the folder."""
        with self._lock:
            return self._steady(mark, folder)

    def _steady(self, mark: int, file: FileId) -> bool:
        return not self._changing[file] and self._marks.steady(mark, file)

    def _begin(self, files: Iterable[FileId]) -> None:
        begun = list(files)
        self._marks.changed(begun)
        self._changing.update(begun)

    def _end(self, files: Iterable[FileId]) -> None:
        files = list(files)
        self._marks.changed(files)
        for file in files:
            self._changing[file] -= 1
            if not self._changing[file]:
                del self._changing[file]

    def _recall(
        self, session: NodeSession | None, keys: list[Key], but: FileId | None = None
    ) -> CallBack:
        """but: not those that have this file open."""
        told = []
        for other, known in self._sessions.items():
            if other is session or (but is not None and but in other.opened):
                continue
            told += [(other, key) for key in dict.fromkeys(keys) if known.has(key)]
            known.files.difference_update(file for file, _ in keys)
        return CallBack(told)
