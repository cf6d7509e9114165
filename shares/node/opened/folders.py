# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Folders at a node, and the names in them: from what it remembers where it may, else by home."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

from shares.node.hub.current_hub import CurrentHub
from shares.node.hub.hub import NewEntry, RemovedEntry
from shares.node.names.kernel_folders import KernelFolders
from shares.node.names.last_names import LastNames
from shares.node.names.local_creations import LocalCreations
from shares.node.names.names import NameCache
from shares.node.opened.latest_attributes import LatestAttributes
from shares.node.opened.statics import Statics
from shares.node.opened.uses import FileUses
from shares.node.operations import Attributes, DirEntry
from shares.protocol import FileId

NAME_LIMIT = 255

EXCHANGE = 2
"""Of renameat2(2)s flags."""

LISTED = 500
"""Names that are asked for at most because some of them were."""


class Folders:
    """The part of `Operations` that is about names. Thread-safe."""

    def __init__(
        self,
        home: CurrentHub,
        names: NameCache,
        last: LastNames,
        ahead: LocalCreations,
        uses: FileUses,
        statics: Statics,
        attributes: LatestAttributes,
        kernel: KernelFolders,
    ) -> None:
        self._kernel = kernel
        self._home, self._names, self._last, self._ahead = home, names, last, ahead
        self._uses, self._statics, self._attributes = uses, statics, attributes

    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        entry = self._looked_up(parent, name)
        self._last.used(entry.attributes.file, parent, name)
        self._kernel.found(parent, entry)
        return entry

    def _looked_up(self, parent: FileId, name: bytes) -> DirEntry:
        checked(name)
        known, file = self._names.find(parent, name)
        if known and file is None:
            raise FileNotFoundError(errno.ENOENT, "no such name")
        if file is not None:
            with suppress(OSError):
                return DirEntry(name, self._attributes.of(file))
            self._names.gone(file)
        listed = self._listed(parent) if self._names.worth_listing(parent) else None
        if listed is not None:
            if name not in listed:
                raise FileNotFoundError(errno.ENOENT, "no such name")
            with suppress(OSError):
                return DirEntry(name, self._attributes.of(listed[name]))
        mark = self._names.mark()
        try:
            entry = self._home.ask(lambda hub: hub.lookup(parent, name))
        except FileNotFoundError:
            self._names.learn(mark, parent, name, None)
            raise
        self._names.learn(mark, parent, name, entry)
        return self._attributes.as_here(entry)

    def _listed(self, folder: FileId) -> dict[bytes, FileId] | None:
        """Home is asked for all of a folder because of some of its names; None where it does not
        tell."""
        mark = self._names.mark()
        try:
            found = self._home.ask(lambda hub: hub.entries(folder, LISTED))
        except OSError as error:
            if error.errno == errno.EOVERFLOW:
                self._names.large(folder)
            return None
        self._names.learn_folder(mark, folder, found)
        return {entry.name: entry.attributes.file for entry in found}

    def read_link(self, file: FileId) -> bytes:
        target = self._names.target(file)
        if target is None:
            target = self._home.ask(lambda hub: hub.read_link(file))
            self._names.learn_target(file, target)
        return target

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> DirEntry:
        return self._make(
            parent,
            name,
            lambda: self._home.get().make_folder(parent, checked(name), mode, uid, gid),
        )

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> DirEntry:
        return self._make(
            parent,
            name,
            lambda: self._home.get().make_link(parent, checked(name), target, uid, gid),
        )

    def link(self, file: FileId, parent: FileId, name: bytes) -> DirEntry:
        return self._make(
            parent, name, lambda: self._home.get().link(file, parent, checked(name)), file
        )

    def _make(
        self, parent: FileId, name: bytes, make: Callable[[], NewEntry], file: FileId | None = None
    ) -> DirEntry:
        """file: what has a link more by that."""
        mark = self._names.mark()
        with self._ahead.asking(parent) as own:
            try:
                made = make()
            except OSError:
                self._names.changed(parent, name, file)
                self._statics.forget(file)
                raise
            latest = self._names.made(mark, parent, name, made, file)
            if file is not None:
                self._statics.learn(latest, made.entry.attributes)
            self._ahead.take(own, made.own)
        self._kernel.found(parent, made.entry)
        return self._attributes.as_here(made.entry)

    def unlink(self, parent: FileId, name: bytes) -> None:
        self._unmake(parent, name, lambda: self._home.get().unlink(parent, checked(name)))

    def remove_folder(self, parent: FileId, name: bytes) -> None:
        with self._ahead.asking(self._names.named(parent, name)):
            self._unmake(
                parent, name, lambda: self._home.get().remove_folder(parent, checked(name))
            )

    def _unmake(self, parent: FileId, name: bytes, unmake: Callable[[], RemovedEntry]) -> None:
        mark, file = self._names.mark(), self._names.named(parent, name)
        left_by = self._last.leaves(parent, name)
        try:
            unmade = unmake()
        except OSError:
            self._last.stays(left_by, parent, name)
            self._names.changed(parent, name, file)
            self._statics.forget(file)
            raise
        else:
            left, latest = unmade.file, self._names.unmade(mark, parent, name, unmade, file)
            if left is None or left.file != file:
                self._statics.forget(file)
            if left is not None:
                self._statics.learn(latest, left)

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> None:
        mark, replaced = self._names.mark(), self._names.named(new_parent, new_name)
        moved = self._names.named(parent, name)
        left_by = self._last.leaves(new_parent, new_name)
        with self._ahead.asking(parent, new_parent, replaced) as own:
            try:
                names = parent, checked(name), new_parent, checked(new_name)
                now, made = self._home.get().rename(*names, flags)
            except OSError:
                self._last.stays(left_by, new_parent, new_name)
                self._names.changed(parent, name, moved, replaced)
                self._names.changed(new_parent, new_name)
                for file in (replaced, moved):
                    self._statics.forget(file)
                raise
            old, new = (parent, name, now), (new_parent, new_name, made)
            exchanged = bool(flags & EXCHANGE)
            self._last.moved(old[:2], new[:2], exchanged=exchanged)
            self._kernel.moved(made.entry.attributes.file, new_parent, new_name)
            if exchanged:
                self._kernel.moved(replaced, parent, name)
            latest = self._names.moved(mark, old, new, moved, replaced, exchanged=exchanged)
            self._statics.forget(replaced)
            if moved != made.entry.attributes.file:
                self._statics.forget(moved)
            self._statics.learn(latest, made.entry.attributes)
            self._ahead.take(own, made.own)

    def sync(self, folder: FileId) -> None:
        self._home.ask(lambda hub: hub.sync(folder))

    def entries(self, folder: FileId) -> list[DirEntry]:
        entries = self._entries(folder)
        self._kernel.listed(folder, entries)
        return entries

    def _entries(self, folder: FileId) -> list[DirEntry]:
        known = self._names.entries(folder)
        if known is not None and all(
            isinstance(now, Attributes) or self._uses.is_open(now) for now in known.values()
        ):
            with suppress(OSError):  # one is gone meanwhile
                return [
                    DirEntry(n, now if isinstance(now, Attributes) else self._attributes.of(now))
                    for n, now in known.items()
                ]
        mark = self._names.mark()
        found = self._home.ask(lambda hub: hub.entries(folder, 0))
        self._names.learn_folder(mark, folder, found)
        return [self._attributes.as_here(entry) for entry in found]


def checked(name: bytes) -> bytes:
    if len(name) > NAME_LIMIT:
        raise OSError(errno.ENAMETOOLONG, "the name is too long")
    return name
