# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a share that nodes have open."""

from __future__ import annotations

import os
from collections.abc import Mapping

from shares.home.block_store import BlockStore
from shares.home.coherence import Coherence
from shares.home.file_attributes import FileAttributes
from shares.home.promises import Promises, Recall
from shares.home.session import NodeSession
from shares.home.terms import Described
from shares.home.tree import Tree
from shares.node import Changes, Opened
from shares.protocol import HOME, FileId, NodeId


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
    ) -> None:
        """Nothing is open yet. sessions: the nodes that are there, changed with the lock."""
        self._described, self._tree, self._blocks = described, tree, blocks
        self._promises, self._coherence = promises, coherence
        self._attributes, self._sessions = attributes, sessions

    def open(self, session: NodeSession, file: FileId, writes: bool, cut: bool) -> Opened:
        self._tree.open(file, writes)
        if cut:
            try:
                self._attributes.change(session, file, Changes(size=0))
            except BaseException:
                self._tree.close_file(file)
                raise
        return self.admit(session, file, writes, cut=cut)

    def open_ahead(self, session: NodeSession, file: FileId) -> Opened | None:
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
    ) -> Opened:
        """The node has it open in the tree; now in the directory. Waits."""
        with self._coherence.lock:
            if file in session.opened or not self._coherence.has(session):
                self._tree.close_file(file)
            else:
                session.opened.add(file)
            recall = self._promises.writing(session, file) if writes else Recall([])
            mark = self._promises.asked(session)
            self._promises.told(session, mark, [file])
            policy, relaxation = self._terms(file)
            wait = self._coherence.open(session, file, relaxation, cut=cut)
        try:
            admitted = wait()
        finally:
            recall.wait()
        attributes = self._attributes.current(session, self._tree.attributes(file))
        terms = (relaxation, policy, self._described().log)
        return Opened(attributes, admitted.native, *terms, admitted.grant)

    def _terms(self, file: FileId) -> tuple[str, float]:
        """Policy and relaxation; of a file with several names, the least of their relaxations."""
        record = self._described()
        paths = self._tree.paths(file) if record.rules else []
        found = [record.terms(os.fsdecode(path)) for path in paths]
        return min(found, key=lambda terms: terms[1], default=(record.policy, record.relaxation))

    def close(self, session: NodeSession, file: FileId) -> None:
        with self._coherence.lock:
            # Who could not open it has perhaps copies of it all the same.
            self._coherence.close(session, file)
            if file in session.opened:
                session.opened.discard(file)
                self._closed(session, file)
                self._promises.written(session, file)

    def close_all(self, session: NodeSession) -> None:
        """With the lock. The node is no more."""
        for file in session.opened:
            self._closed(session, file)
        session.opened.clear()

    def written(self, session: NodeSession, file: FileId) -> None:
        """The node's programs write it no more."""
        with self._coherence.lock:
            self._promises.written(session, file)
            if self._coherence.native(file) is session:
                self._finish(file, session)  # all of it is here, and stays so until it is opened

    def finish_closed(self) -> None:
        """With the lock. The native files of those that nobody has open become as long as they
        should be."""
        for file in self._blocks.files():
            if not self._is_open(file) and self._coherence.owner(file) == HOME:
                self._finish(file)

    def _closed(self, session: NodeSession, file: FileId) -> None:
        """The node has it open no more."""
        if not self._is_open(file):
            self._finish(file, session)
        if self._tree.close_file(file):
            self._coherence.forget(file)

    def _is_open(self, file: FileId) -> bool:
        return any(file in session.opened for session in self._sessions.values())

    def _finish(self, file: FileId, closes: NodeSession | None = None) -> None:
        """Not waited for, because no program waits for the change. closes: who remembers nothing
        of it."""
        if self._blocks.finish(file):
            self._promises.recall(closes, file)
