# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node of a share: what programs ask (`Operations`), answered from its copies and by home.

Names and attributes are home's, and every change of them is a call; block -1, size and times, is
kept here while the file is open. The time of the last access is not kept up to date.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from shares.node.access import OpenFile
from shares.node.buffer import Buffer
from shares.node.content import Content
from shares.node.creating import Creating
from shares.node.extent import Extent
from shares.node.filemarks import FileMarks
from shares.node.foresight import Foresight
from shares.node.handles import appends, file_of, number, writes_to
from shares.node.heartbeat import Heartbeat
from shares.node.hub import Hub, Opened
from shares.node.journal import Journal
from shares.node.losses import Losses, TakenOver
from shares.node.operations import (
    FLOCK,
    ROOT,
    Attributes,
    Changes,
    Handle,
    Usage,
)
from shares.node.statics import changes_nothing
from shares.node.uses import Use, Uses
from shares.node.windows import Make
from shares.protocol import FileId

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05

T = TypeVar("T")

WRITE_BACK_SECONDS = 5.0
"""How long a native file's writes may be here alone, where writes are logged at all."""

IDLE_SECONDS = 30.0
"""For how long a file rests at most: it is not closed when its last handle is."""

CLOSE_SECONDS = 5.0
"""For which a node that ends waits for a home that is not reached."""

WRITTEN_SECONDS = 2.0
"""For how long such a one may be written again without asking."""


