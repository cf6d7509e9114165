# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of a share: what programs ask (`Operations`), answered from its copies and by home.

Names and attributes are home's, and every change of them is a call; block -1, size and times, is
kept here while the file is open. The time of the last access is not kept up to date.

Here its parts are made, each of those that it needs, and programs' calls are handed to them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from shares.node.content.buffer import Buffer
from shares.node.content.content import Content
from shares.node.content.copies import Make
from shares.node.hub.current_hub import CurrentHub
from shares.node.hub.hub import Hub
from shares.node.hub.losses import Losses, NodeLoss
from shares.node.journal.journal import MountJournal
from shares.node.names.kernel_folders import KernelFolders
from shares.node.names.last_names import LastNames
from shares.node.names.local_creations import LocalCreations
from shares.node.names.names import NameCache
from shares.node.opened.allocation import Allocation
from shares.node.opened.creation import Creation
from shares.node.opened.file_handles import FileHandles
from shares.node.opened.filemarks import FileMarks
from shares.node.opened.folders import Folders
from shares.node.opened.foresight import ContentPrefetcher
from shares.node.opened.handles import appends, file_of
from shares.node.opened.heartbeat import Heartbeat
from shares.node.opened.latest_attributes import LatestAttributes
from shares.node.opened.opener import Opener
from shares.node.opened.statics import Statics
from shares.node.opened.uses import FileUses
from shares.node.operations import (
    FLOCK,
    ROOT,
    Attributes,
    Changes,
    FileSystemUsage,
    Handle,
    LockKind,
)
from shares.protocol import FileId

CLOSE_SECONDS = 5.0
"""For which a node that ends waits for a home that is not reached."""

WHOLE_FILE = (0, (1 << 63) - 1)


