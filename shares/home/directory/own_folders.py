# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Folders that are one node's own, in which it makes files by itself, and the ids that it gives
these: docs/shares.md, "Files that are made ahead".

A folder is given to a node where no other one was told anything about it. Before another one is,
the owner is called back, and answers when home has all that it made there.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from shares.home.nodes.session import NodeSession
from shares.protocol import FileId, NodeId

IDS = 1024
"""Ids that a node is given at once. It asks for more when half of them are used."""

REMEMBERED = 4096
"""Of so many files home knows that the node has made them: more than it has ids for at a time."""

NODES = 256
"""That were lost and may come back with what they have made, at most."""

FOLDERS = 65536
"""That are one node's own at most."""


class OwnFolders:
    """Of one share. Not thread-safe: its promises have a lock."""

    def __init__(self) -> None:
        self._owners: dict[FileId, NodeSession] = {}
        self._count: Counter[NodeSession] = Counter()
        self._called: Counter[FileId] = Counter()

    def give(self, session: NodeSession, folder: FileId) -> bool:
        """Whether it is the node's own now. Not while an owner is being called back: that it has
        answered would be taken for the end of this, too."""
        if self._called[folder] or self._count[session] >= FOLDERS:
            return False
        if folder not in self._owners:
            self._owners[folder] = session
            self._count[session] += 1
        return self._owners[folder] is session

    def owns(self, session: NodeSession, folder: FileId) -> bool:
        return self._owners.get(folder) is session

    def all(self) -> list[tuple[NodeSession, FileId]]:
        """Owners, each with a folder."""
        return [(owner, folder) for folder, owner in self._owners.items()]

    def others(
        self, session: NodeSession | None, folders: Iterable[FileId]
    ) -> list[tuple[NodeSession, FileId]]:
        """Owners but for this one, each with the folder."""
        found = [(self._owners.get(folder), folder) for folder in dict.fromkeys(folders)]
        return [(owner, folder) for owner, folder in found if owner not in (None, session)]

    def calling(self, folder: FileId) -> None:
        """Its owner is called back; `called` comes when that has answered, or is no more."""
        self._called[folder] += 1

    def called(self, owner: NodeSession, folder: FileId) -> None:
        self._called[folder] -= 1
        if not self._called[folder]:
            del self._called[folder]
        if self._owners.get(folder) is owner:
            self._drop(folder)

    def gone(self, folder: FileId) -> None:
        """There is no such folder any more."""
        if folder in self._owners:
            self._drop(folder)

    def lost(self, session: NodeSession) -> None:
        for folder in [folder for folder, owner in self._owners.items() if owner is session]:
            self._drop(folder)

    def _drop(self, folder: FileId) -> None:
        owner = self._owners.pop(folder)
        self._count[owner] -= 1
        if not self._count[owner]:
            del self._count[owner]


@dataclass
class _Ids:
    """A node's: those that it may use, and of those that it has used last the grants."""

    unused: OrderedDict[FileId, None] = field(default_factory=OrderedDict)
    used: OrderedDict[FileId, int] = field(default_factory=OrderedDict)


class GivenIds:
    """Ids that nodes of one share were given ahead of need. Thread-safe. Those of a node that is
    lost stay its own: it may come back with what it has made meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: OrderedDict[NodeId, _Ids] = OrderedDict()

    def give(self, node: NodeId, first: FileId, count: int) -> None:
        with self._lock:
            ids = self._nodes.setdefault(node, _Ids())
            self._nodes.move_to_end(node)
            ids.unused.update((FileId(number), None) for number in range(first, first + count))
            while len(ids.unused) > REMEMBERED:  # of earlier memberships
                ids.unused.popitem(last=False)
            while len(self._nodes) > NODES:
                self._nodes.popitem(last=False)

    def unused(self, node: NodeId, file: FileId) -> bool:
        with self._lock:
            ids = self._nodes.get(node)
            return ids is not None and file in ids.unused

    def use(self, node: NodeId, file: FileId, grant: int) -> None:
        """Home has made the file; grant: under which its content is being written."""
        with self._lock:
            ids = self._nodes.setdefault(node, _Ids())
            ids.unused.pop(file, None)
            ids.used[file] = grant
            if len(ids.used) > REMEMBERED:
                ids.used.popitem(last=False)

    def used(self, node: NodeId, file: FileId) -> int | None:
        """The grant, if home has made the file for this node."""
        with self._lock:
            ids = self._nodes.get(node)
            return ids.used.get(file) if ids else None

    def left(self, node: NodeId) -> None:
        """It does not come back with anything."""
        with self._lock:
            self._nodes.pop(node, None)