class Node(Creating):
    """Operations over a hub. Thread-safe."""

    def __init__(
        self,
        hub: Hub,
        buffer: Buffer,
        wait: float | None = 30.0,
        make: Make | None = None,
        lost: Callable[[TakenOver], None] = lambda lost: None,
        *,
        ahead: bool = False,
        journal: Journal | None = None,
    ) -> None:
        """Begins to listen at once. wait, make: as for Content; lost: is told of each node that
        home goes on without; ahead: files are made before home has made them, where no other node
        knows the folder. journal: has what home has not, after the end of this process"""
        super().__init__()
        self._last.note_in(journal)
        self._hub = hub
        self._wait = wait
        self._joined = threading.Event()
        self._joined.set()
        self._over: OSError | None = None
        self.content = Content(hub, buffer, wait, make, self._engaged, journal)
        self._uses = Uses()
        self.marks = FileMarks(self.content.old.watch)
        self._losses = Losses(lost)
        self._heartbeat = Heartbeat(lambda: self._hub, self.content, self._names, self._losses)
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._look = threading.Event()
        hub.listen(self.content.answer, self._stale, self._disown)
        self._makes = ahead
        self._want_ids()
        about = (self._uses, self.content, self._names, lambda: self.hub)
        admit = partial(self._opened, writes=False)
        self._foresight = Foresight(*about, admit) if ahead else None
        self._threads = [
            threading.Thread(target=self._heartbeat.run, args=(self._ended,), name="heartbeat"),
            threading.Thread(target=self._write_back, name="write back"),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def close(self) -> None:
        """Give everything back, as far as home is reached, and end the threads. The hub is the
        caller's."""
        self._ended.set()
        self._look.set()
        self._wait = CLOSE_SECONDS if self._wait is None else min(self._wait, CLOSE_SECONDS)
        self.content.limit_wait(self._wait)
        for thread in self._threads:
            thread.join()
        if self._foresight is not None:
            self._foresight.close(self._hub)
        with suppress(OSError):
            self._await_made(None)
        self._note_unmade()
        for file, use in self._uses.all():
            with suppress(OSError), use.lock:
                if use.file is not None:
                    self._close(file, use)
            if not self._hub.connected:
                break  # each of the others would wait as long
        if self._hub.connected:
            self._heartbeat.confirm(CLOSE_SECONDS)
        self.content.close()

    @property
    def hub(self) -> Hub:
        """Home; between two memberships this waits for the next one. Raises OSError where there
        is none any more."""
        self._joined.wait(self._wait)
        self._require_home()
        return self._hub

    def _require_home(self) -> None:
        if self._over is not None:
            raise OSError(*self._over.args)

    def ask(self, question: Callable[[Hub], T]) -> T:
        """What changes nothing is asked again of the next membership, if this one ends."""
        began = time.monotonic()
        hub = self.hub
        try:
            return question(hub)
        except OSError as error:
            if error.errno != errno.EIO or hub.connected:
                raise
            while self._hub is hub or not self._joined.is_set():
                self._require_home()
                if self._wait is not None and time.monotonic() - began > self._wait:
                    raise
                time.sleep(LOOK_SECONDS)
            return question(self._hub)

    def lost(self) -> None:
        """The membership is over: until `rejoin`, what needs home waits."""
        self._joined.clear()
        self._names.clear()
        self._ahead.lost()

    def end(self, why: OSError) -> None:
        """There is no such share any more, for good: all that programs ask raises this from now on,
        also about what is here."""
        self._over = why
        self._names.clear()
        self._ahead.lost()
        self._note_unmade()
        self.content.end(why)
        self._joined.set()
        self._ended.set()
        self._look.set()

    def rejoin(self, hub: Hub) -> None:
        """Go on over the hub of a new membership. Raises OSError: ESTALE where home went on without
        what was written here; the node works all the same."""
        self._names.clear()
        hub.listen(self.content.answer, self._stale, self._disown)
        self._make_again(hub)
        try:
            self.content.rejoined(hub)
        finally:
            if self.content.goes_by(hub):  # else there is a later membership already
                self._go_on(hub)
        self._heartbeat.beat()  # home need not wait for what is not here

    def _go_on(self, hub: Hub) -> None:
        self._hub = hub
        self._names.forget()  # what an answer of before has brought meanwhile
        self._joined.set()
        for file, use in self._uses.all():
            with use.lock, suppress(OSError):  # it may have been removed meanwhile
                if use.file is not None:
                    use.file.attributes = None
                    self._open(file, use, writes=use.writes)
        self.content.go_on()
        self._want_ids()

    # Names.

    def forget(self, file: FileId, count: int) -> None:
        """Nothing is kept for the kernel's sake."""

    def attributes(self, file: FileId, handle: int | None) -> Attributes:
        del handle
        with self._held(file) as opened:
            if opened is not None:
                self.content.await_told(opened)
                extent = self.content.extent(opened)
                return replace(extent.onto(self._static(file, opened)), valid=0.0)
        return self._unopened(file)

    def change(self, file: FileId, changes: Changes, handle: int | None) -> Attributes:
        del handle
        with self._held(file) as opened:
            use = self._uses.known(file)
            sized = opened if changes.size is not None else None
            with self.content.pages.cutting(sized):
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
        self.content.cut(opened, Extent.of(found))
        return self.content.extent(opened).onto(self._static(file, opened))

    def _changed_at_home(
        self, file: FileId, opened: OpenFile | None, changes: Changes
    ) -> Attributes:
        """What home answers is kept, if nobody else has changed them meanwhile."""
        mark = self._names.mark()
        if (changes.mode, changes.uid, changes.gid) != (None, None, None):
            self._ahead.drop(file)  # files that are made in it may get another owner by that
        try:
            found = self.hub.change(file, changes)
        except OSError:
            self._names.attributes_changed(file)
            if opened is not None:
                opened.attributes = None
            raise
        latest = self._names.attributes_now(mark, file, found)
        if opened is not None:
            self._set_static(opened, latest, found)
        return found

    def _change(self, file: FileId, opened: OpenFile, changes: Changes) -> Attributes:
        owned = Changes(mode=changes.mode, uid=changes.uid, gid=changes.gid)
        same = owned != Changes() and changes_nothing(opened.attributes, owned)
        if owned != Changes() and not same:
            self._changed_at_home(file, opened, owned)
        size, now = changes.size, time.time_ns()
        shorter = size is not None and size < self.content.extent(opened).size
        if size is not None and shorter and not self.content.cut_here(opened, size):
            found = self.hub.change(file, Changes(size=size))
            self.content.cut(opened, Extent.of(found))
        accessed = now if changes.accessed == -1 else changes.accessed
        modified = now if changes.modified == -1 else changes.modified
        if size is not None and modified is None:
            modified = now
        if same or any(value is not None for value in (size, accessed, modified)):
            self.content.set_extent(opened, size, accessed, modified)
        return self.content.extent(opened).onto(self._static(file, opened))

    def usage(self, file: FileId) -> Usage:
        del file
        return self.hub.usage()

    # Open files.

    def _open(self, file: FileId, use: Use, *, writes: bool, cut: bool = False) -> OpenFile:
        """cut: home makes it empty before; that is asked once, or what others write after it might
        be cut off as well."""
        remembered = None if writes or use.file else self._names.attributes(file)
        mark = self._names.opening(file)

        def uncut(hub: Hub) -> tuple[Hub, Opened]:
            if remembered is not None:
                self.content.ask_ahead(file, remembered, hub)
            return hub, hub.open(file, writes, False)

        with self.content.opening(file):
            try:
                if cut:
                    hub = self.hub
                    self.content.expect_cut(file)
                    opened = hub.open(file, writes, cut)
                else:
                    hub, opened = self.ask(uncut)
            except OSError:
                if self.content.unasked(file):
                    self._hub.close(file, lambda _: None)
                if use.file is None:
                    self._names.closed(file)
                self._names.gone(file)  # the kernel looks the name up once more after ESTALE
                raise
            return self._opened(file, use, opened, hub, mark, writes=writes)

    def _opened(
        self, file: FileId, use: Use, opened: Opened, hub: Hub, mark: int, *, writes: bool
    ) -> OpenFile:
        use.file = self.content.opened(file, opened, hub)
        self._set_static(use.file, mark, opened.attributes)
        self._note_terms(opened)
        self.marks.opened(file, opened.relaxation, opened.mark)
        use.writes = writes
        return use.file

    def _note_terms(self, opened: Opened) -> None:
        if opened.relaxation:
            self._heartbeat.relaxed(opened.relaxation)

    def open(self, file: FileId, flags: int) -> Handle:
        writes = writes_to(flags)
        cut = bool(flags & os.O_TRUNC)
        if self._foresight is not None:
            self._foresight.opened(file, writes=writes)
        with self._uses.locked(file) as use:
            if use.file is None or (writes and not use.writes):
                found = self._open(file, use, writes=writes or use.writes, cut=cut)
                if cut:
                    self.content.cut(found, found.extent)
                    cut = False
            self._used(file, use)
            opened = use.file
        if cut:
            self.change(file, Changes(size=0), None)
        return self._handle(file, flags, opened)

    def _handle(self, file: FileId, flags: int, opened: OpenFile | None) -> Handle:
        window = self.content.window(opened) if opened is not None else None
        return Handle(number(file, flags), window, direct=True)

    @contextmanager
    def _using(self, handle: int) -> Iterator[OpenFile]:
        """The open file of a handle, for a call. A handle of another node's, or of before this one
        was started, is as good: the file is opened with the first use of it."""
        file = file_of(handle)
        with self._uses.locked(file) as use:
            opened = use.file
            if opened is None or (writes_to(handle) and not use.writes):
                opened = self._open(file, use, writes=writes_to(handle) or use.writes)
            if use.handles == 0:
                self._used(file, use)
            self._uses.begun(use)
        try:
            yield opened
        finally:
            self._end(file, use)

    @contextmanager
    def _held(self, file: FileId) -> Iterator[OpenFile | None]:
        """The file, for a call, if it is open."""
        use = self._uses.known(file)
        if use is None:
            yield None
            return
        with use.lock:
            opened = use.file
            if opened is not None:
                self._uses.begun(use)
        try:
            yield opened
        finally:
            if opened is not None:
                self._end(file, use)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        seconds = self.marks.relaxation(file_of(handle))
        return self.read_relaxed(handle, offset, size, seconds)

    def read_relaxed(self, handle: int, offset: int, size: int, seconds: float | None) -> bytes:
        """As `read`. seconds: how old the content may be; None: as the share has it, and less than
        that: the latest."""
        with self._using(handle) as file:
            if seconds is not None and seconds < self.marks.terms(file.file):
                self.hub.attributes(ROOT)  # what home said before it answered this is heeded
                self.content.old.drop_stale(file)
            elif seconds:
                old = self.content.old.read(file, offset, size, seconds)
                if old is not None:
                    return old
            return self.content.read(file, offset, size)

    def write(self, handle: int, offset: int, data: bytes) -> int:
        with self._using(handle) as file:
            return self.content.write(file, None if appends(handle) else offset, data)

    def read_pages(self, handle: int, offset: int, size: int) -> bytes:
        with self._using(handle) as file:
            return self.content.read(file, offset, size, pages=True)

    def write_pages(self, handle: int, offset: int, data: bytes) -> int:
        with self._using(handle) as file:
            self.content.write(file, offset, data, pages=True)
            return len(data)

    def flush(self, handle: int, lock_owner: int) -> None:
        with self._held(file_of(handle)) as file:
            if file is not None:
                self.content.note_times(file)
        self.content.await_room()
        use = self._uses.known(file_of(handle))
        if use is not None and use.locked:
            self.hub.forget_locks(file_of(handle), lock_owner)

    def sync(self, handle: int, data_only: bool) -> None:
        del data_only
        with self._using(handle) as file:
            with self.content.else_here(file):
                self._await_made(file.file)
                self.content.sync(file)
                self.hub.sync(file.file)
            self.content.raise_failure(file)

    def release(self, handle: int, lock_owner: int) -> None:
        use = self._uses.known(file_of(handle))
        if use is None:
            return
        if use.locked:
            with suppress(OSError):
                self.hub.forget_locks(file_of(handle), lock_owner + FLOCK)
        if self._uses.released(use):
            self._left(file_of(handle), use)

    def _end(self, file: FileId, use: Use) -> None:
        """Of a call. What it did is done, whatever becomes of the file."""
        if self._uses.ended(use):
            with suppress(OSError):
                self._left(file, use)

    def _left(self, file: FileId, use: Use) -> None:
        """Nobody uses it any more: what was written goes home. What is here rests for the next
        program; a native file is not written any more then without asking, so that other nodes may
        remember its size and times."""
        with use.lock:
            if use.wanted or use.file is None:
                return
            use.locked = False
            if self.marks.stays(file) and not use.leaves:
                return
            self._uses.rests(file, use)
            self.content.pages.unmapped(use.file)
            if use.writes:
                self.content.settle(file)
                if self.content.keep(file):
                    self._say_written(file, use)
            if use.leaves:
                self._look.set()
        for oldest in self._uses.surplus() if self._hub.connected else ():
            self._close_idle(oldest)

    def _used(self, file: FileId, use: Use) -> None:
        """With the use's lock held: one handle more."""
        self._uses.opened(file, use)
        if use.file is not None:
            self.content.used(use.file)
        use.leaves = False  # who opens the file elsewhere now engages it anew

    def _close_idle(self, file: FileId) -> None:
        if self._ahead.is_pending(file):
            return  # home has it open when it has made it
        use = self._uses.of(file)
        with use.lock:
            if use.file is not None and not use.wanted:
                self._close(file, use)

    def opened_files(self) -> list[FileId]:
        """Those that programs have open, and those that stay open for the next program."""
        return [file for file, use in self._uses.all() if use.file is not None]

    def give_up(self, file: FileId) -> bool:
        """Home has, on return, what was written to the file here. Whether the file is closed: no
        program here has it open. Raises OSError."""
        self._await_made(file)
        use = self._uses.of(file)
        with use.lock:
            if use.file is None:
                return True
            if not use.wanted:
                self._close(file, use)
                return True
            self.content.note_times(use.file)
            self.content.sync(use.file)
            return False

    def _written(self, file: FileId, use: Use) -> None:
        """Other nodes may remember its size and times again."""
        with use.lock:
            if use.file is not None and use.writes and not use.wanted:
                self.content.settle(file)
                self._say_written(file, use)

    def _say_written(self, file: FileId, use: Use) -> None:
        use.writes = False
        opened = use.file
        assert opened is not None
        opened.spoken += 1
        self._hub.written(file, partial(self.content.told, opened, opened.spoken))
        use.said = next(self._numbers)

    def _engaged(self, file: FileId, kept: bool) -> None:
        """Another node opens a file. If no program here has it open any more that wrote it, it is
        to be that node's alone, also where the last close is still under way."""
        use = self._uses.known(file)
        if use is not None and (kept or (use.writes and use.handles == 0)):
            use.leaves = True
            self._look.set()

    def _close(self, file: FileId, use: Use) -> None:
        """With the use's lock held. Where home is not reached, the file stays open."""
        self.content.give_back(file)
        if self.content.gives(file):
            self._heartbeat.confirm(0.0)
            self.content.await_given(file)
        self._uses.closed(file, use)
        self.content.closed(file)
        self.marks.closed(file)
        self._names.closed(file)
        if self._foresight is not None:
            self._foresight.dropped(file)
        mark = self._names.mark()

        hub = self._hub

        def closed(attributes: Attributes | None) -> None:
            if self.content.goes_by(hub):
                self.content.closed_at_home(file)
            if attributes is not None and attributes.file == file:
                self._names.learn_attributes(mark, attributes)

        hub.close(file, closed)
        use.said = next(self._numbers)

    def set_mark(self, file: FileId, name: bytes, value: bytes | None) -> None:
        mark = self.marks.set(file, name, value)
        if mark is None:
            return
        self._await_made(file)
        use = self._uses.of(file)
        with use.lock:
            if use.file is not None:
                self.content.settle(file)
                if not use.wanted:
                    self._close(file, use)
            self.hub.mark(file, mark)
            if use.file is not None:
                self._open(file, use, writes=use.writes)

    # Threads.

    def _write_back(self) -> None:
        while not self._ended.is_set():
            self._look.wait(WRITE_BACK_SECONDS)
            self._look.clear()
            if self._foresight is not None and self._hub.connected:
                self._foresight.tell(self._hub)
            for file, use in self._uses.all():
                if use.file is not None and self._hub.connected:
                    with suppress(OSError):
                        self._look_after(file, use)

    def _look_after(self, file: FileId, use: Use) -> None:
        idle = use.idle()
        if self.marks.stays(file) and not use.leaves:
            return
        if idle > IDLE_SECONDS:
            self._close_idle(file)
        elif idle > WRITTEN_SECONDS and use.writes:
            self._written(file, use)
        else:
            with self._held(file) as opened:
                if opened is not None and opened.log != "off":
                    self.content.sync(opened)

    def status(self) -> dict[str, Any]:
        """For status pages: traffic by kind of message, how far each copy is behind, and whom home
        went on without."""
        found, paths = self.content.status(), self._names.paths()
        for file in found["files"]:
            path = paths.get(file["file"])
            file["path"] = None if path is None else path.decode(errors="replace")
        ahead = self._foresight.status() if self._foresight is not None else {}
        return found | {"taken_over": self._losses.status(), "ahead": ahead}
