# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The files behind programs' handles, from the first use by a program until home hears that they
are closed: while somebody uses them, while they rest for the next program, and the last close."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from shares.node.content.access import OpenFile
from shares.node.content.content import Content
from shares.node.hub.current_hub import CurrentHub
from shares.node.names.local_creations import LocalCreations
from shares.node.names.names import NameCache
from shares.node.opened.filemarks import FileMarks
from shares.node.opened.foresight import ContentPrefetcher
from shares.node.opened.handles import file_of, number, writes_to
from shares.node.opened.heartbeat import Heartbeat
from shares.node.opened.opener import Opener
from shares.node.opened.uses import FileUse, FileUses
from shares.node.operations import Attributes, Handle
from shares.protocol import FileId

WRITE_BACK_SECONDS = 5.0
"""How long a native file's writes may be here alone, where writes are logged at all."""

IDLE_SECONDS = 30.0
"""For how long a file rests at most: it is not closed when its last handle is."""

WRITTEN_SECONDS = 2.0
"""For how long such a one may be written again without asking."""


class FileHandles:
    """Of one node. Thread-safe, but for what says with the use's lock."""

    def __init__(
        self,
        home: CurrentHub,
        names: NameCache,
        ahead: LocalCreations,
        uses: FileUses,
        content: Content,
        marks: FileMarks,
        opener: Opener,
        heartbeat: Heartbeat,
        foresight: ContentPrefetcher | None,
    ) -> None:
        self._home, self._names, self._ahead, self._uses = home, names, ahead, uses
        self._content, self._table = content, content.table
        self._marks, self._opener = marks, opener
        self._heartbeat, self._foresight = heartbeat, foresight

    # In use.

    def open(self, file: FileId, flags: int, *, cut: bool) -> tuple[Handle, bool]:
        """cut: the program wants it empty; whether it still has to be made so."""
        writes = writes_to(flags)
        if self._foresight is not None:
            self._foresight.opened(file, writes=writes)
        with self._uses.locked(file) as use:
            if use.file is None or (writes and not use.writes):
                found = self._opener.open(file, use, writes=writes or use.writes, cut=cut)
                if cut:
                    self._content.cut(found, found.extent)
                    cut = False
            self.used(file, use)
            opened = use.file
        return self.handle(file, flags, opened), cut

    def handle(self, file: FileId, flags: int, opened: OpenFile | None) -> Handle:
        """For a program that has opened it with these flags."""
        window = self._content.window(opened) if opened is not None else None
        return Handle(number(file, flags), window, direct=True)

    def used(self, file: FileId, use: FileUse) -> None:
        """With the use's lock held: one handle more."""
        self._uses.opened(file, use)
        if use.file is not None:
            self._table.used(use.file)
        use.leaves = False  # who opens the file elsewhere now engages it anew

    @contextmanager
    def using(self, handle: int) -> Iterator[OpenFile]:
        """The open file of a handle, for a call. A handle of another node's, or of before this one
        was started, is as good: the file is opened with the first use of it."""
        file = file_of(handle)
        with self._uses.locked(file) as use:
            opened = use.file
            if opened is None or (writes_to(handle) and not use.writes):
                opened = self._opener.open(file, use, writes=writes_to(handle) or use.writes)
            if use.handles == 0:
                self.used(file, use)
            self._uses.begun(use)
        try:
            yield opened
        finally:
            self._end(file, use)

    @contextmanager
    def held(self, file: FileId) -> Iterator[OpenFile | None]:
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

    # No more.

    def _end(self, file: FileId, use: FileUse) -> None:
        """Of a call. What it did is done, whatever becomes of the file."""
        if self._uses.ended(use):
            with suppress(OSError):
                self._left(file, use)

    def released(self, file: FileId, use: FileUse) -> None:
        """A program has closed a handle. Raises OSError."""
        if self._uses.released(use):
            self._left(file, use)

    def _left(self, file: FileId, use: FileUse) -> None:
        """Nobody uses it any more: what was written goes home. What is here rests for the next
        program; a native file is not written any more then without asking, so that other nodes may
        remember its size and times."""
        with use.lock:
            if use.wanted or use.file is None:
                return
            use.locked = False
            if self._marks.stays(file) and not use.leaves:
                return
            self._uses.rests(file, use)
            self._content.pages.unmapped(use.file)
            if use.writes:
                self._table.settle(file)
                if self._table.keep(file):
                    self._say_written(file, use)
            if use.leaves:
                self._uses.look.set()
        for oldest in self._uses.surplus() if self._home.connected else ():
            self.close_idle(oldest)

    def close_idle(self, file: FileId) -> None:
        """If nobody uses it. Raises OSError."""
        if self._ahead.is_pending(file):
            return  # home has it open when it has made it
        use = self._uses.of(file)
        with use.lock:
            if use.file is not None and not use.wanted:
                self._close(file, use)

    def close_all(self) -> None:
        """As far as home is reached."""
        for file, use in self._uses.all():
            with suppress(OSError), use.lock:
                if use.file is not None:
                    self._close(file, use)
            if not self._home.connected:
                break  # each of the others would wait as long

    def _close(self, file: FileId, use: FileUse) -> None:
        """With the use's lock held. Where home is not reached, the file stays open."""
        self._table.give_back(file)
        if self._table.gives(file):
            self._heartbeat.confirm(0.0)
            self._table.await_given(file)
        self._uses.closed(file, use)
        self._table.closed(file)
        self._marks.closed(file)
        self._names.closed(file)
        if self._foresight is not None:
            self._foresight.dropped(file)
        mark = self._names.mark()

        hub = self._home.latest

        def closed(attributes: Attributes | OSError | None) -> None:
            if self._content.goes_by(hub):
                self._table.closed_at_home(file)
            if isinstance(attributes, Attributes) and attributes.file == file:
                self._names.learn_attributes(mark, attributes)

        hub.close(closed, file)
        self._uses.say(use)

    def _say_written(self, file: FileId, use: FileUse) -> None:
        use.writes = False
        opened = use.file
        assert opened is not None
        opened.rest.spoken += 1
        told = partial(self._table.told, opened, opened.rest.spoken)
        self._home.latest.written(told, file)
        self._uses.say(use)

    # Without an end of the use.

    def give_up(self, file: FileId) -> bool:
        """Home has, on return, what was written to the file here. Whether the file is closed: no
        program here has it open. Raises OSError."""
        self._ahead.await_made(file)
        use = self._uses.of(file)
        with use.lock:
            if use.file is None:
                return True
            if not use.wanted:
                self._close(file, use)
                return True
            self._table.note_times(use.file)
            self._table.sync(use.file)
            return False

    def mark(self, file: FileId, mark: str) -> None:
        """Have home mark it, and go on by that. Raises OSError."""
        self._ahead.await_made(file)
        use = self._uses.of(file)
        with use.lock:
            if use.file is not None:
                self._table.settle(file)
                if not use.wanted:
                    self._close(file, use)
            self._home.get().mark(file, mark)
            if use.file is not None:
                self._opener.open(file, use, writes=use.writes)

    def open_again(self) -> None:
        """In a new membership."""
        for file, use in self._uses.all():
            with use.lock, suppress(OSError):  # it may have been removed meanwhile
                if use.file is not None:
                    use.file.attributes = None
                    self._opener.open(file, use, writes=use.writes)

    # A thread.

    def run(self, ended: threading.Event) -> None:
        """Look after all of them until then."""
        while not ended.is_set():
            self._uses.look.wait(WRITE_BACK_SECONDS)
            self._uses.look.clear()
            if self._foresight is not None and self._home.connected:
                self._foresight.tell(self._home.latest)
            for file, use in self._uses.all():
                if use.file is not None and self._home.connected:
                    with suppress(OSError):
                        self._look_after(file, use)

    def _look_after(self, file: FileId, use: FileUse) -> None:
        idle = use.idle()
        if self._marks.stays(file) and not use.leaves:
            return
        if idle > IDLE_SECONDS:
            self.close_idle(file)
        elif idle > WRITTEN_SECONDS and use.writes:
            self._written(file, use)
        else:
            with self.held(file) as opened:
                if opened is not None and opened.log != "off":
                    self._table.sync(opened)

    def _written(self, file: FileId, use: FileUse) -> None:
        """Other nodes may remember its size and times again."""
        with use.lock:
            if use.file is not None and use.writes and not use.wanted:
                self._table.settle(file)
                self._say_written(file, use)
