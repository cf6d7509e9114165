# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a share that nodes have open."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from shares.home.directory.coherence import Coherence
from shares.home.directory.file_attributes import FileAttributes
from shares.home.directory.marks import MarkedFiles
from shares.home.directory.promises import CallBack, Promises
from shares.home.nodes.session import NodeSession
from shares.home.storage.block_store import BlockStore
from shares.home.storage.tree import Tree
from shares.home.terms import MAPPED, Described
from shares.node import OPENED_AHEAD, PRIVATE, Attributes, Changes, OpenReply
from shares.protocol import HOME, FileId, NodeId

SHARED_MEMORY = (b"-shm", b"lock.mdb", b".mdb-lock")
"""The ends of the names of files that are the shared memory of a database: of SQLite with a
write-ahead log, and of LMDB. A kernel does not tell a mount which files are mapped."""


class OpenFiles:
    """Of one share. Thread-safe, but for what says "with the lock", which is that of the coherence.
    Raises OSError."""

    def __init__(
        self,
        described: Described,
        tree: Tree,
        blocks: BlockStore,
        promises: Promises,
        coherence: Coherence,
        attributes: FileAttributes,
        sessions: Mapping[NodeId, NodeSession],
        marks: MarkedFiles,
        settle: Callable[[FileId], None],
    ) -> None:
        """Nothing is open yet. sessions: the present nodes, changed with the lock. settle: takes a
        file from the nodes if other programs of home have changed it."""
        self._described, self._tree, self._blocks = described, tree, blocks
        self._promises, self._coherence = promises, coherence
        self._attributes, self._sessions = attributes, sessions
        self._marks, self._settle = marks, settle

    def open(self, session: NodeSession, file: FileId, writes: bool, cut: bool) -> OpenReply:
        if file not in session.opened and self._tree.orphaned(file):
            raise OSError(errno.ESTALE, "a program at home has replaced or removed the file")
        self._settle(file)
        self._tree.open(file, writes)
        if cut:
            try:
                self._attributes.change(session, file, Changes(size=0))
            except BaseException:
                self._tree.close_file(file)
                raise
        return self.admit(session, file, writes, cut=cut)

    def _open_ahead(self, session: NodeSession, file: FileId) -> OpenReply | None:
        """To read, before a program asks; not where another node has it open. Raises nothing."""
        with self._coherence.lock:
            if self._is_open(file):
                return None
        try:
            return self.open(session, file, False, False)
        except OSError:
            return None

    def admit(
        self, session: NodeSession, file: FileId, writes: bool, *, cut: bool = False
    ) -> OpenReply:
        """The node has it open in the tree; now in the directory. Waits. Raises OSError: EIO where
        home goes on without the node; it is not open in the tree then."""
        with self._coherence.lock:
            if not self._coherence.has(session):  # opened now, it would be nobody's for ever
                self._close_in_tree(file)
                raise OSError(errno.EIO, "the lease of this node is over")
            policy, relaxation, rule = self._terms(file)
            alone = not self._others(session, file)
            try:
                self._require_one_memory(session, file, rule)
                mark = self._marks.opened(session.name, file, writes, rule, alone)
            except OSError:
                self._tree.close_file(file)
                raise
            if file in session.opened:
                self._tree.close_file(file)
            else:
                session.opened.add(file)
            recall = self._promises.writing(session, file) if writes else CallBack([])
            self._promises.told(session, self._promises.asked(session), [file])
            wait = self._coherence.open(session, file, relaxation, cut=cut, writes=writes)
        try:
            admitted = wait()
        finally:
            recall.wait()
        attributes = self._attributes.current(session, self._tree.attributes(file))
        terms = (relaxation, policy, "off" if mark == PRIVATE else self._described().log)
        return OpenReply(attributes, admitted.native, *terms, admitted.grant, mark)

    def mark(self, session: NodeSession, file: FileId, mark: str) -> None:
        """As Hub.mark."""
        self._tree.require(file)
        with self._coherence.lock:
            opened = [each for each in self._sessions.values() if file in each.opened]
            writers = [each.name for each in opened if self._promises.writes(each, file)]
            others = [each.name for each in self._others(session, file)]
            self._marks.mark(session.name, file, mark, others, writers)

    def _require_one_memory(self, session: NodeSession, file: FileId, rule: str) -> None:
        """Refuse a second node the shared memory of a database: the stores of one node come
        late to the other, and commits would be lost. Raises ENODEV."""
        others = [each for each in self._others(session, file) if self._promises.writes(each, file)]
        shared = any(path.endswith(SHARED_MEMORY) for path in self._tree.paths(file))
        if others and shared and rule != MAPPED:
            why = f"the node {others[0].name} has this shared memory mapped"
            raise OSError(errno.ENODEV, why)

    def _others(self, session: NodeSession, file: FileId) -> list[NodeSession]:
        """Nodes but that one that have it open."""
        return [s for s in self._sessions.values() if s is not session and file in s.opened]

    def _terms(self, file: FileId) -> tuple[str, float, str]:
        """Policy, relaxation and mark; of several names, the one with the least relaxation."""
        record = self._described()
        paths = self._tree.paths(file) if record.rules else []
        names = [os.fsdecode(path) for path in paths]
        found = [(*record.terms(name), record.mark(name)) for name in names]
        share = (record.policy, record.relaxation, "")
        return min(found, key=lambda terms: terms[1], default=share)

    def open_all(self, session: NodeSession, files: list[FileId]) -> list[OpenReply | None]:
        return [self._open_ahead(session, file) for file in files[:OPENED_AHEAD]]

    def close(self, session: NodeSession, file: FileId) -> Attributes | None:
        with self._coherence.lock:
            # Who could not open it has perhaps copies of it all the same.
            self._coherence.close(session, file)
            if file in session.opened:
                session.opened.discard(file)
                self._closed(session, file)
                self._promises.written(session, file)
        return self._attributes.settled(session, file)

    def close_all(self, session: NodeSession) -> None:
        """With the lock. The node is no more."""
        for file in session.opened:
            self._closed(session, file)
        session.opened.clear()

    def written(self, session: NodeSession, file: FileId) -> Attributes | None:
        """The node's programs write it no more."""
        with self._coherence.lock:
            self._promises.written(session, file)
            self._coherence.written(session, file)
            if self._coherence.native(file) is session:
                self._finish(file, session)  # all of it is here, and stays so until it is opened
        return self._attributes.settled(session, file)

    def finish_closed(self) -> None:
        """With the lock. Give native files their length if no program writes them, or no node
        has them open."""
        for file in self._blocks.short():
            native = self._coherence.native(file)
            writers = [s for s in self._sessions.values() if self._promises.writes(s, file)]
            complete = native not in writers and not self._coherence.owned(file)
            if complete or not writers:  # a node at rest may own blocks, and brings nothing more
                with suppress(OSError):
                    self._blocks.grow(file)
        for file in self._blocks.files():
            if not self._is_open(file) and self._coherence.owner(file) == HOME:
                self._finish(file)

    def _closed(self, session: NodeSession, file: FileId) -> None:
        """The node has it open no more."""
        if not self._is_open(file):
            self._finish(file, session)
        self._close_in_tree(file)

    def _close_in_tree(self, file: FileId) -> None:
        """Of what is no more by that nothing is known."""
        if self._tree.close_file(file):
            self._coherence.forget(file)
            self._marks.forget(file)

    def _is_open(self, file: FileId) -> bool:
        return any(file in session.opened for session in self._sessions.values())

    def _finish(self, file: FileId, closes: NodeSession | None = None) -> None:
        """Not waited for, because no program waits for the change. closes: who remembers nothing
        of it."""
        if self._blocks.finish(file):
            self._promises.recall(closes, file)
