# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the files and folders of one account at a service, from what programs were told.

An upload is held only where it is known what it is going to replace: then its early answer is true,
and the flush can say what must not have changed meanwhile. For example, a program lists `/photos`
and sees no `7.jpg`. Its upload of `/photos/7.jpg` may wait, and goes with `If-None-Match: *`. An
upload into a folder that nobody listed goes at once.

Paths are those of addresses, escaped in one way only (`targets.normal_path`), without a slash at
the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from satchel.targets import normal_path
from uplink.policy.davxml import DavEntry
from uplink.policy.upload import Condition

LIMIT = 20_000
"""Paths that are remembered; the oldest is forgotten first."""


@dataclass(frozen=True)
class KnownPath:
    """there: whether anything is at the path; etag: of the file, where it is known and strong;
    listed: of a folder: all that is in it is known"""

    there: bool
    folder: bool = False
    etag: str = ""
    listed: bool = False


class Knowledge:
    """See the module. One thread at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, KnownPath] = OrderedDict()

    def at(self, path: str) -> KnownPath | None:
        """None where nothing is known. What is not in a folder that was listed is known not to be
        there."""
        path = plain(path)
        found = self._known.get(path)
        if found is None:
            parent = self._known.get(path.rpartition("/")[0])
            return KnownPath(there=False) if parent is not None and parent.listed else None
        return found

    def condition(self, path: str) -> Condition | None:
        """What a flush of a file at that path has to be refused without; None where an early answer
        might not be true: the folder is not known to be there, or not what the path is."""
        parent = self._known.get(plain(path).rpartition("/")[0])
        if parent is None or not parent.folder:
            return None
        found = self.at(path)
        if found is None or found.folder:
            return None
        if not found.there:
            return Condition()
        return Condition(found.etag) if found.etag else None

    def listed(self, folder: str, depth: str, entries: Iterable[DavEntry]) -> None:
        """A service has answered what is at a path and, with depth 1, in it."""
        found = [(plain(entry.path), entry) for entry in entries]
        folder = plain(folder)
        if depth == "1":
            self._forget_children(folder)
        for path, entry in found:
            is_listed = depth == "1" and path == folder and entry.folder
            self._set(path, KnownPath(True, entry.folder, _strong(entry.etag), is_listed))

    def file(self, path: str, etag: str) -> None:
        """There is a file, as an answer about it says."""
        self._set(plain(path), KnownPath(True, etag=_strong(etag)))
        self._is_folder(plain(path).rpartition("/")[0])

    def folder(self, path: str) -> None:
        """A new folder was made, which is empty."""
        self._set(plain(path), KnownPath(True, folder=True, listed=True))

    def absent(self, path: str) -> None:
        """Nothing is there."""
        self._forget_below(plain(path))
        self._set(plain(path), KnownPath(there=False))

    def forget(self, path: str) -> None:
        """Something happened to what is at the path, or below it. Its folder is not known to be
        complete any more."""
        path = plain(path)
        self._forget_below(path)
        parent = path.rpartition("/")[0]
        if (found := self._known.get(parent)) is not None:
            self._known[parent] = KnownPath(found.there, found.folder, found.etag)

    def _is_folder(self, path: str) -> None:
        found = self._known.get(path)
        self._set(path, found if found and found.folder else KnownPath(True, folder=True))

    def doubt(self, path: str) -> None:
        """A change at the path was refused: what is there is not as it is known here."""
        found = self._known.get(plain(path))
        if found is None or not found.folder:
            self._set(plain(path), KnownPath(there=True))

    def _forget_below(self, path: str) -> None:
        for each in [each for each in self._known if each == path or each.startswith(path + "/")]:
            del self._known[each]

    def _forget_children(self, folder: str) -> None:
        """Files, not folders: what is known below these stays true."""
        for each in [each for each in self._known if each.rpartition("/")[0] == folder]:
            if not self._known[each].folder:
                del self._known[each]

    def _set(self, path: str, known: KnownPath) -> None:
        before = self._known.pop(path, None)
        if before and before.listed and known.folder and not known.listed:
            known = before
        self._known[path] = known
        while len(self._known) > LIMIT:
            gone, _ = self._known.popitem(last=False)
            parent = gone.rpartition("/")[0]
            if (found := self._known.get(parent)) is not None:
                self._known[parent] = KnownPath(found.there, found.folder, found.etag)


def plain(path: str) -> str:
    """Return the path with each byte escaped in one way only, and without the last slash. Two names
    never become one."""
    return normal_path(path).rstrip("/")


def _strong(etag: str) -> str:
    return etag if len(etag) > 2 and etag.startswith('"') and etag.endswith('"') else ""
