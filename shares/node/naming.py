# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node answers and asks about names: from what it remembers where it may, else by home."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from shares.node.hub import Hub, Made, Unmade
from shares.node.last_names import LastNames
from shares.node.made_ahead import MadeAhead
from shares.node.names import Names
from shares.node.operations import Attributes, Entry
from shares.protocol import FileId

NAME_LIMIT = 255

EXCHANGE = 2
"""Of renameat2(2)s flags."""

LISTED = 500
"""Names that are asked for at most because some of them were."""

T = TypeVar("T")


class Naming(ABC):
    """The part of Operations that is about names. Thread-safe."""

    def __init__(self) -> None:
        self._names = Names()
        self._ahead = MadeAhead()
        self._last = LastNames()

    @property
    @abstractmethod
    def hub(self) -> Hub:
        """Home; between two memberships this waits for the next one."""

    @abstractmethod
    def ask(self, question: Callable[[Hub], T]) -> T:
        """What changes nothing is asked again of the next membership, if this one ends."""

    @abstractmethod
    def is_open(self, file: FileId) -> bool:
        """Whether this node has it open: then home does not know all of its attributes."""

    @abstractmethod
    def attributes(self, file: FileId, handle: int | None) -> Attributes: ...

    @abstractmethod
    def forget_static(self, file: FileId | None) -> None:
        """Attributes that block -1 has not are others, of a file that may be open here. It may have
        lost its last name."""

    @abstractmethod
    def learn_static(self, mark: int, now: Attributes) -> None:
        """They were these, as home said, at that mark of names."""

    def lookup(self, parent: FileId, name: bytes) -> Entry:
        entry = self._looked_up(parent, name)
        self._last.used(entry.attributes.file, parent, name)
        return entry

    def _looked_up(self, parent: FileId, name: bytes) -> Entry:
        checked(name)
        known, file = self._names.find(parent, name)
        if known and file is None:
            raise FileNotFoundError(errno.ENOENT, "no such name")
        if file is not None:
            with suppress(OSError):
                return Entry(name, self.attributes(file, None))
            self._names.gone(file)
        listed = self._listed(parent) if self._names.worth_listing(parent) else None
        if listed is not None:
            if name not in listed:
                raise FileNotFoundError(errno.ENOENT, "no such name")
            with suppress(OSError):
                return Entry(name, self.attributes(listed[name], None))
        mark = self._names.mark()
        try:
            entry = self.ask(lambda hub: hub.lookup(parent, name))
        except FileNotFoundError:
            self._names.learn(mark, parent, name, None)
            raise
        self._names.learn(mark, parent, name, entry)
        return self._as_here(entry)

    def _as_here(self, entry: Entry) -> Entry:
        """What home says of a name, for the kernel. Home does not know the size of a file that is
        open here, and the kernel goes by the size that it is told last."""
        file = entry.attributes.file
        if self.is_open(file):
            with suppress(OSError):
                return Entry(entry.name, self.attributes(file, None))
        return uncached(entry)

    def _listed(self, folder: FileId) -> dict[bytes, FileId] | None:
        """Home is asked for all of a folder because of some of its names; None where it does not
        tell."""
        mark = self._names.mark()
        try:
            found = self.ask(lambda hub: hub.entries(folder, LISTED))
        except OSError as error:
            if error.errno == errno.EOVERFLOW:
                self._names.large(folder)
            return None
        self._names.learn_folder(mark, folder, found)
        return {entry.name: entry.attributes.file for entry in found}

    def read_link(self, file: FileId) -> bytes:
        target = self._names.target(file)
        if target is None:
            target = self.ask(lambda hub: hub.read_link(file))
            self._names.learn_target(file, target)
        return target

    def make_folder(self, parent: FileId, name: bytes, mode: int, uid: int, gid: int) -> Entry:
        return self._make(
            parent, name, lambda: self.hub.make_folder(parent, checked(name), mode, uid, gid)
        )

    def make_link(self, parent: FileId, name: bytes, target: bytes, uid: int, gid: int) -> Entry:
        return self._make(
            parent, name, lambda: self.hub.make_link(parent, checked(name), target, uid, gid)
        )

    def link(self, file: FileId, parent: FileId, name: bytes) -> Entry:
        return self._make(parent, name, lambda: self.hub.link(file, parent, checked(name)), file)

    def _make(
        self, parent: FileId, name: bytes, make: Callable[[], Made], file: FileId | None = None
    ) -> Entry:
        """file: what has a link more by that."""
        mark = self._names.mark()
        with self._ahead.asking(parent) as own:
            try:
                made = make()
            except OSError:
                self._names.changed(parent, name, file)
                self.forget_static(file)
                raise
            latest = self._names.made(mark, parent, name, made, file)
            if file is not None:
                self.learn_static(latest, made.entry.attributes)
            self._ahead.take(own, made.own)
        return self._as_here(made.entry)

    def unlink(self, parent: FileId, name: bytes) -> None:
        self._unmake(parent, name, lambda: self.hub.unlink(parent, checked(name)))

    def remove_folder(self, parent: FileId, name: bytes) -> None:
        with self._ahead.asking(self._names.named(parent, name)):
            self._unmake(parent, name, lambda: self.hub.remove_folder(parent, checked(name)))

    def _unmake(self, parent: FileId, name: bytes, unmake: Callable[[], Unmade]) -> None:
        mark, file = self._names.mark(), self._names.named(parent, name)
        left_by = self._last.leaves(parent, name)
        try:
            unmade = unmake()
        except OSError:
            self._last.stays(left_by, parent, name)
            self._names.changed(parent, name, file)
            self.forget_static(file)
            raise
        else:
            left, latest = unmade.file, self._names.unmade(mark, parent, name, unmade, file)
            if left is None or left.file != file:
                self.forget_static(file)
            if left is not None:
                self.learn_static(latest, left)

    def rename(
        self, parent: FileId, name: bytes, new_parent: FileId, new_name: bytes, flags: int
    ) -> None:
        mark, replaced = self._names.mark(), self._names.named(new_parent, new_name)
        moved = self._names.named(parent, name)
        left_by = self._last.leaves(new_parent, new_name)
        with self._ahead.asking(parent, new_parent, replaced) as own:
            try:
                names = parent, checked(name), new_parent, checked(new_name)
                now, made = self.hub.rename(*names, flags)
            except OSError:
                self._last.stays(left_by, new_parent, new_name)
                self._names.changed(parent, name, moved, replaced)
                self._names.changed(new_parent, new_name)
                for file in (replaced, moved):
                    self.forget_static(file)
                raise
            old, new = (parent, name, now), (new_parent, new_name, made)
            exchanged = bool(flags & EXCHANGE)
            self._last.moved(old[:2], new[:2], exchanged=exchanged)
            latest = self._names.moved(mark, old, new, moved, replaced, exchanged=exchanged)
            self.forget_static(replaced)
            if moved != made.entry.attributes.file:
                self.forget_static(moved)
            self.learn_static(latest, made.entry.attributes)
            self._ahead.take(own, made.own)

    def sync_folder(self, folder: FileId) -> None:
        self.ask(lambda hub: hub.sync(folder))

    def entries(self, folder: FileId) -> list[Entry]:
        known = self._names.entries(folder)
        if known is not None and all(
            isinstance(now, Attributes) or self.is_open(now) for now in known.values()
        ):
            with suppress(OSError):  # one is gone meanwhile
                return [
                    Entry(n, now if isinstance(now, Attributes) else self.attributes(now, None))
                    for n, now in known.items()
                ]
        mark = self._names.mark()
        found = self.ask(lambda hub: hub.entries(folder, 0))
        self._names.learn_folder(mark, folder, found)
        return [self._as_here(entry) for entry in found]


def uncached(entry: Entry) -> Entry:
    """Not for the kernel to keep: to take it from there again, the node would have to wait for
    calls that wait for home."""
    return replace(entry, attributes=replace(entry.attributes, valid=0.0), valid=0.0)


def checked(name: bytes) -> bytes:
    if len(name) > NAME_LIMIT:
        raise OSError(errno.ENAMETOOLONG, "the name is too long")
    return name
