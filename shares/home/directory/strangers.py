# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Modes and owners as a stranger's node may set them: a surrogate's with a grant to write.

The rules hold at home, because the node is not home's program. A mode has 0777 at most. A new file
belongs to the owner and group of its folder, and no file is given away. A file with set-ID bits
gets no further name.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace

from shares.home.directory.creations import Creations
from shares.home.directory.file_attributes import FileAttributes
from shares.home.directory.namespace import Namespace
from shares.home.nodes.session import NodeSession
from shares.home.storage.tree import Tree, privileged
from shares.node import Attributes, Changes, NewEntry, OpenReply, PendingCreate
from shares.protocol import FileId

PERMISSIONS = 0o777


class Strangers:
    """The calls of one share that set modes and owners. Thread-safe. Raises OSError."""

    def __init__(
        self, tree: Tree, names: Namespace, creations: Creations, attributes: FileAttributes
    ) -> None:
        self._tree, self._names = tree, names
        self._creations, self._attributes = creations, attributes

    def make_folder(
        self, session: NodeSession, parent: FileId, name: bytes, mode: int, uid: int, gid: int
    ) -> NewEntry:
        owner = self._owner(parent)
        return self._names.make_folder(session, parent, name, mode & PERMISSIONS, *owner)

    def make_link(
        self, session: NodeSession, parent: FileId, name: bytes, target: bytes, uid: int, gid: int
    ) -> NewEntry:
        return self._names.make_link(session, parent, name, target, *self._owner(parent))

    def link(self, session: NodeSession, file: FileId, parent: FileId, name: bytes) -> NewEntry:
        if privileged(self._tree.attributes(file).mode):
            raise OSError(errno.EPERM, "the file has set-ID bits")
        return self._names.link(session, file, parent, name)

    def create(
        self,
        session: NodeSession,
        parent: FileId,
        name: bytes,
        mode: int,
        uid: int,
        gid: int,
        exclusive: bool,
    ) -> tuple[NewEntry, OpenReply]:
        about = (mode & PERMISSIONS, *self._owner(parent), exclusive)
        return self._names.create(session, parent, name, *about)

    def made_ahead(self, session: NodeSession, making: PendingCreate) -> tuple[NewEntry, OpenReply]:
        return self._creations.made_ahead(session, self._plain(making))

    def made_again(self, session: NodeSession, making: PendingCreate) -> int:
        return self._creations.made_again(session, self._plain(making))

    def change(self, session: NodeSession, file: FileId, changes: Changes) -> Attributes:
        now = self._tree.attributes(file)
        if changes.uid not in (None, now.uid) or changes.gid not in (None, now.gid):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        mode = None if changes.mode is None else changes.mode & PERMISSIONS
        plain = replace(changes, mode=mode, uid=None, gid=None)
        return self._attributes.change(session, file, plain)

    def _plain(self, making: PendingCreate) -> PendingCreate:
        uid, gid = self._owner(making.folder)
        return replace(making, mode=making.mode & PERMISSIONS, uid=uid, gid=gid)

    def _owner(self, folder: FileId) -> tuple[int, int]:
        now = self._tree.attributes(folder)
        return now.uid, now.gid
