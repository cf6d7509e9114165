# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does about files that nodes have made by themselves, in folders of their own."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from shares.home.directory.coherence import Coherence
from shares.home.directory.namespace import Namespace
from shares.home.directory.open_files import OpenFiles
from shares.home.directory.own_folders import IDS, GivenIds
from shares.home.directory.promises import Promises
from shares.home.nodes.grace import Grace
from shares.home.nodes.session import NodeSession
from shares.home.storage.conflict_copies import ATTEMPTS
from shares.home.storage.tree import Tree
from shares.home.terms import Described
from shares.node import NewEntry, OpenReply, PendingCreate, conflict_name
from shares.protocol import FileId


class Creations:
    """Of one share. Thread-safe. Raises OSError."""

    def __init__(
        self,
        described: Described,
        tree: Tree,
        promises: Promises,
        grace: Grace,
        coherence: Coherence,
        files: OpenFiles,
        namespace: Namespace,
        tell_copy: Callable[[str, bytes], None],
    ) -> None:
        """No node has been given any ids yet. tell_copy: is called with a node's name and the path
        of a conflict copy."""
        self._tell_copy = tell_copy
        self._described, self._tree, self._promises = described, tree, promises
        self._grace, self._coherence = grace, coherence
        self._files, self._namespace = files, namespace
        self._ids = GivenIds()

    def node_left(self, session: NodeSession) -> None:
        """It does not come back with what it has made."""
        self._ids.left(session.node)

    def give_ids(self, session: NodeSession) -> tuple[FileId, int]:
        """For files that the node makes by itself. Raises OSError where it is to make none so."""
        if self._described().log == "sync":
            raise OSError(errno.EOPNOTSUPP, "what is made in this share is durable before")
        first = self._tree.take_ids(IDS)
        self._ids.give(session.node, first, IDS)
        self._promises.makes_ahead(session)
        return first, IDS

    def made_ahead(self, session: NodeSession, making: PendingCreate) -> tuple[NewEntry, OpenReply]:
        """What the node has made in a folder of its own. Waits for nobody: no other one knows of
        the folder, or what it knows may be old."""
        if not (
            self._coherence.has(session)
            and self._ids.unused(session.node, making.file)
            and self._promises.made(session, making.folder)
        ):
            raise OSError(errno.EACCES, "that is not the node's own folder, or id")
        try:
            entry = self._tree.make(making)
        except FileExistsError:
            making = self._make_beside(session, making)
            entry = self._tree.lookup(making.folder, making.name)
        self._promises.made_ahead(session, making.folder, making.name)
        try:
            opened = self._files.admit(session, making.file, writes=True)
        except OSError:
            self._ids.use(session.node, making.file, 0)  # its next membership does not make it anew
            raise
        self._ids.use(session.node, making.file, opened.grant)
        made = self._namespace.made(session, making.folder, entry)
        entry = replace(made.entry, attributes=opened.attributes)
        return replace(made, entry=entry, own=()), opened

    def _make_beside(self, session: NodeSession, making: PendingCreate) -> PendingCreate:
        """A program of home has just made a file of that name: make the node's as a conflict copy.
        Raise FileExistsError if a node has made it."""
        if self._tree.noted(making.folder, making.name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), making.name)
        for attempt in range(ATTEMPTS):
            beside = replace(making, name=conflict_name(making.name, session.name, attempt))
            with suppress(FileExistsError):
                entry = self._tree.make(beside)
                break
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), making.name)
        self._tell_copy(session.name, self._tree.place(entry.attributes.file) or beside.name)
        session.tell_stale(making.folder, making.name, lambda: None)
        return beside

    def made_again(self, session: NodeSession, making: PendingCreate) -> int:
        """What an earlier membership of the node's has perhaps not heard of. Home goes on without a
        file that others have taken away since, or whose name they have taken."""
        file, node = making.file, session.node
        awaited, grant = self._grace.awaits(node), self._ids.used(node, file)
        if self._tree.has(file) and (awaited or grant is not None):
            return self._grace.granted(file) if grant is None else grant
        if not awaited and not self._ids.unused(node, file):
            raise OSError(errno.ESTALE, "home continued without the files created here")
        with self._promises.changing(session, (making.folder, making.name)):
            try:
                self._tree.make(making)
            except FileExistsError:
                if not self._tree.has(file):  # else the last of the earlier one came just now
                    raise
            else:
                self._tree.close_file(file)
                self._ids.use(node, file, 0)
        return self._ids.used(node, file) or 0
