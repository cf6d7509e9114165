# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node remembers of names and attributes, until home calls it back, or the lease is over.

Home calls back who knows something before it changes, and waits for that; so what is here is the
latest as long as home would wait for this node. Answers come on other threads than what home tells:
`mark` is taken before home is asked, and what was called back since is not kept.

Size and times of a file that is open here are in its block -1: its attributes are not kept here
between `opening` and `closed`.
"""

from __future__ import annotations

import stat
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from shares.node import clock
from shares.node.hub.hub import NewEntry, RemovedEntry
from shares.node.names.marks import Marks
from shares.node.operations import ROOT, Attributes, DirEntry
from shares.protocol import FileId

LIMIT = 65536
"""Names that are kept at most, and attributes: so many of each."""

DEEPEST = 1024
"""Folders one in the other, in a path that is told."""

NEVER = -1
"""Before every mark."""

TARGETS = 4096
"""Targets of links."""

ASKED = 3
"""After so many names of a folder that were asked one by one, all of it is asked for; twice as many
each time after that."""


@dataclass
class _Folder:
    """names: None for those that are not there. whole: no other name is there. asked: how many were
    asked one by one since all were; patience: of how many that is enough. regular: its regular
    files as they are listed, None after a change of the names."""

    names: dict[bytes, FileId | None] = field(default_factory=dict)
    whole: bool = False
    asked: int = 0
    patience: float = ASKED
    regular: list[tuple[bytes, FileId]] | None = None


class NameCache:
    """Thread-safe; nothing waits. Nothing is known without a lease (`leased`)."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._folders: OrderedDict[FileId, _Folder] = OrderedDict()
        self._count = 0
        self._attributes: OrderedDict[FileId, Attributes] = OrderedDict()
        self._targets: OrderedDict[FileId, bytes] = OrderedDict()
        self._places: OrderedDict[FileId, FileId] = OrderedDict()
        self._open: set[FileId] = set()
        self._lock = threading.Lock()
        self._marks = Marks()
        self._until = -inf

    def leased(self, until: float) -> None:
        """Home waits for this node until then, by `clock`."""
        with self._lock:
            self._until = max(self._until, until)

    def mark(self) -> int:
        with self._lock:
            return self._marks.now

    # What is known.

    def steady(self, mark: int, file: FileId) -> bool:
        """Whether nothing of the file, or folder, was called back or changed since that mark."""
        with self._lock:
            return self._marks.steady(mark, file)

    def find(self, folder: FileId, name: bytes) -> tuple[bool, FileId | None]:
        """Whether it is known, and what it names."""
        with self._lock:
            known = self._folder(folder)
            if known is None or (name not in known.names and not known.whole):
                return False, None
            return True, known.names.get(name)

    def named(self, folder: FileId, name: bytes) -> FileId | None:
        """What the name was last known to name, for callers that forget that."""
        with self._lock:
            known = self._folders.get(folder)
            return known.names.get(name) if known else None

    def attributes(self, file: FileId) -> Attributes | None:
        with self._lock:
            return self._attributes_of(file)

    def target(self, file: FileId) -> bytes | None:
        """Of a symbolic link."""
        with self._lock:
            return self._targets.get(file) if clock.now() < self._until else None

    def entries(self, folder: FileId) -> dict[bytes, Attributes | FileId] | None:
        """The whole folder, where all its names are known; of files of which the attributes are
        not, the id."""
        with self._lock:
            known = self._folder(folder)
            if known is None or not known.whole:
                return None
            return {
                name: self._attributes_of(file) or file
                for name, file in known.names.items()
                if file is not None
            }

    def siblings(self, file: FileId) -> tuple[FileId, list[tuple[bytes, FileId]]] | None:
        """The folder that has the file, and its regular files as they are listed: the same list
        until its names change. None where not all of them are known."""
        with self._lock:
            folder = self._places.get(file)
            known = self._folder(folder) if folder is not None else None
            if folder is None or known is None or not known.whole:
                return None
            if known.regular is None:
                named = ((n, f) for n, f in known.names.items() if f is not None)
                known.regular = [(name, f) for name, f in named if self._regular(f)]
            return folder, known.regular

    def _regular(self, file: FileId) -> bool:
        known = self._attributes.get(file)
        return file in self._open if known is None else stat.S_ISREG(known.mode)

    def paths(self) -> dict[FileId, bytes]:
        """A path below the share of each file and folder whose place is remembered, for people."""
        with self._lock:
            folders = [(number, dict(known.names)) for number, known in self._folders.items()]
        above = {f: (number, n) for number, names in folders for n, f in names.items() if f}
        found: dict[FileId, bytes] = {}
        for file in above:
            parts: list[bytes] = []
            at = file
            while at in above and len(parts) <= DEEPEST:
                at, name = above[at]
                parts.append(name)
            if at == ROOT:
                found[file] = b"/".join(reversed(parts))
        return found

    def worth_listing(self, folder: FileId) -> bool:
        """Whether to ask for the folder rather than for one more name; said once."""
        with self._lock:
            known = self._folder(folder)
            if known is None or known.asked < known.patience:
                return False
            known.asked = 0
            known.patience *= 2
            return True

    def large(self, folder: FileId) -> None:
        """It has too many names to be asked for because of some."""
        with self._lock:
            self._known(folder).patience = inf

    def _folder(self, folder: FileId) -> _Folder | None:
        known = self._folders.get(folder)
        if known is None or clock.now() >= self._until:
            return None
        self._folders.move_to_end(folder)
        return known

    def _attributes_of(self, file: FileId) -> Attributes | None:
        found = self._attributes.get(file)
        if found is None or clock.now() >= self._until:
            return None
        self._attributes.move_to_end(file)
        return found

    # What home answers to what was asked after that mark.

    def learn(self, mark: int, folder: FileId, name: bytes, entry: DirEntry | None) -> None:
        """None: there is no such name."""
        with self._lock:
            self._learn(mark, folder, name, entry)
            if self._marks.steady(mark, folder) and folder in self._folders:
                self._folders[folder].asked += 1

    def learn_attributes(self, mark: int, attributes: Attributes) -> None:
        with self._lock:
            self._keep(mark, attributes)

    def learn_folder(self, mark: int, folder: FileId, entries: Iterable[DirEntry]) -> None:
        """All names of the folder."""
        with self._lock:
            if not self._marks.steady(mark, folder):
                return
            before = self._folders.get(folder, _Folder())
            self._drop_folder(folder)
            known = self._known(folder)
            known.patience = before.patience
            whole = True
            for entry in entries:
                self._learn(mark, folder, entry.name, entry)
                whole = whole and entry.valid > 0
            known.whole = whole

    def learn_target(self, file: FileId, target: bytes) -> None:
        """It is never another one."""
        with self._lock:
            self._targets[file] = target
            if len(self._targets) > TARGETS:
                self._targets.popitem(last=False)

    def _learn(self, mark: int, folder: FileId, name: bytes, entry: DirEntry | None) -> None:
        if self._marks.steady(mark, folder) and (entry is None or entry.valid > 0):
            known = self._known(folder)
            self._count += name not in known.names
            known.names[name] = entry.attributes.file if entry else None
            known.regular = None
            if entry is not None:
                self._place(entry.attributes.file, folder)
            self._trim()
        if entry is not None:
            self._keep(mark, entry.attributes)

    def _place(self, file: FileId, folder: FileId) -> None:
        self._places[file] = folder
        if len(self._places) > self._limit:
            self._places.popitem(last=False)

    def _trim(self) -> None:
        while self._count + len(self._folders) > self._limit:
            self._drop_folder(next(iter(self._folders)))

    def _keep(self, mark: int, attributes: Attributes) -> None:
        file = attributes.file
        steady = self._marks.steady(mark, file)
        if steady and attributes.valid > 0 and file not in self._open:
            self._attributes[file] = replace(attributes, valid=0.0)
            self._attributes.move_to_end(file)
            if len(self._attributes) > self._limit:
                self._attributes.popitem(last=False)

    def _known(self, folder: FileId) -> _Folder:
        known = self._folders.setdefault(folder, _Folder())
        self._folders.move_to_end(folder)
        return known

    def claim(self, folder: FileId, name: bytes, file: FileId, now: int) -> tuple[int, int] | None:
        """The folder, which is this node's own, gets that name now, if all its names are known and
        that is none of them. now: the time, nanoseconds since 1970. When the folder was changed by
        it, in such, and the mark for what home answers; None where it does not get it."""
        with self._lock:
            known = self._folder(folder)
            if known is None or not known.whole or known.names.get(name) is not None:
                return None
            self._count += name not in known.names
            known.names[name], known.regular = file, None
            self._trim()
            self._open.add(file)
            self._marks.changed([folder])
            attributes = self._attributes_of(folder)
            if attributes is not None:
                now = max(now, attributes.modified + 1)
                self._attributes[folder] = replace(attributes, modified=now, changed=now)
            return now, self._marks.now

    def claimed(self, mark: int, folder: FileId, now: Attributes | None) -> None:
        """Home has given the folder that name, too, and says what its attributes are then."""
        with self._lock:
            if self._marks.steady(mark, folder):
                self._attributes.pop(folder, None)
                self._keep_changed(folder, now)

    # What this node has changed by a call that it made after that mark. What is returned is a later
    # one, from which on the file's attributes in the answer are the latest; NEVER where they may
    # not be.

    def made(
        self, mark: int, folder: FileId, name: bytes, made: NewEntry, *files: FileId | None
    ) -> int:
        """The folder has that name now. files: those of which the attributes are others."""
        with self._lock:
            entry, empty = made.entry, made.empty
            steady, known = self._marks.steady(mark, folder), self._folders.get(folder)
            whole = steady and known is not None and known.whole
            latest = self._marks.steady(mark, entry.attributes.file)
            if not latest:
                entry = replace(entry, attributes=replace(entry.attributes, valid=0.0))
                empty = False
            self._changed(folder, name, *files)
            if steady:
                self._learn(self._marks.now, folder, name, entry)
                self._keep_changed(folder, made.folder)
            if whole and entry.valid > 0 and folder in self._folders:
                self._folders[folder].whole = True
            if empty:
                self._known(entry.attributes.file).whole = True
            return self._marks.now if latest else NEVER

    def unmade(
        self,
        mark: int,
        folder: FileId,
        name: bytes,
        unmade: RemovedEntry,
        *files: FileId | None,
    ) -> int:
        """The folder has that name no more."""
        with self._lock:
            known, steady = self._folders.get(folder), self._marks.steady(mark, folder)
            whole = known is not None and known.whole and steady
            left = unmade.file
            kept = left is not None and self._marks.steady(mark, left.file)
            self._changed(folder, name, *files, left.file if left else None)
            if known is not None:
                known.whole = whole
            if steady:
                self._keep_changed(folder, unmade.folder)
            if left is not None and kept:
                self._keep_changed(left.file, left)
            return self._marks.now if kept else NEVER

    def moved(
        self,
        mark: int,
        old: tuple[FileId, bytes, Attributes | None],
        new: tuple[FileId, bytes, NewEntry],
        *files: FileId | None,
        exchanged: bool,
    ) -> int:
        """A name is another. old, new: folder, name, and what home said of it. files: those of
        which the attributes are others. exchanged: the old name names something else now. Of two
        names of one file neither is gone."""
        with self._lock:
            (before, was, now), (after, name, made) = old, new
            file = made.entry.attributes.file
            steady = all(self._marks.steady(mark, each) for each in (before, after, file))
            known = [self._folders.get(before), self._folders.get(after)]
            whole = [steady and folder is not None and folder.whole for folder in known]
            self._changed(before, was, file, *files)
            self._changed(after, name)
            if not steady:
                return NEVER
            self._learn(self._marks.now, after, name, made.entry)
            self._keep_changed(before, now)
            self._keep_changed(after, made.folder)
            moved, there = made.entry.attributes, made.entry.valid > 0
            gone = not exchanged and (stat.S_ISDIR(moved.mode) or moved.links == 1)
            if before in self._folders:
                self._folders[before].whole = whole[0] and gone and (there or after != before)
            if after != before and after in self._folders:
                self._folders[after].whole = whole[1] and there
            return self._marks.now

    def attributes_now(self, mark: int, file: FileId, now: Attributes) -> int:
        """The attributes of a file, or folder, are these."""
        with self._lock:
            steady = self._marks.steady(mark, file)
            self._drop_attributes(file)
            if steady:
                self._keep_changed(file, now)
            return self._marks.now if steady else NEVER

    def _keep_changed(self, file: FileId, now: Attributes | None) -> None:
        """What an answer says that was steady but for the change that it is the answer to."""
        if now is not None and now.file == file:
            self._keep(self._marks.now, now)

    # What is known no more.

    def changed(self, folder: FileId, name: bytes, *files: FileId | None) -> None:
        """The name is another's, or nobody's; the attributes of the folder and of these files, and
        of what the name named, are others."""
        with self._lock:
            self._changed(folder, name, *files)

    def attributes_changed(self, file: FileId) -> None:
        with self._lock:
            self._drop_attributes(file)

    def opening(self, file: FileId, mark: int | None = None) -> int:
        """Home is about to be asked to open the file, or has opened it in answer to what was asked
        at that mark; to be undone by `closed`. The mark for what it says of attributes."""
        with self._lock:
            steady = mark is None or self._marks.steady(mark, file)
            self._drop_attributes(file)
            self._open.add(file)
            return self._marks.now if steady else NEVER

    def closed(self, file: FileId) -> None:
        """Home is about to be told that it is closed, or did not open it."""
        with self._lock:
            self._drop_attributes(file)
            self._open.discard(file)

    def gone(self, file: FileId) -> None:
        """Home knows no such file any more: what names it here is to be looked up again."""
        with self._lock:
            self._drop_attributes(file)
            for number, folder in self._folders.items():
                for name in [name for name, known in folder.names.items() if known == file]:
                    del folder.names[name]
                    folder.whole, folder.regular = False, None
                    self._count -= 1
                    self._marks.changed([number])

    def clear(self) -> None:
        """All of it, and there is no lease."""
        with self._lock:
            self._forget()
            self._until = -inf

    def forget(self) -> None:
        """All of it: home does not remember what this node knows."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._marks.changed_all()
        self._folders.clear()
        self._attributes.clear()
        self._count = 0

    def _changed(self, folder: FileId, name: bytes, *files: FileId | None) -> None:
        known = self._folders.get(folder)
        named = None
        if known is not None:
            known.whole = False
            if name in known.names:
                named, known.regular = known.names.pop(name), None
                self._count -= 1
        self._drop_attributes(folder, named, *files)

    def _drop_attributes(self, *files: FileId | None) -> None:
        dropped = [file for file in files if file is not None]
        self._marks.changed(dropped)
        for file in dropped:
            self._attributes.pop(file, None)

    def _drop_folder(self, folder: FileId) -> None:
        known = self._folders.pop(folder, None)
        if known is not None:
            self._count -= len(known.names)