class Node:
    """Operations over a hub. Thread-safe."""

    def __init__(
        self,
        hub: Hub,
        buffer: Buffer,
        wait: float | None = 30.0,
        make: Make | None = None,
        lost: Callable[[NodeLoss], None] = lambda lost: None,
        *,
        ahead: bool = False,
        journal: MountJournal | None = None,
        kept: Callable[[bytes], None] = lambda path: None,
    ) -> None:
        """Begins to listen at once. wait, make: as for Content; lost: is told of each node that
        home goes on without; ahead: files are made before home has made them, where no other node
        knows the folder. journal: has what home has not, after the end of this process. kept: is
        called with the path of each conflict copy that home has made of this node's content"""
        self.home = home = CurrentHub(hub, wait)
        self.names, self.uses, last = NameCache(), FileUses(), LastNames(journal)
        self._ahead = made = LocalCreations(home, makes=ahead)
        self.content = content = Content(hub, buffer, wait, make, self.uses.engaged, journal)
        self._losses = Losses(lost)
        self._heartbeat = beat = Heartbeat(home, content, self.names, self._losses, kept)
        self.marks = marks = FileMarks(content.copies.watch)
        self._statics = statics = Statics(home, self.names, self.uses, content.table.relaxed)
        self._opener = opener = Opener(home, self.names, content, statics, marks, beat)
        admit = partial(opener.admit, writes=False)
        about = (self.uses, content, self.names, home.get)
        self.foresight = ContentPrefetcher(*about, admit) if ahead else None
        known = (home, self.names, made, self.uses, content)
        self.handles = files = FileHandles(*known, marks, opener, beat, self.foresight)
        self._attributes = attributes = LatestAttributes(*known, statics, files)
        self.kernel = kernel = KernelFolders()
        about_names = (home, self.names, last, made, self.uses, statics, attributes)
        self._name_operations(Folders(*about_names, kernel))
        self.creation = Creation(*known, last, statics, attributes, opener, files, beat)
        self.create = self.creation.create
        self._allocation = Allocation(home, made, content, statics)
        self._ended = threading.Event()
        self._listen(hub)
        made.want_ids()
        self._threads = [
            threading.Thread(target=beat.run, args=(self._ended,), name="heartbeat"),
            threading.Thread(target=files.run, args=(self._ended,), name="write back"),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def _name_operations(self, folders: Folders) -> None:
        """Take over the operations on names as they are."""
        self.lookup, self.entries, self.sync_folder = folders.lookup, folders.entries, folders.sync
        self.make_folder, self.remove_folder = folders.make_folder, folders.remove_folder
        self.make_link, self.read_link = folders.make_link, folders.read_link
        self.link, self.unlink, self.rename = folders.link, folders.unlink, folders.rename

    def _listen(self, hub: Hub) -> None:
        hub.listen(self.content.answer, self._statics.stale, self._ahead.disown)

    @property
    def hub(self) -> Hub:
        """Home; between two memberships this waits for the next one. Raises OSError where there
        is none any more."""
        return self.home.get()

    def close(self) -> None:
        """Give everything back, as far as home is reached, and end the threads. The hub is the
        caller's."""
        self.kernel.close()
        self._end_threads()
        self.home.limit_wait(CLOSE_SECONDS)
        self.content.limit_wait(CLOSE_SECONDS)
        for thread in self._threads:
            thread.join()
        if self.foresight is not None:
            self.foresight.close(self.home.latest)
        with suppress(OSError):
            self._ahead.await_made(None)
        self._ahead.note_unmade()
        self.handles.close_all()
        if self.home.connected:
            self._heartbeat.confirm(CLOSE_SECONDS)
        self.content.close()

    def _end_threads(self) -> None:
        self._ended.set()
        self.uses.look.set()

    # Memberships.

    def lost(self) -> None:
        """The membership is over: until `rejoin`, what needs home waits."""
        self.home.lost()
        self.names.clear()
        self._ahead.lost()

    def park(self) -> bool:
        """Give everything back, and need home no more until a program asks for something: `home`
        says so. Whether that is so; a file that a program has open keeps the node awake. The hub
        is the caller's, and `lost` comes next, or `stay`."""
        self.home.lost()  # who comes from now on waits
        with suppress(OSError):
            self._ahead.await_made(None)
            for file, _ in self.uses.all():
                self.handles.close_idle(file)
            if not any(use.file is not None or use.wanted for _, use in self.uses.all()):
                self._heartbeat.confirm(CLOSE_SECONDS)
                return self.home.connected
        return False

    def stay(self) -> None:
        """It is not parked after all."""
        self.home.go_on(self.home.latest)

    def end(self, why: OSError) -> None:
        """There is no such share any more, for good: all that programs ask raises this from now on,
        also about what is here."""
        self.home.end(why)
        self.names.clear()
        self._ahead.lost()
        self._ahead.note_unmade()
        self.content.end(why)
        self._end_threads()

    def rejoin(self, hub: Hub) -> None:
        """Go on over the hub of a new membership. Raises OSError: ESTALE where home went on without
        what was written here; the node works all the same."""
        self.names.clear()
        self._listen(hub)
        self.creation.make_again(hub)
        try:
            self.content.rejoined(hub)
        finally:
            if self.content.goes_by(hub):  # else there is a later membership already
                self.names.forget()  # what an answer of before has brought meanwhile
                self.home.go_on(hub)
                self.handles.open_again()
                self.content.go_on()
                self._ahead.want_ids()
        self._heartbeat.beat()  # home need not wait for what is not here

    # Names, and files.

    def forget(self, file: FileId, count: int) -> None:
        """Nothing is kept for the kernel's sake."""

    def attributes(self, file: FileId, handle: int | None) -> Attributes:
        del handle
        return self._attributes.of(file)

    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes:
        del handle
        return self._attributes.change(file, changes)

    def set_mark(self, file: FileId, name: bytes, value: bytes | None) -> None:
        mark = self.marks.set(file, name, value)
        if mark is not None:
            self.handles.mark(file, mark)

    def usage(self, file: FileId) -> FileSystemUsage:
        del file
        return self.hub.usage()

    def open(self, file: FileId, flags: int) -> Handle:
        handle, uncut = self.handles.open(file, flags, cut=bool(flags & os.O_TRUNC))
        if uncut:
            self._attributes.change(file, Changes(size=0))
        return handle

    def is_open(self, file: FileId) -> bool:
        """Whether a program here has it open, or it stays so for the next one."""
        return self.uses.is_open(file)

    def opened_files(self) -> list[FileId]:
        """Those that programs have open, and those that stay open for the next program."""
        return [file for file, use in self.uses.all() if use.file is not None]

    def give_up(self, file: FileId) -> bool:
        """Home has, on return, what was written to the file here. Whether the file is closed: no
        program here has it open. Raises OSError."""
        return self.handles.give_up(file)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        seconds = self.marks.relaxation(file_of(handle))
        return self.read_relaxed(handle, offset, size, seconds)

    def read_relaxed(self, handle: int, offset: int, size: int, seconds: float | None) -> bytes:
        """As `read`. seconds: how old the content may be; None: as the share has it, and less than
        that: the latest."""
        with self.handles.using(handle) as file:
            if seconds is not None and seconds < self.marks.terms(file.file):
                self.hub.attributes(ROOT)  # what home said before it answered this is heeded
                self.content.copies.drop_stale(file)
            elif seconds:
                old = self.content.copies.read_old(file, offset, size, seconds)
                if old is not None:
                    return old
            return self.content.read(file, offset, size)

    def write(self, handle: int, offset: int, data: bytes) -> int:
        with self.handles.using(handle) as file:
            return self.content.write(file, None if appends(handle) else offset, data)

    def read_pages(self, handle: int, offset: int, size: int) -> bytes:
        with self.handles.using(handle) as file:
            return self.content.read(file, offset, size, pages=True)

    def write_pages(self, handle: int, offset: int, data: bytes) -> int:
        with self.handles.using(handle) as file:
            self.content.write(file, offset, data, pages=True)
            return len(data)

    def allocate(self, handle: int, mode: int, offset: int, length: int) -> None:
        with self.handles.using(handle) as file:
            self._allocation.allocate(file, mode, offset, length)

    def seek(self, handle: int, offset: int, whence: int) -> int:
        with self.handles.using(handle) as file:
            return self._allocation.seek(file, offset, whence)

    def flush(self, handle: int, lock_owner: int) -> None:
        file = file_of(handle)
        with self.handles.held(file) as opened:
            if opened is not None:
                self.content.table.note_times(opened)
        self.content.table.await_room()
        use = self.uses.known(file)
        if use is not None and use.locked:
            self.hub.forget_locks(file, lock_owner)

    def sync(self, handle: int, data_only: bool) -> None:
        del data_only
        table = self.content.table
        with self.handles.using(handle) as file:
            with table.else_here(file):
                self._ahead.await_made(file.file)
                table.sync(file)
                self.hub.sync(file.file)
            table.raise_failure(file)

    def release(self, handle: int, lock_owner: int) -> None:
        file = file_of(handle)
        use = self.uses.known(file)
        if use is None:
            return
        if use.locked:
            with suppress(OSError):
                self.hub.forget_locks(file, lock_owner + FLOCK)
        self.handles.released(file, use)

    # Locks, which are home's.

    def get_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind
    ) -> tuple[int, int, LockKind, int] | None:
        return self.hub.get_lock(file_of(handle), owner, start, end, kind)

    def set_lock(
        self, handle: int, owner: int, start: int, end: int, kind: LockKind, pid: int, wait: bool
    ) -> None:
        self.uses.of(file_of(handle)).locked = True
        self.hub.set_lock(file_of(handle), owner, start, end, kind, pid, wait)

    def set_file_lock(self, handle: int, owner: int, kind: LockKind, wait: bool) -> None:
        self.set_lock(handle, owner + FLOCK, *WHOLE_FILE, kind, 0, wait)

    def status(self) -> dict[str, Any]:
        """For status pages: traffic by kind of message, how far each copy is behind, and whom home
        went on without."""
        found, paths = self.content.status(), self.names.paths()
        for file in found["files"]:
            path = paths.get(file["file"])
            file["path"] = None if path is None else path.decode(errors="replace")
        ahead = self.foresight.status() if self.foresight is not None else {}
        return found | {"taken_over": self._losses.status(), "ahead": ahead}
