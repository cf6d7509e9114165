# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How what was written at a node gets home when nobody asks for it: at a sync, when the last
program has closed a file, with heartbeats, and before a file is closed at home.

What a close leaves is posted, in order, and not waited for: whatever is said after it home hears
after it. At most LAG_BYTES are on their way so; who closes another file waits then.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shares.node.content.access import OpenFile
from shares.node.content.buffer import Buffer
from shares.node.content.copies import Copies
from shares.node.content.eviction import Eviction
from shares.node.content.known_files import KnownFiles
from shares.node.content.sending import FLUSHED, Sender
from shares.node.content.windows import Windows
from shares.node.extent import BLOCK, Extent
from shares.node.journal.journal import Journal
from shares.node.operations import Attributes
from shares.protocol import ATTRIBUTES, FileId, NodeMachine

ON_THIS_DISK = "home is not reached; what was written is durable on this disk"


class WriteBack:
    """Of one node. Thread-safe. Raises OSError."""

    def __init__(
        self,
        machine: NodeMachine,
        buffer: Buffer,
        sender: Sender,
        windows: Windows,
        copies: Copies,
        files: KnownFiles,
        eviction: Eviction,
        journal: Journal | None,
        extent: Callable[[OpenFile], Extent],
    ) -> None:
        """extent: a file's size and times, with those of what was written in block -1"""
        self._machine, self._buffer, self._sender = machine, buffer, sender
        self._windows, self._copies, self._files = windows, copies, files
        self._eviction, self._journal, self._extent = eviction, journal, extent
        self._changed = sender.changed

    def sync(self, file: OpenFile) -> None:
        """Returns when home has what was written here; the caller has home make it durable."""
        self.note_times(file)
        self._sender.flush(file)

    def settle(self, file: FileId) -> None:
        """No program writes it any more: home gets what it has not. With the log policy `sync` it
        has that on return; else it is on its way, ahead of all that is said after this."""
        known = self._files[file]
        self.note_times(known)
        self._sender.flush(known, wait=known.log == "sync")
        if known.log == "sync":
            self._sender.wait_until(lambda: self._sender.quiet(file))  # what was pushed, too

    def keep(self, file: FileId) -> bool:
        """No program has it open. Whether it is native, and so is this node's until another one
        opens it; of that the node is told (`engaged`), for the file to be closed. With relaxation
        it is not: who opens it here may read it as it was."""
        with self._changed:
            native = self._machine.native(file)
            if native and not self._machine.relaxed(file):
                self._files[file].kept = True
                self._machine.keep(file, True)
            return native

    def relaxed(self, file: FileId) -> bool:
        """Whether programs may read it as it was some time ago."""
        with self._changed:
            return self._machine.relaxed(file)

    def used(self, file: OpenFile) -> None:
        """A program has it open again."""
        with self._changed:
            if file.kept:
                file.kept = False
                self._machine.keep(file.file, False)

    def told(self, file: OpenFile, spoken: int, found: Attributes | OSError | None) -> None:
        """Home has stored what was written: size and times are these from now on."""
        attributes = found if isinstance(found, Attributes) else None
        with self._changed:
            file.answered = max(file.answered, spoken)
            self._changed.notify_all()
            named = attributes is not None and attributes.file == file.file
            native = file.extent_came and self._machine.native(file.file)
            changed = file.touched or self._machine.block(file.file, ATTRIBUTES).dirty
            latest = named and spoken == file.spoken
            if attributes is not None and latest and native and not changed:
                file.extent = Extent.of(attributes)

    def await_told(self, file: OpenFile) -> None:
        """Until it is known when home stored what was written: that is the time of the last status
        change, and is not to be another one a moment later. Not where home is not reached."""
        self._sender.wait_until(lambda: file.answered >= file.spoken or not self._sender.connected)

    def await_room(self) -> None:
        """Until not too much of what was closed is on its way. Raises OSError(EIO), but not where
        the journal has it: then it waits there for a home that is not reached."""
        journaled = self._journal is not None
        self._sender.wait_until(
            lambda: self._sender.room() or (journaled and not self._sender.connected)
        )

    @contextmanager
    def else_here(self, file: OpenFile) -> Iterator[None]:
        """Within this home is to have the file durable. Where it is not reached for that, what was
        written is durable on this disk, if there is a journal. Raises OSError: ENOLINK then."""
        try:
            yield
        except OSError as error:
            reached = error.errno != errno.EIO or self._sender.connected
            if reached or self._journal is None:
                raise
            name = file.file
            with self._changed:
                self._copies.absorb(file)
                self._journal.sync(name, lambda n: self._buffer.read(name, n * BLOCK, BLOCK))
            raise OSError(errno.ENOLINK, ON_THIS_DISK) from error

    def raise_failure(self, file: OpenFile) -> None:
        """What home answered to content that nobody waited for. Raises OSError, once."""
        with self._changed:
            error = self._sender.failure(file.file)
        if error is not None:
            raise error

    def note_times(self, file: OpenFile) -> None:
        """What was written has its time in block -1."""
        file.require()
        with self._changed:
            self._copies.absorb(file)
        if file.touched:
            self._extent(file)

    def give_back(self, file: FileId) -> None:
        """Before the file is closed: home gets what is here alone. Of a native file the content
        stays until it is wanted elsewhere."""
        if self._files[file].refused is None:
            self.sync(self._files[file])
        self._sender.wait_until(
            lambda: self._files.under_way[file] <= 0 and self._sender.quiet(file)
        )
        with self._changed:
            native = self._machine.native(file)
            self._copies.take_back_all(self._files[file])
            going = [] if native else self._machine.give_back(file)
            pending = [self._sender.send(message) for message in going]
        self._sender.wait_for(pending)

    def gives(self, file: FileId) -> bool:
        """Whether home has perhaps not got yet what it was given of the file in answers: that the
        answer to a heartbeat says. Of a native file that stays known when it is closed."""
        with self._changed:
            return not self._machine.native(file) and self._machine.gives(file)

    def await_given(self, file: FileId) -> None:
        """Until a heartbeat has told that. Raises OSError(EIO) where home is not reached."""
        self._sender.wait_until(lambda: not self._machine.gives(file))

    def closed(self, file: FileId) -> None:
        """The last program has closed it, and home is about to be told. It has what was written, so
        that stays for the next open as far as there is room."""
        with self._changed:
            native = self._machine.native(file)
            self._windows.drop(self._files[file])
            self._machine.close(file)
            if native:
                self._files[file].closed = True
                for number in self._machine.numbers(file):
                    if number >= 0 and self._machine.block(file, number).valid:
                        self._buffer.used(file, range(number, number + 1))
                self._eviction.evict()
            else:
                self._files.forget(file)

    def closed_at_home(self, file: FileId) -> None:
        """Home has answered that it is closed."""
        with self._changed:
            self._machine.closed(file)

    def collect(self) -> None:
        """What was written through windows is on its way to home, where writes that ask are on
        their way to its log. Not waited for: the heartbeat that comes next is. Nothing stays of a
        closed file whose grant has ended when it was still needed, or with a membership."""
        with self._changed:
            for known in list(self._files.values()):
                self._files.forget_closed(known)
            for file in self._windows.files():
                self._copies.absorb(file)
                if file.behind and file.log == "async" and not self._machine.native(file.file):
                    file.behind = 0
                    for flush in self._machine.flush(file.file, FLUSHED):
                        self._sender.send(flush)
