# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The mirror of a tree of folders at a service, which deltas keep (StoArranger, section V-B).

A member is what the service told of a file or a folder, kept as it was told. For example, home
mirrors `/photos` and tells the mobile which members are others than in state 7 of it. The mobile's
mirror takes them, and answers a whole crawl.

Paths are as `plain` makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from satchel.errors import CapacityError
from uplink.policy.davxml import DavMember, gone, join_members

MEMBERS = 200_000
"""Of one tree; a larger one is not mirrored."""


class TreeTooLarge(CapacityError):
    """A tree has too many members to mirror."""


class Mirror:
    """One tree. One thread at a time.

    state: a number that goes up whenever something is another; had: of each folder of which all
    members are here, the token or etag that it had then or before
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.state = 0
        self.had: dict[str, str] = {}
        self._members: dict[str, DavMember] = {}
        self._children: dict[str, set[str]] = {}
        self._changed: dict[str, int] = {}  # by path, also of what is gone

    def __len__(self) -> int:
        return len(self._members)

    def get(self, path: str) -> DavMember | None:
        return self._members.get(path)

    def folders_in(self, folder: str) -> list[DavMember]:
        """The folders directly in that one."""
        found = (self._members[path] for path in sorted(self._children.get(folder, ())))
        return [member for member in found if member.folder]

    def replace_folder(self, folder: str, told: Iterable[DavMember]) -> None:
        """A service has told all that is in a folder, and the folder itself. What is told of other
        places is not believed. Raises TreeTooLarge."""
        there = {m.path: m for m in told if folder in (m.path, _parent(m.path)) and not m.gone}
        for path in self._children.get(folder, set()) - there.keys():
            self._remove(path)
        for member in there.values():
            self._set(member)

    def replace(self, told: Iterable[DavMember]) -> None:
        """A service has told of the whole tree. Raises TreeTooLarge."""
        there = {m.path: m for m in told if self._inside(m.path) and not m.gone}
        for path in self._members.keys() - there.keys():
            self._remove(path)
        for member in there.values():
            self._set(member)

    def apply(self, told: Iterable[DavMember]) -> None:
        """A service has told what has changed. Raises TreeTooLarge."""
        for member in told:
            if not self._inside(member.path):
                continue
            if member.gone:
                self._remove(member.path)
            else:
                self._set(member)

    def whole(self) -> bytes:
        """The list of the tree, as a question of depth infinity is answered."""
        return join_members(member.text for member in self._members.values())

    def since(self, state: int, token: str) -> bytes:
        """What is another than in that state, as an answer to `sync_question`; from 0 on all.
        token: of the state that there is now"""
        return join_members(self._others(state), token)

    def _others(self, state: int) -> Iterator[bytes]:
        for path, when in self._changed.items():
            if when > state:
                member = self._members.get(path)
                if member or state:
                    yield member.text if member else gone(path)

    def _inside(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _set(self, member: DavMember) -> None:
        if self._members.get(member.path) == member:
            return
        if member.path not in self._members and len(self._changed) >= MEMBERS:
            raise TreeTooLarge(f"{self.root} is too large to be mirrored", why=f"over {MEMBERS}")
        if not member.folder:
            self.had.pop(member.path, None)
            for child in list(self._children.pop(member.path, ())):
                self._remove(child)
        self._members[member.path] = member
        if member.path != self.root:
            self._children.setdefault(_parent(member.path), set()).add(member.path)
        self._note(member.path)

    def _remove(self, path: str) -> None:
        self.had.pop(path, None)
        for child in list(self._children.pop(path, ())):
            self._remove(child)
        if self._members.pop(path, None) is not None:
            self._children.get(_parent(path), set()).discard(path)
            self._note(path)

    def _note(self, path: str) -> None:
        self.state += 1
        self._changed.pop(path, None)
        self._changed[path] = self.state


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
