# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a node makes files: by itself where it may (`made_ahead`), else by home."""

from __future__ import annotations

import errno
import logging
import os
import queue
import stat
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial

from shares.node.access import OpenFile
from shares.node.hub import Hub, Made, Making, Opened, OwnFolder
from shares.node.naming import NAME_LIMIT, checked
from shares.node.operations import Attributes, Changes, Entry, Handle
from shares.node.statics import Statics
from shares.node.uses import Use
from shares.protocol import FileId

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25

PERMISSIONS = 0o777
"""Files with other bits of the mode are made by home, which may not set all of them."""


class Creating(Statics):
    """The part of Node that is about that. Thread-safe.

    _makes: whether the node makes files by itself at all
    """

    _hub: Hub
    _makes: bool
    _wait: float | None
    _numbers: Iterator[int]

    @abstractmethod
    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes: ...

    @abstractmethod
    def _require_home(self) -> None:
        """Raises OSError where there is no share any more."""

    @abstractmethod
    def _open(self, file: FileId, use: Use, *, writes: bool, cut: bool = False) -> OpenFile: ...

    @abstractmethod
    def _opened(
        self, file: FileId, use: Use, opened: Opened, hub: Hub, mark: int, *, writes: bool
    ) -> OpenFile:
        """Home has opened the file for this node."""

    @abstractmethod
    def _note_terms(self, opened: Opened) -> None:
        """By which the share's files are read."""

    @abstractmethod
    def _used(self, file: FileId, use: Use) -> None:
        """With the use's lock held: one handle more."""

    @abstractmethod
    def _handle(self, file: FileId, flags: int, opened: OpenFile | None) -> Handle: ...

    def create(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[Entry, Handle]:
        ahead = self._create_ahead(parent, name, mode, flags, uid, gid)
        return ahead or self._create_at_home(parent, name, mode, flags, uid, gid)

    def _create_at_home(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[Entry, Handle]:
        names, began, hub = self._names.mark(), next(self._numbers), self.hub
        exclusive = bool(flags & os.O_EXCL)
        with self.content.opening(), self._ahead.asking(parent) as own:
            try:
                made, opened = hub.create(parent, checked(name), mode, uid, gid, exclusive)
            except OSError:
                self._names.changed(parent, name)
                raise
            mark = self._names.made(names, parent, name, made)
            entry = made.entry
            file = entry.attributes.file
            with self._uses.locked(file) as use:
                mark = self._names.opening(file, mark)
                # Closed meanwhile, where it was there: home may have heard that after this.
                if use.said > began or hub is not self._hub:
                    new = self._open(file, use, writes=True)
                else:
                    new = self._opened(file, use, opened, hub, mark, writes=True)
                self._used(file, use)
            self._ahead.take(own, made.own)
        self._last.used(file, parent, name)
        if flags & os.O_TRUNC:
            self.change(file, Changes(size=0), None)
        return self._as_here(entry), self._handle(file, flags, new)

    # Ahead of home.

    def _create_ahead(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[Entry, Handle] | None:
        """None where home is to be asked: the folder is not this node's own, or has the name."""
        if not is_plain(name) or stat.S_IMODE(mode) & ~PERMISSIONS:
            return None
        with self._ahead.lock:
            right = self._ahead.right(parent)
            if right is None:
                return None
            own, file = right
            claimed = self._names.claim(parent, name, file, time.time_ns())
            if claimed is None:
                return None
            moment, mark = claimed
            making = Making(file, parent, name, mode & PERMISSIONS, uid, gid, moment)
            if self._last.journal is not None:
                self._last.journal.making(making)
            self._ahead.made(making)
            self._last.used(file, parent, name)
            attributes = new_attributes(making, own)
            with self._uses.locked(file) as use:
                opened = use.file = self.content.make(file, attributes)
                use.writes = True
                self._used(file, use)
            hub = self._hub
            hub.make(making, partial(self._answered, hub, mark, making))
        self._want_ids()
        return Entry(name, attributes), self._handle(file, flags, opened)

    def _want_ids(self) -> None:
        if self._makes and self._ahead.wants_ids():
            self._hub.ids(self._ahead.given_ids)

    def _disown(self, folder: FileId, done: Callable[[], None]) -> None:
        """Home says that another node is about to be told of the folder."""
        self._ahead.disown(folder, done)

    def _answered(
        self, hub: Hub, mark: int, making: Making, found: tuple[Made, Opened] | OSError | None
    ) -> None:
        """What home says of a file that was made here. Where the membership ends before, the next
        one is told of it."""
        if found is None or not self.content.goes_by(hub):
            return
        if isinstance(found, OSError):
            self._refused(making, found)
            return
        made, opened = found
        known = self.content.made(making.file, opened, hub)
        self._set_static(known, mark, opened.attributes)
        self._names.claimed(mark, making.folder, made.folder)
        self._note_terms(opened)
        if opened.log == "sync":  # since some time
            self._ahead.drop_all()
        self._ahead.answered(making.file)
        use = self._uses.known(making.file)
        if use is not None and use.leaves:
            self._look.set()

    def _refused(self, making: Making, why: OSError) -> None:
        """Its name is no more. Whoever has it open is told by what is done next."""
        log.error("home has not made %r, which was made here: %s", making.name, why)
        self._names.gone(making.file)
        self._names.attributes_changed(making.folder)
        self.content.refuse(making.file, why)
        use = self._uses.known(making.file)
        if use is not None:
            use.leaves = True
        self._ahead.answered(making.file)
        self._look.set()

    def _make_again(self, hub: Hub) -> None:
        """In a new membership, before content is brought. Raises OSError where it ends."""
        answers: list[tuple[Making, queue.SimpleQueue[int | OSError | None]]] = []
        for making in self._ahead.pending():
            answers.append((making, queue.SimpleQueue()))
            hub.make_again(making, answers[-1][1].put)
        for making, answer in answers:
            found = answer.get()
            if found is None:
                raise OSError(errno.EIO, "this membership is over")
            if isinstance(found, OSError):
                self._refused(making, found)
            else:
                self.content.made_before(making.file, found)
                self._ahead.answered(making.file)

    def _note_unmade(self) -> None:
        """Nobody tells home any more."""
        for making in self._ahead.pending():
            log.error("home has perhaps not made %r, which was made here", making.name)

    def _await_made(self, file: FileId | None) -> None:
        """Until home has answered the file, or all, that was made here. Raises OSError: EIO where
        home is not reached."""
        since = time.monotonic()
        while not self._ahead.wait(file, LOOK_SECONDS):
            self._require_home()
            now = time.monotonic()
            since = now if self._hub.connected else since
            if self._wait is not None and now - since > self._wait:
                raise OSError(errno.EIO, "home is not reached")


def is_plain(name: bytes) -> bool:
    """Whether a file may have it, as far as a node can tell."""
    odd = name in {b"", b".", b".."} or b"/" in name or b"\0" in name
    return not odd and len(name) <= NAME_LIMIT


def new_attributes(making: Making, own: OwnFolder) -> Attributes:
    """Of a file that was just made."""
    return Attributes(
        file=making.file,
        mode=stat.S_IFREG | making.mode,
        links=1,
        uid=making.uid if own.uid is None else own.uid,
        gid=making.gid if own.gid is None else own.gid,
        size=0,
        accessed=making.moment,
        modified=making.moment,
        changed=making.moment,
    )
