# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does of names for the nodes of a share, and what it promises of them."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from shares.home.directory.file_attributes import FileAttributes
from shares.home.directory.open_files import OpenFiles
from shares.home.directory.promises import Promises
from shares.home.nodes.session import NodeSession
from shares.home.storage.tree import Tree
from shares.home.terms import Described
from shares.node import Attributes, DirEntry, NewEntry, OpenReply, OwnFolder, RemovedEntry
from shares.protocol import FileId


class Namespace:
    """Of one share. Thread-safe. Raises OSError."""

    def __init__(
        self,
        described: Described,
        tree: Tree,
        promises: Promises,
        attributes: FileAttributes,
        files: OpenFiles,
    ) -> None:
        self._described, self._tree, self._promises = described, tree, promises
        self._attributes, self._files = attributes, files

    def lookup(self, session: NodeSession, parent: FileId, name: bytes) -> DirEntry:
        mark = self._promises.asked(session, parent)
        entry = self._tree.lookup(parent, name)
        while self._promises.look(session, entry.attributes.file):
            entry = self._tree.lookup(parent, name)
        kept = self._promises.told(session, mark, [entry.attributes.file])
        attributes = self._attributes.promised(
            self._attributes.current(session, entry.attributes), kept
        )
        steady = self._promises.steady(mark, parent) and self._tree.events.watches(parent)
        return DirEntry(name, attributes, valid=self._attributes.lease if steady else 0.0)

    def entries(self, session: NodeSession, folder: FileId, most: int) -> list[DirEntry]:
        """Sizes of files that are being written elsewhere are as home last had them."""
        mark = self._promises.asked(session, folder)
        entries = self._tree.entries(folder, most)
        while self._promises.look(session, *(each.attributes.file for each in entries)):
            entries = self._tree.entries(folder, most)
        kept = self._promises.told(session, mark, [entry.attributes.file for entry in entries])
        steady = self._promises.steady(mark, folder) and self._tree.events.watches(folder)
        valid = self._attributes.lease if steady else 0.0
        known = self._attributes.known(session, (entry.attributes for entry in entries))
        return [
            DirEntry(entry.name, self._attributes.promised(now, kept), valid=valid)
            for entry, now in zip(entries, known, strict=True)
        ]

    def make_folder(
        self, session: NodeSession, parent: FileId, name: bytes, mode: int, uid: int, gid: int
    ) -> NewEntry:
        make = partial(self._tree.make_folder, parent, name, mode, uid, gid)
        return self._make(session, parent, name, make)

    def make_link(
        self, session: NodeSession, parent: FileId, name: bytes, target: bytes, uid: int, gid: int
    ) -> NewEntry:
        make = partial(self._tree.make_link, parent, name, target, uid, gid)
        return self._make(session, parent, name, make)

    def link(self, session: NodeSession, file: FileId, parent: FileId, name: bytes) -> NewEntry:
        make = partial(self._tree.link, file, parent, name)
        return self._make(session, parent, name, make, (file, None))

    def _make(
        self,
        session: NodeSession,
        parent: FileId,
        name: bytes,
        make: Callable[[], DirEntry],
        *also: tuple[FileId, bytes | None],
    ) -> NewEntry:
        """Have a new name made; also: what is changed by that."""
        with self._promises.changing(session, (parent, name), *also):
            entry = make()
            self._attributes.changed(entry.attributes)
        return self.made(session, parent, entry)

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
        with self._promises.changing(session, (parent, name)):
            entry, _ = self._tree.create(parent, name, mode, uid, gid, exclusive)
        opened = self._files.admit(session, entry.attributes.file, writes=True)
        made = self.made(session, parent, entry)
        entry = replace(made.entry, attributes=opened.attributes)
        return replace(made, entry=entry), opened

    def made(self, session: NodeSession, parent: FileId, entry: DirEntry) -> NewEntry:
        """What the node that made it may keep of it."""
        with suppress(OSError):  # another node took it away again
            found = self.lookup(session, parent, entry.name)
            if found.attributes.file == entry.attributes.file:
                entry = found
        folder, empty = self._folder(session, parent), self._empty(session, entry)
        own = [self._own(session, parent)]
        if empty:
            own.append(self._own(session, entry.attributes.file))
        return NewEntry(entry, folder, empty, tuple(each for each in own if each is not None))

    def _own(self, session: NodeSession, folder: FileId) -> OwnFolder | None:
        """The folder, if the node may make files in it by itself from now on."""
        if self._described().log == "sync" or not self._promises.own(session, folder):
            return None
        try:  # as the owner's now: who changes the folder calls it back
            return OwnFolder(folder, *self._tree.whose(folder, stranger=session.stranger))
        except OSError:
            return None

    def _folder(self, session: NodeSession, folder: FileId) -> Attributes | None:
        """Of one in which the node has changed a name."""
        try:
            return self._attributes.get(session, folder)
        except OSError:  # another node took it away
            return None

    def _empty(self, session: NodeSession, entry: DirEntry) -> bool:
        """Whether it is a folder without names, and the node is told of the first one."""
        folder = entry.attributes.file
        if not stat.S_ISDIR(entry.attributes.mode):
            return False
        mark = self._promises.asked(session, folder)
        with suppress(OSError):
            return not self._tree.entries(folder, 1) and self._promises.steady(mark, folder)
        return False

    def unlink(self, session: NodeSession, parent: FileId, name: bytes) -> RemovedEntry:
        with self._promises.changing(session, (parent, name)) as changed:
            file = self._tree.unlink(parent, name)
            changed.append((file, None))
            self._attributes.named_otherwise(file)
        left = self._attributes.settled(session, file)
        folder = self._folder(session, parent)
        return RemovedEntry(folder, left if left is not None and left.links else None)

    def remove_folder(self, session: NodeSession, parent: FileId, name: bytes) -> RemovedEntry:
        with self._promises.changing(session, (parent, name)) as changed:
            self._settle_folder(session, parent, name)
            folder = self._tree.remove_folder(parent, name)
            self._promises.gone(folder)
            changed.append((folder, None))
        return RemovedEntry(self._folder(session, parent))

    def _settle_folder(self, session: NodeSession, parent: FileId, name: bytes) -> None:
        """Whether what has that name, if anything has, is an empty folder is known after this."""
        with suppress(OSError):
            self._promises.call_back(session, self._tree.lookup(parent, name).attributes.file)

    def rename(
        self,
        session: NodeSession,
        parent: FileId,
        name: bytes,
        new_parent: FileId,
        new_name: bytes,
        flags: int,
    ) -> tuple[Attributes | None, NewEntry]:
        names = (parent, name), (new_parent, new_name)
        with self._promises.changing(session, *names) as changed:
            found = self._tree.lookup(parent, name)
            moved = found.attributes.file
            self._settle_folder(session, new_parent, new_name)
            replaced = self._tree.rename(parent, name, new_parent, new_name, flags)
            for file in (moved, replaced):
                if file is not None:
                    changed.append((file, None))
                    self._attributes.named_otherwise(file)
        made = self.made(session, new_parent, replace(found, name=new_name))
        return self._folder(session, parent), made
