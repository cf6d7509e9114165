# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Attributes of a share's files as they are now, wherever that is known, and what is promised of
them."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import replace

from shares.home.directory.coherence import Coherence
from shares.home.directory.marks import MarkedFiles
from shares.home.directory.promises import Promises
from shares.home.nodes.session import NodeSession
from shares.home.storage.block_store import BlockStore
from shares.home.storage.tree import SET_IDS, Tree
from shares.node import Attributes, Changes
from shares.protocol import BLOCK, HOME, FileId, NodeId

SECTOR = 512
"""Bytes of a block of `Attributes.blocks`."""


class FileAttributes:
    """Of one share. Thread-safe. Raises OSError."""

    def __init__(
        self,
        lease: float,
        tree: Tree,
        blocks: BlockStore,
        promises: Promises,
        coherence: Coherence,
        marks: MarkedFiles,
    ) -> None:
        """lease: seconds for which a promise holds"""
        self.lease = lease
        self._tree, self._blocks = tree, blocks
        self._promises, self._coherence = promises, coherence
        self._marks = marks

    def get(self, session: NodeSession, file: FileId) -> Attributes:
        mark = self._promises.asked(session)
        self._promises.look(session, file)
        found = self._tree.attributes(file)
        kept = self._promises.told(session, mark, [file])
        return self.promised(self.current(session, found), kept)

    def settled(self, session: NodeSession, file: FileId) -> Attributes | None:
        """Its attributes, where no node has to be asked for them and home can promise them."""
        mark = self._promises.asked(session)
        try:
            found = self._tree.attributes(file)
        except OSError:  # it has no name any more
            return None
        kept = self._promises.told(session, mark, [file])
        with self._coherence.lock:
            if file not in kept or self._coherence.owner(file) != HOME:
                return None
            return replace(self._latest(session, found), valid=self.lease)

    def promised(self, now: Attributes, kept: set[FileId]) -> Attributes:
        """valid: for how long the node may keep them, if it is not called back"""
        return replace(now, valid=self.lease if now.file in kept else 0.0)

    def current(self, session: NodeSession, attributes: Attributes) -> Attributes:
        """With the latest size and times, wherever they are."""
        file = attributes.file
        with self._coherence.lock:
            owners = {self._writer(file), self._coherence.owner(file)}
            if owners <= {HOME, session.node} or self._marks.private(file):
                return self._latest(session, attributes)
        self._coherence.fetch_attributes(file)
        with self._coherence.lock:
            return self._latest(session, attributes)

    def known(self, session: NodeSession, found: Iterable[Attributes]) -> list[Attributes]:
        """With size and times as home last had them."""
        with self._coherence.lock:
            return [self._latest(session, each) for each in found]

    def _latest(self, session: NodeSession, attributes: Attributes) -> Attributes:
        """With size and times as home has them, and with room for content of other nodes that home
        may lack. How much that is is not known of another node's native file."""
        known = self._blocks.known(attributes)
        file, whole = known.file, -(-known.size // BLOCK) * (BLOCK // SECTOR)
        if known.blocks >= whole or not self._promises.written_by_others(session, file):
            return known
        if self._coherence.native(file) not in (None, session):
            return replace(known, blocks=whole)
        more = len(self._coherence.content_elsewhere(session, file)) * BLOCK // SECTOR
        return replace(known, blocks=min(whole, known.blocks + more))

    def changed(self, attributes: Attributes) -> None:
        """Mode, owner or names of the file are others."""
        with self._coherence.lock:
            self._blocks.changed(attributes)

    def named_otherwise(self, file: FileId) -> None:
        """A name of the file is gone, or is another: that is a change of its status, or its end."""
        with self._coherence.lock:
            try:
                self._blocks.changed(self._tree.attributes(file))
            except OSError:
                self._coherence.forget(file)

    def change(self, session: NodeSession, file: FileId, changes: Changes) -> Attributes:
        with self._promises.changing(session, (file, None)):
            changed = self._change(session, file, changes)
        return self.settled(session, file) or changed

    def _change(self, session: NodeSession, file: FileId, changes: Changes) -> Attributes:
        if (changes.mode or 0) & SET_IDS and stat.S_ISREG(self._tree.attributes(file).mode):
            self._coherence.gather(file)  # content that comes later clears the bits
        times_or_size = (changes.size, changes.accessed, changes.modified) != (None, None, None)
        if times_or_size and stat.S_ISREG(self._tree.attributes(file).mode):
            with self._coherence.lock:
                self._marks.admit(session.name, file, writes=changes.size is not None)
            return self._coherence.change(session, file, changes)
        changed = self._tree.change(file, changes)
        self.changed(changed)
        return self.current(session, changed)

    def _writer(self, file: FileId) -> NodeId:
        """Whose native file it is that may have written it; else home."""
        native = self._coherence.native(file)
        return native.node if native and self._promises.writes(native, file) else HOME
