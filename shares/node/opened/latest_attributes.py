# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a node answers about attributes, and how it changes them: of a file that is open here size
and times are block -1's, and all else is home's."""

from __future__ import annotations

import stat
import time
from contextlib import suppress
from dataclasses import replace

from shares.node.content.access import OpenFile
from shares.node.content.content import Content
from shares.node.extent import BLOCK, Extent
from shares.node.hub.current_hub import CurrentHub
from shares.node.names.local_creations import LocalCreations
from shares.node.names.names import NameCache
from shares.node.opened.file_handles import FileHandles
from shares.node.opened.statics import Statics
from shares.node.opened.uses import FileUses
from shares.node.operations import Attributes, Changes, DirEntry
from shares.protocol import FileId

TAKEN_UNASKED = 1 << 32
"""Bytes. Home is asked before a file gets longer, since not every file system takes such a file."""


SECTOR = 512
"""Bytes of a block of `Attributes.blocks`."""


class LatestAttributes:
    """Of one node. Thread-safe. Raises OSError."""

    def __init__(
        self,
        home: CurrentHub,
        names: NameCache,
        ahead: LocalCreations,
        uses: FileUses,
        content: Content,
        statics: Statics,
        handles: FileHandles,
    ) -> None:
        self._home, self._names, self._ahead, self._uses = home, names, ahead, uses
        self._content, self._statics, self._handles = content, statics, handles

    def of(self, file: FileId) -> Attributes:
        with self._handles.held(file) as opened:
            if opened is not None:
                self._content.table.await_told(opened)
                return self._of_open(opened)
        known = self._names.attributes(file)
        if known is None:
            mark = self._names.mark()
            known = self._home.ask(lambda hub: hub.attributes(file))
            self._names.learn_attributes(mark, known)
        return replace(known, valid=0.0)

    def _of_open(self, opened: OpenFile) -> Attributes:
        """Not for the kernel to keep: nobody tells it that another node has block -1."""
        extent, at_home = self._content.extent(opened), self._statics.of(opened)
        now = extent.onto(at_home)
        changed = max(extent.changed, at_home.changed)  # by a write here, or of mode or names
        return replace(now, changed=changed, blocks=self._blocks(opened, now), valid=0.0)

    def _blocks(self, opened: OpenFile, now: Attributes) -> int:
        """The room at home, with that for what home may lack; rather too much than too little."""
        whole = -(-now.size // BLOCK) * (BLOCK // SECTOR)
        if now.blocks >= whole:
            return now.blocks
        use, here = self._uses.known(opened.file), self._content.room(opened) // SECTOR
        written = use is not None and use.writes
        return min(whole, now.blocks + here if written else max(now.blocks, here))

    def as_here(self, entry: DirEntry) -> DirEntry:
        """What home says of a name, for the kernel. Home does not know the size of a file that is
        open here, and the kernel goes by the size that it is told last."""
        file = entry.attributes.file
        if self._uses.is_open(file):
            with suppress(OSError):
                return DirEntry(entry.name, self.of(file))
        return uncached(entry)

    def change(self, file: FileId, changes: Changes) -> Attributes:
        with self._handles.held(file) as opened:
            use = self._uses.known(file)
            sized = opened if changes.size is not None else None
            with self._content.pages.cutting(sized):
                if opened is None or use is None or not use.writes:
                    return self._change_at_home(file, opened, changes)
                return self._change(file, opened, changes)

    def _change_at_home(
        self, file: FileId, opened: OpenFile | None, changes: Changes
    ) -> Attributes:
        """Of a file that this node may not write, as far as home knows."""
        found = self._changed_at_home(file, opened, changes)
        if opened is None:
            return replace(found, valid=0.0)
        self._content.cut(opened, Extent.of(found))
        return self._of_open(opened)

    def _changed_at_home(
        self, file: FileId, opened: OpenFile | None, changes: Changes
    ) -> Attributes:
        """What home answers is kept, if nobody else has changed them meanwhile."""
        mark = self._names.mark()
        if (changes.mode, changes.uid, changes.gid) != (None, None, None):
            self._ahead.drop(file)  # files that are made in it may get another owner by that
        try:
            found = self._home.get().change(file, changes)
        except OSError:
            self._names.attributes_changed(file)
            if opened is not None:
                opened.attributes = None
            raise
        latest = self._names.attributes_now(mark, file, found)
        if opened is not None:
            self._statics.set(opened, latest, found)
        return found

    def _change(self, file: FileId, opened: OpenFile, changes: Changes) -> Attributes:
        owned = Changes(mode=changes.mode, uid=changes.uid, gid=changes.gid)
        same = owned != Changes() and changes_nothing(opened.attributes, owned)
        if owned != Changes() and not same:
            self._changed_at_home(file, opened, owned)
        size, now = changes.size, time.time_ns()
        if size is not None and not self._resized_here(opened, size):
            found = self._home.get().change(file, Changes(size=size))
            self._content.cut(opened, Extent.of(found))
        accessed = now if changes.accessed == -1 else changes.accessed
        modified = now if changes.modified == -1 else changes.modified
        if size is not None and modified is None:
            modified = now
        if same or any(value is not None for value in (size, accessed, modified)):
            self._content.set_extent(opened, size, accessed, modified)
        return self._of_open(opened)

    def _resized_here(self, opened: OpenFile, size: int) -> bool:
        """Return whether the file gets that size without home: only if this node owns the latest
        one. Another node need not give it away for a comparison, and an old one is not compared."""
        before = self._content.own_size(opened)
        if before is None or size > before:
            self._content.reach(opened, size)
            return before is not None and size <= max(before, TAKEN_UNASKED)
        return size == before or self._content.cut_here(opened, size)


def uncached(entry: DirEntry) -> DirEntry:
    """Not for the kernel to keep: to take it from there again, the node would have to wait for
    calls that wait for home."""
    return replace(entry, attributes=replace(entry.attributes, valid=0.0), valid=0.0)


def changes_nothing(known: Attributes | None, changes: Changes) -> bool:
    """Whether mode and owner are these already, so that the time of the status change alone is
    another: as tar(1) and cp(1) do with each file. A change of the owner takes some bits away."""
    if known is None or known.mode & (stat.S_ISUID | stat.S_ISGID):
        return False
    return (
        changes.mode in (None, stat.S_IMODE(known.mode), known.mode)
        and changes.uid in (None, known.uid)
        and changes.gid in (None, known.gid)
    )
