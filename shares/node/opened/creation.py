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
from functools import partial

from shares.node.content.content import Content
from shares.node.hub.current_hub import CurrentHub
from shares.node.hub.hub import Hub, NewEntry, OpenReply, OwnFolder, PendingCreate
from shares.node.names.last_names import LastNames
from shares.node.names.local_creations import LocalCreations
from shares.node.names.names import NameCache
from shares.node.opened.file_handles import FileHandles
from shares.node.opened.folders import NAME_LIMIT, checked
from shares.node.opened.heartbeat import Heartbeat
from shares.node.opened.latest_attributes import LatestAttributes
from shares.node.opened.opener import Opener
from shares.node.opened.statics import Statics
from shares.node.opened.uses import FileUses
from shares.node.operations import Attributes, Changes, DirEntry, Handle
from shares.protocol import FileId

log = logging.getLogger(__name__)

PERMISSIONS = 0o777
"""Files with other bits of the mode are made by home, which may not set all of them."""


class Creation:
    """Of one node. Thread-safe."""

    def __init__(
        self,
        home: CurrentHub,
        names: NameCache,
        ahead: LocalCreations,
        uses: FileUses,
        content: Content,
        last: LastNames,
        statics: Statics,
        attributes: LatestAttributes,
        opener: Opener,
        handles: FileHandles,
        heartbeat: Heartbeat,
    ) -> None:
        self._home, self._names, self._ahead, self._uses = home, names, ahead, uses
        self._content, self._last = content, last
        self._statics, self._attributes = statics, attributes
        self._opener, self._handles, self._heartbeat = opener, handles, heartbeat

    def create(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle]:
        ahead = self._create_ahead(parent, name, mode, flags, uid, gid)
        return ahead or self._create_at_home(parent, name, mode, flags, uid, gid)

    def _create_at_home(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle]:
        names, began, hub = self._names.mark(), self._uses.number(), self._home.get()
        exclusive = bool(flags & os.O_EXCL)
        with self._content.table.opening(), self._ahead.asking(parent) as own:
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
                if use.said > began or hub is not self._home.latest:
                    new = self._opener.open(file, use, writes=True)
                else:
                    new = self._opener.admit(file, use, opened, hub, mark, writes=True)
                self._handles.used(file, use)
            self._ahead.take(own, made.own)
        self._last.used(file, parent, name)
        if flags & os.O_TRUNC:
            self._attributes.change(file, Changes(size=0))
        return self._attributes.as_here(entry), self._handles.handle(file, flags, new)

    # Ahead of home.

    def _create_ahead(
        self, parent: FileId, name: bytes, mode: int, flags: int, uid: int, gid: int
    ) -> tuple[DirEntry, Handle] | None:
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
            making = PendingCreate(file, parent, name, mode & PERMISSIONS, uid, gid, moment)
            if self._last.journal is not None:
                self._last.journal.making(making)
            self._ahead.made(making)
            self._last.used(file, parent, name)
            attributes = new_attributes(making, own)
            with self._uses.locked(file) as use:
                opened = use.file = self._content.table.make(file, attributes)
                use.writes = True
                self._handles.used(file, use)
            hub = self._home.latest
            hub.make(partial(self._answered, hub, mark, making), making)
        self._ahead.want_ids()
        return DirEntry(name, attributes), self._handles.handle(file, flags, opened)

    def _answered(
        self,
        hub: Hub,
        mark: int,
        making: PendingCreate,
        found: tuple[NewEntry, OpenReply] | OSError | None,
    ) -> None:
        """What home says of a file that was made here. Where the membership ends before, the next
        one is told of it."""
        if found is None or not self._content.goes_by(hub):
            return
        if isinstance(found, OSError):
            self._refused(making, found)
            return
        made, opened = found
        known = self._content.table.made(making.file, opened, hub)
        self._statics.set(known, mark, opened.attributes)
        self._names.claimed(mark, making.folder, made.folder)
        self._heartbeat.relaxed(opened.relaxation)
        if opened.log == "sync":  # since some time
            self._ahead.drop_all()
        self._ahead.answered(making.file)
        use = self._uses.known(making.file)
        if use is not None and use.leaves:
            self._uses.look.set()

    def _refused(self, making: PendingCreate, why: OSError) -> None:
        """Its name is no more. Whoever has it open is told by what is done next."""
        log.error("home has not made %r, which was made here: %s", making.name, why)
        self._names.gone(making.file)
        self._names.attributes_changed(making.folder)
        self._content.table.refuse(making.file, why)
        use = self._uses.known(making.file)
        self._ahead.answered(making.file)
        if use is not None:
            self._uses.leave(use)

    def make_again(self, hub: Hub) -> None:
        """In a new membership, before content is brought. Raises OSError where it ends."""
        answers: list[tuple[PendingCreate, queue.SimpleQueue[int | OSError | None]]] = []
        for making in self._ahead.pending():
            answers.append((making, queue.SimpleQueue()))
            hub.make_again(answers[-1][1].put, making)
        for making, answer in answers:
            found = answer.get()
            if found is None:
                raise OSError(errno.EIO, "this membership is over")
            if isinstance(found, OSError):
                self._refused(making, found)
            else:
                self._content.table.made_before(making.file, found)
                self._ahead.answered(making.file)


def is_plain(name: bytes) -> bool:
    """Whether a file may have it, as far as a node can tell."""
    odd = name in {b"", b".", b".."} or b"/" in name or b"\0" in name
    return not odd and len(name) <= NAME_LIMIT


def new_attributes(making: PendingCreate, own: OwnFolder) -> Attributes:
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
