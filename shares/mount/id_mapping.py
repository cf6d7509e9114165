# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of users and groups where a person's machine has others than home.

Home's folder is of user 1000, and who mounts it here is user 1001. Then 1000 at home is 1001 here,
as with `idmap=user` of sshfs, and 1001 at home is 1000 here. All others are the same. So nobody
else's file is shown as the mounter's.

The line is between the kernel's session and the node. What is above it has the numbers of this
machine, what is below it (the node, its journal, the link, home) has home's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import cast

from shares.node.operations import ROOT, Attributes, Changes, DirEntry, Handle, Operations
from shares.protocol import FileId

SUPERUSER = 0


@dataclass(frozen=True)
class Swap:
    """The two numbers are exchanged, whichever way they go."""

    home: int
    here: int

    def of(self, number: int) -> int:
        if number == self.home:
            return self.here
        return self.home if number == self.here else number


def owned_by_mounter(tree: Operations) -> Operations:
    """The tree as this process' user is to see it, who is the owner of its root folder. Who that is
    at home is asked once. Raises OSError.

    The tree itself where the numbers are the same, and where root mounts or has the folder: root's
    files are nobody else's. Of groups, root's stays what it is.
    """
    root = tree.attributes(ROOT, None)
    user, group = os.getuid(), os.getgid()
    if SUPERUSER in (root.uid, user) or (root.uid, root.gid) == (user, group):
        return tree
    groups = Swap(group, group) if SUPERUSER in (root.gid, group) else Swap(root.gid, group)
    return cast(Operations, MappedOperations(tree, Swap(root.uid, user), groups))


class MappedOperations:
    """A tree with the numbers of this machine. Whatever is not here has none, and is as in the tree
    itself. Thread-safe, as the tree is."""

    def __init__(self, tree: Operations, users: Swap, groups: Swap) -> None:
        self._tree, self._users, self._groups = tree, users, groups

    def __getattr__(self, name: str) -> object:
        return getattr(self._tree, name)

    def lookup(self, parent: FileId, name: bytes) -> DirEntry:
        return self._entry(self._tree.lookup(parent, name))

    def attributes(self, file: FileId, handle: int | None) -> Attributes:
        return self._here(self._tree.attributes(file, handle))

    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes:
        if changes.uid is not None:
            changes = replace(changes, uid=self._users.of(changes.uid))
        if changes.gid is not None:
            changes = replace(changes, gid=self._groups.of(changes.gid))
        return self._here(self._tree.change(file, changes, handle))

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> DirEntry:
        return self._entry(self._tree.make_folder(parent, name, mode, *self._home(uid, gid)))

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> DirEntry:
        return self._entry(self._tree.make_link(parent, name, target, *self._home(uid, gid)))

    def link(self, file: FileId, parent: FileId, name: bytes) -> DirEntry:
        return self._entry(self._tree.link(file, parent, name))

    def create(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle]:
        entry, handle = self._tree.create(parent, name, mode, flags, *self._home(uid, gid))
        return self._entry(entry), handle

    def entries(self, folder: FileId) -> list[DirEntry]:
        return [self._entry(entry) for entry in self._tree.entries(folder)]

    def _home(self, uid: int, gid: int) -> tuple[int, int]:
        return self._users.of(uid), self._groups.of(gid)

    def _here(self, found: Attributes) -> Attributes:
        return replace(found, uid=self._users.of(found.uid), gid=self._groups.of(found.gid))

    def _entry(self, entry: DirEntry) -> DirEntry:
        return replace(entry, attributes=self._here(entry.attributes))
