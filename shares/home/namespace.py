# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home does of names for a node of a share, and what it promises of them and of attributes."""

from __future__ import annotations

import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from shares.home.block_store import BlockStore
from shares.home.promises import Promises
from shares.home.session import NodeSession
from shares.home.terms import ShareRecord
from shares.home.tree import Tree
from shares.node import Attributes, Entry, Made, OwnFolder, Unmade
from shares.protocol import ATTRIBUTES, HOME, Directory, FileId


class Naming(ABC):
    """The part of a share that is about names. Thread-safe. Raises OSError."""

    record: ShareRecord
    lease: float
    lock: threading.RLock
    tree: Tree
    promises: Promises
    directory: Directory
    content: BlockStore

    @abstractmethod
    def _no_more(self, file: FileId) -> None:
        """With the lock: the file is gone for good."""

    @abstractmethod
    def _current(self, session: NodeSession, attributes: Attributes) -> Attributes:
        """With the latest size and times, wherever they are."""

    def lookup(self, session: NodeSession, parent: FileId, name: bytes) -> Entry:
        mark = self.promises.asked(session, parent)
        entry = self.tree.lookup(parent, name)
        while self.promises.call_back(session, entry.attributes.file):
            entry = self.tree.lookup(parent, name)
        kept = self.promises.told(session, mark, [entry.attributes.file])
        attributes = self._promised(self._current(session, entry.attributes), kept)
        steady = self.promises.steady(mark, parent)
        return Entry(name, attributes, valid=self.lease if steady else 0.0)

    def attributes(self, session: NodeSession, file: FileId) -> Attributes:
        mark = self.promises.asked(session)
        self.promises.call_back(session, file)
        found = self.tree.attributes(file)
        kept = self.promises.told(session, mark, [file])
        return self._promised(self._current(session, found), kept)

    def settled(self, session: NodeSession, file: FileId) -> Attributes | None:
        """Its attributes, where no node has to be asked for them and home can promise them."""
        mark = self.promises.asked(session)
        try:
            found = self.tree.attributes(file)
        except OSError:  # it has no name any more
            return None
        kept = self.promises.told(session, mark, [file])
        with self.lock:
            record = self.directory.record(file, ATTRIBUTES)
            if file not in kept or (record is not None and record.owner != HOME):
                return None
            return replace(self.content.known(found), valid=self.lease)

    def entries(self, session: NodeSession, folder: FileId, most: int) -> list[Entry]:
        """Sizes of files that are being written elsewhere are as home last had them."""
        mark = self.promises.asked(session, folder)
        entries = self.tree.entries(folder, most)
        while self.promises.call_back(session, *(each.attributes.file for each in entries)):
            entries = self.tree.entries(folder, most)
        kept = self.promises.told(session, mark, [entry.attributes.file for entry in entries])
        steady = self.promises.steady(mark, folder)
        with self.lock:
            return [
                Entry(
                    entry.name,
                    self._promised(self.content.known(entry.attributes), kept),
                    valid=self.lease if steady else 0.0,
                )
                for entry in entries
            ]

    def _promised(self, now: Attributes, kept: set[FileId]) -> Attributes:
        """valid: for how long the node may keep them, if it is not called back"""
        return replace(now, valid=self.lease if now.file in kept else 0.0)

    def make(
        self,
        session: NodeSession,
        parent: FileId,
        name: bytes,
        make: Callable[[], Entry],
        *also: tuple[FileId, bytes | None],
    ) -> Made:
        """Have a new name made; also: what is changed by that."""
        with self.promises.changing(session, (parent, name), *also):
            entry = make()
            with self.lock:
                self.content.changed(entry.attributes)
        return self._made(session, parent, entry)

    def _made(self, session: NodeSession, parent: FileId, entry: Entry) -> Made:
        """What the node that made it may keep of it."""
        with suppress(OSError):  # another node took it away again
            found = self.lookup(session, parent, entry.name)
            if found.attributes.file == entry.attributes.file:
                entry = found
        folder, empty = self._folder(session, parent), self._empty(session, entry)
        own = [self._own(session, parent)]
        if empty:
            own.append(self._own(session, entry.attributes.file))
        return Made(entry, folder, empty, tuple(each for each in own if each is not None))

    def _own(self, session: NodeSession, folder: FileId) -> OwnFolder | None:
        """The folder, if the node may make files in it by itself from now on."""
        if self.record.log == "sync" or not self.promises.own(session, folder):
            return None
        try:  # as the owner's now: who changes the folder calls it back
            return OwnFolder(folder, *self.tree.whose(folder))
        except OSError:
            return None

    def _folder(self, session: NodeSession, folder: FileId) -> Attributes | None:
        """Of one in which the node has changed a name."""
        try:
            return self.attributes(session, folder)
        except OSError:  # another node took it away
            return None

    def _empty(self, session: NodeSession, entry: Entry) -> bool:
        """Whether it is a folder without names, and the node is told of the first one."""
        folder = entry.attributes.file
        if not stat.S_ISDIR(entry.attributes.mode):
            return False
        mark = self.promises.asked(session, folder)
        with suppress(OSError):
            return not self.tree.entries(folder, 1) and self.promises.steady(mark, folder)
        return False

    def unlink(self, session: NodeSession, parent: FileId, name: bytes) -> Unmade:
        with self.promises.changing(session, (parent, name)) as changed:
            file = self.tree.unlink(parent, name)
            changed.append((file, None))
            self._named_otherwise(file)
        left = self.settled(session, file)
        folder = self._folder(session, parent)
        return Unmade(folder, left if left is not None and left.links else None)

    def remove_folder(self, session: NodeSession, parent: FileId, name: bytes) -> Unmade:
        with self.promises.changing(session, (parent, name)) as changed:
            self._settle_folder(session, parent, name)
            folder = self.tree.remove_folder(parent, name)
            self.promises.gone(folder)
            changed.append((folder, None))
        return Unmade(self._folder(session, parent))

    def _settle_folder(self, session: NodeSession, parent: FileId, name: bytes) -> None:
        """Whether what has that name, if anything has, is an empty folder is known after this."""
        with suppress(OSError):
            self.promises.call_back(session, self.tree.lookup(parent, name).attributes.file)

    def rename(
        self,
        session: NodeSession,
        parent: FileId,
        name: bytes,
        new_parent: FileId,
        new_name: bytes,
        flags: int,
    ) -> tuple[Attributes | None, Made]:
        names = (parent, name), (new_parent, new_name)
        with self.promises.changing(session, *names) as changed:
            found = self.tree.lookup(parent, name)
            moved = found.attributes.file
            self._settle_folder(session, new_parent, new_name)
            replaced = self.tree.rename(parent, name, new_parent, new_name, flags)
            for file in (moved, replaced):
                if file is not None:
                    changed.append((file, None))
                    self._named_otherwise(file)
        made = self._made(session, new_parent, replace(found, name=new_name))
        return self._folder(session, parent), made

    def _named_otherwise(self, file: FileId) -> None:
        """A name of the file is gone, or is another: that is a change of its status, or its end."""
        with self.lock:
            try:
                self.content.changed(self.tree.attributes(file))
            except OSError:
                self._no_more(file)
