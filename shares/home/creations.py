# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does about files that nodes have made by themselves, in folders of their own."""

from __future__ import annotations

import errno
from abc import abstractmethod
from dataclasses import replace

from shares.home.grace import Grace
from shares.home.namespace import Naming
from shares.home.own_folders import IDS, GivenIds
from shares.home.session import NodeSession
from shares.node import Made, Making, Opened
from shares.protocol import FileId


class Makings(Naming):
    """The part of a share that is about that. Thread-safe. Raises OSError."""

    sessions: dict[int, NodeSession]
    ids: GivenIds
    grace: Grace

    @abstractmethod
    def _opened(
        self, session: NodeSession, file: FileId, writes: bool, *, cut: bool = False
    ) -> Opened:
        """The node has it open in the tree; now in the directory."""

    def give_ids(self, session: NodeSession) -> tuple[FileId, int]:
        """For files that the node makes by itself. Raises OSError where it is to make none so."""
        if self.record.log == "sync":
            raise OSError(errno.EOPNOTSUPP, "what is made in this share is durable before")
        first = self.tree.take_ids(IDS)
        self.ids.give(session.node, first, IDS)
        self.promises.makes_ahead(session)
        return first, IDS

    def made_ahead(self, session: NodeSession, making: Making) -> tuple[Made, Opened]:
        """What the node has made in a folder of its own. Waits for nobody: no other one knows of
        the folder."""
        if not (
            self.sessions.get(session.node) is session
            and self.ids.unused(session.node, making.file)
            and self.promises.made(session, making.folder)
        ):
            raise OSError(errno.EACCES, "that is not the node's own folder, or id")
        entry = self.tree.make(making)
        opened = self._opened(session, making.file, writes=True)
        self.ids.use(session.node, making.file, opened.grant)
        made = self._made(session, making.folder, entry)
        entry = replace(made.entry, attributes=opened.attributes)
        return replace(made, entry=entry, own=()), opened

    def made_again(self, session: NodeSession, making: Making) -> int:
        """What an earlier membership of the node's has perhaps not heard of. Home goes on without a
        file that others have taken away since, or whose name they have taken."""
        file, node = making.file, session.node
        awaited, grant = self.grace.awaits(node), self.ids.used(node, file)
        if self.tree.has(file) and (awaited or grant is not None):
            return self.grace.granted(file) if grant is None else grant
        if not awaited and not self.ids.unused(node, file):
            raise OSError(errno.ESTALE, "home went on without what was made here")
        with self.promises.changing(session, (making.folder, making.name)):
            try:
                self.tree.make(making)
            except FileExistsError:
                if not self.tree.has(file):  # else the last of the earlier one came just now
                    raise
            else:
                self.tree.close_file(file)
                self.ids.use(node, file, 0)
        return self.ids.used(node, file) or 0
