# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The files that a node has open at home: how home opens them, the requests for their blocks, and
the writes that go home though nobody asks for them.

Writes go home at a sync, when the last program has closed a file, with heartbeats, and before the
file is closed at home. Those of a close are posted in order, without a wait: home hears later
messages after them. At most LAG_BYTES are on their way so; a program that closes another file waits
then.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from satchel.errors import IntegrityError
from shares.node import clock
from shares.node.content.access import FileAccess, MissingBlocks, OpenFile, StatAccess
from shares.node.content.copies import BlockCopies
from shares.node.content.holdings import FLUSHED, Holdings
from shares.node.extent import Extent
from shares.node.hub.hub import Hub, OpenReply
from shares.node.operations import Attributes
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    POLICIES,
    Acquire,
    Blocks,
    DelayedUpdate,
    Fetch,
    FileId,
    Message,
    Ownership,
    PushPolicy,
)

log = logging.getLogger(__name__)

AHEAD_OF_OPEN = 16
"""Blocks that are asked for together with an open to read, at most."""

ON_THIS_DISK = "home is not reached; what was written is durable on this disk"


class FileTable:
    """The open files of one node. Thread-safe. Raises OSError."""

    def __init__(
        self, held: Holdings, copies: BlockCopies, extent: Callable[[OpenFile], Extent]
    ) -> None:
        """extent: returns a file's size and times, with the writes of this node."""
        self._held, self._copies, self._extent = held, copies, extent
        self._machine, self._buffer, self._journal = held.machine, held.buffer, held.journal
        self._files = held.files
        self._policies: dict[str, PushPolicy] = {}

    # Opens, and files made here.

    @contextmanager
    def opening(self, file: FileId | None = None) -> Iterator[None]:
        """Mark that home is asked to open files; `opened` is called within. file: the file, if
        it is known; nothing else opens it meanwhile."""
        with self._held.lock:
            self._machine.opening()
        try:
            yield
        finally:
            with self._held.lock:
                self._machine.opening_over()
                self._held.unexpect(file)

    def ask_ahead(self, file: FileId, remembered: Attributes, hub: Hub) -> None:
        """Ask for the beginning of the content before `hub` is asked to open the file to read,
        so that a program which opens and reads waits once. Call it within `opening`. The blocks
        are ordinary copies: home counts them and calls them back, also before the file is open.

        remembered: attributes that home has promised, so that no other node has the file open to
        write. Blocks that are here or on their way are not asked for.
        """
        with self._held.lock:
            blocks = -(-remembered.size // BLOCK)
            count = min(blocks, AHEAD_OF_OPEN, self._copies.ahead_limit())
            if hub is not self._held.hub or count == 0:
                return
            if file not in self._files:
                self._expect(file, Extent.of(remembered))
            self.ask(StatAccess(self._files[file]), MissingBlocks(0, count, writes=False))

    def expect_cut(self, file: FileId) -> None:
        """Expect content before home's answer to an open that empties the file. Call it within
        `opening`."""
        with self._held.lock:
            if file not in self._files:
                self._expect(file, Extent(0, 0, 0, 0))

    def _expect(self, file: FileId, extent: Extent) -> None:
        self._files[file] = OpenFile(file, None, extent, "off")
        self._held.expected.add(file)
        self._machine.expect(file, self._policy(DelayedUpdate.name))

    def unasked(self, file: FileId) -> bool:
        """Wait for the answers to `ask_ahead` after home has not opened the file. Return whether
        home counts copies of this node, and so is to be told of a close."""
        if file not in self._held.expected:
            return False
        with suppress(OSError):
            self._held.wait_until(
                lambda: self._held.under_way[file] <= 0 or not self._held.connected
            )
        return self._held.under_way[file] <= 0

    def opened(self, file: FileId, opened: OpenReply, hub: Hub) -> OpenFile:
        """Take up that home has opened the file for this node, perhaps again. Messages may have
        overtaken this answer, because another thread handles them. hub: that of the answer; if
        its membership is over, the answer does not decide who owns the file."""
        with self._held.lock:
            if hub is not self._held.hub:
                opened = replace(opened, native=False, grant=0)
            known, expected = self._files.get(file), file in self._held.expected
            self._held.expected.discard(file)
            if known is not None:
                self._copies.take_back_all(known)
            overtaken = self._machine.overtaken(file, opened.native, opened.grant)
            native = opened.native and not overtaken
            policy = self._policy(opened.policy)
            self._held.policies[file] = policy.name
            about = (opened.native, opened.relaxation, opened.grant)
            comes, extent = self._machine.open(file, policy, *about), Extent.of(opened.attributes)
            if known is None:
                known = OpenFile(file, opened.attributes, extent, opened.log)
                self._files[file] = known
            elif comes or (expected and not self._machine.block(file, ATTRIBUTES).valid):
                known.extent = extent
            known.extent_came = native or known.extent_came
            known.attributes, known.log = opened.attributes, opened.log
            known.rest.kept = known.rest.closed = False
            if self._journal is not None:
                self._journal.opened(file, Extent.of(opened.attributes))
            return known

    def make(self, file: FileId, attributes: Attributes) -> OpenFile:
        """Make a file here that no other node knows: it is native. `made` or `refuse` must
        follow, before the file is closed."""
        with self._held.lock:
            self._machine.make(file, self._policy(DelayedUpdate.name))
            made = OpenFile(file, attributes, Extent.of(attributes), "async", extent_came=True)
            self._files[file] = made
            return made

    def made(self, file: FileId, opened: OpenReply, hub: Hub) -> OpenFile:
        """Take up that home has made the file as well, and opened it for this node."""
        with self._held.lock:
            kept = self._files[file].rest.kept
            self._machine.made(file, opened.grant)
            if self._journal is not None:
                self._journal.made(file, opened.grant)
            known = self.opened(file, opened, hub)
            if kept:
                known.rest.kept = True
                self._machine.keep(file, True)
            return known

    def made_before(self, file: FileId, grant: int) -> None:
        """Take up the grant by which home goes after it has made the file, in this membership or
        before."""
        with self._held.lock:
            self._machine.made(file, grant)
            if self._journal is not None:
                self._journal.made(file, grant)

    def refuse(self, file: FileId, why: OSError) -> None:
        """Take up that home has not made the file. Every access to it raises `why` from now on."""
        with self._held.lock:
            known = self._files.get(file)
            if known is None:
                return
            self._copies.take_back_all(known)
            if self._journal is not None:
                here = [n for n in self._machine.numbers(file) if self._held.unconfirmed(file, n)]
                self._journal.unmade(file, {n: self._held.block(file, n) for n in here})
            known.refused, known.session.complete, known.extent_came = why, False, False
            self._machine.forget(file)
            for access in known.demand.waiting:
                access.error = why
            self._held.lock.notify_all()

    def _policy(self, name: str) -> PushPolicy:
        if name not in POLICIES:
            log.warning("home's policy %s is not known here", name)
        return self._policies.setdefault(name, POLICIES.get(name, DelayedUpdate)())

    # Requests for blocks, with the lock held.

    def ask(self, access: FileAccess, need: MissingBlocks) -> None:
        """Ask home for these blocks: for those that are neither here nor on their way, or for all
        of them if the access wants them together. With the lock held."""
        now, name, hub = clock.now(), access.file.file, self._held.hub
        first, count, together = need.first, need.count, access.rounds.together
        asked: list[Fetch] | list[Fetch | Acquire] = (
            self._machine.to_write(name, first, count, need.whole, now, together=together)
            if need.writes
            else self._machine.to_read(name, first, count, now, together=together)
        )
        for message in asked:
            self._held.count(message)
            self._held.under_way[name] += 1
            access.rounds.sent(message)
            came = partial(self._came, hub, message, access, now)
            hub.post(message, came, partial(self._failed, hub, message, access))

    def _came(
        self, hub: Hub, request: Fetch | Acquire, access: FileAccess, sent: float, reply: Message
    ) -> None:
        with self._held.lock:
            if hub is not self._held.hub:
                return
            access.rounds.came(request)
            self._held.count(reply)
            self._held.under_way[request.file] -= 1
            file = self._files.get(request.file)
            if file is not None:
                self._copies.take_back(file, request.numbers, read=True)
            numbers: set[int] = set()
            try:
                if isinstance(request, Fetch) and isinstance(reply, Blocks):
                    numbers = set(self._machine.blocks(request, reply, sent))
                elif isinstance(request, Acquire) and isinstance(reply, Ownership):
                    numbers = set(self._machine.granted(request, reply, clock.now()))
                else:
                    raise IntegrityError("home's reply does not fit", why=type(reply).__name__)
                self._held.store(reply, numbers)
            except (IntegrityError, ValueError) as error:
                self._lose(request, numbers, OSError(errno.EIO, str(error)))
            except OSError as error:  # this node's disk is full, say
                self._lose(request, numbers, error)
            self._held.go_on(request.file)
            empty = self._machine.unwritten(request)
            for message in empty:
                self._held.send(message)
            if empty:
                self._held.go_on(
                    request.file
                )  # others wait for what has content, or is to be asked for
            self._copies.evict()

    def _lose(self, request: Fetch | Acquire, numbers: set[int], error: OSError) -> None:
        """Tell the machine that the content of these blocks could not be stored here."""
        self._machine.unstored(request, numbers)
        self._refuse(request, error)

    def _failed(
        self, hub: Hub, request: Fetch | Acquire, access: FileAccess, error: OSError
    ) -> None:
        with self._held.lock:
            if hub is not self._held.hub:
                return  # of an earlier membership: it is asked again already
            access.rounds.failed(request)
            self._held.under_way[request.file] -= 1
            self._refuse(request, error)

    def _refuse(self, request: Fetch | Acquire, error: OSError) -> None:
        self._machine.failed(request)
        file = self._files.get(request.file)
        if self._held.connected:  # else it is asked again, as long as the accesses wait
            for access in file.demand.waiting if file else []:
                access.error = error
        self._held.lock.notify_all()

    # Writing back.

    def sync(self, file: OpenFile) -> None:
        """Return when home has all writes of this node; the caller has home make them durable."""
        self.note_times(file)
        self._held.flush(file)

    def settle(self, file: FileId) -> None:
        """Send home the rest after the last program that writes the file. With the log policy
        `sync`, return when home has it; else it goes ahead of all later messages."""
        known = self._files[file]
        self.note_times(known)
        self._held.flush(known, wait=known.log == "sync")
        if known.log == "sync":
            self._held.wait_until(lambda: self._held.quiet(file))  # what was pushed, too

    def keep(self, file: FileId) -> bool:
        """Return whether the file, which no program has open, is native. It stays so until
        another node opens it: then `engaged` is called. With relaxation it is not kept, so that
        programs here may read it as it was."""
        with self._held.lock:
            native = self._machine.native(file)
            if native and not self._machine.relaxed(file):
                self._files[file].rest.kept = True
                self._machine.keep(file, True)
            return native

    def relaxed(self, file: FileId) -> bool:
        """Return whether programs may read old content of the file."""
        with self._held.lock:
            return self._machine.relaxed(file)

    def used(self, file: OpenFile) -> None:
        """Note that a program has the file open again."""
        with self._held.lock:
            if file.rest.kept:
                file.rest.kept = False
                self._machine.keep(file.file, False)

    def told(self, file: OpenFile, spoken: int, found: Attributes | OSError | None) -> None:
        """Take up the size and times with which home has stored the writes."""
        attributes = found if isinstance(found, Attributes) else None
        with self._held.lock:
            file.rest.answered = max(file.rest.answered, spoken)
            self._held.lock.notify_all()
            named = attributes is not None and attributes.file == file.file
            native = file.extent_came and self._machine.native(file.file)
            changed = file.touched or self._machine.block(file.file, ATTRIBUTES).dirty
            latest = named and spoken == file.rest.spoken
            if attributes is not None and latest and native and not changed:
                file.extent = Extent.of(attributes)

    def await_told(self, file: OpenFile) -> None:
        """Wait for the time at which home stored the writes, which is the time of the last
        status change, so that it does not change a moment later. Return at once if home is not
        reached."""
        self._held.wait_until(
            lambda: file.rest.answered >= file.rest.spoken or not self._held.connected
        )

    def await_room(self) -> None:
        """Wait until little enough content of closed files is on its way to home. Raises
        OSError(EIO) if home is not reached; with a journal, return then."""
        journaled = self._journal is not None
        self._held.wait_until(
            lambda: self._held.room() or (journaled and not self._held.connected), busy=True
        )

    @contextmanager
    def else_here(self, file: OpenFile) -> Iterator[None]:
        """Within this, home makes the file durable. If home is not reached and there is a
        journal, make it durable on this disk and raise OSError(ENOLINK)."""
        try:
            yield
        except OSError as error:
            reached = error.errno != errno.EIO or self._held.connected
            if reached or self._journal is None:
                raise
            name = file.file
            with self._held.lock:
                self._copies.absorb(file)
                self._journal.sync(name, lambda n: self._buffer.read(name, n * BLOCK, BLOCK))
            raise OSError(errno.ENOLINK, ON_THIS_DISK) from error

    def raise_failure(self, file: OpenFile) -> None:
        """Raise, once, the refusal of content for which no program waited."""
        with self._held.lock:
            error = self._held.failure(file.file)
        if error is not None:
            raise error

    def note_times(self, file: OpenFile) -> None:
        """Put the times of writes into block -1."""
        file.require()
        with self._held.lock:
            self._copies.absorb(file)
        if file.touched:
            self._extent(file)

    def give_back(self, file: FileId) -> None:
        """Give home, before the file is closed, what only this node has. The content of a native
        file stays here until another node wants it."""
        if self._files[file].refused is None:
            self.sync(self._files[file])
        self._held.wait_until(lambda: self._held.under_way[file] <= 0 and self._held.quiet(file))
        with self._held.lock:
            native = self._machine.native(file)
            self._copies.take_back_all(self._files[file])
            going = [] if native else self._machine.give_back(file)
            pending = [self._held.send(message) for message in going]
        self._held.wait_for(pending)

    def gives(self, file: FileId) -> bool:
        """Return whether home may lack blocks that this node gave it in answers; the answer to a
        heartbeat settles that. A closed native file keeps that knowledge."""
        with self._held.lock:
            return not self._machine.native(file) and self._machine.gives(file)

    def await_given(self, file: FileId) -> None:
        """Wait for the heartbeat that settles that. Raises OSError(EIO) if home is not reached."""
        self._held.wait_until(lambda: not self._machine.gives(file))

    def closed(self, file: FileId) -> None:
        """Close the file here, before home is told. Home has all writes; the content stays for
        the next open as long as there is room."""
        with self._held.lock:
            native = self._machine.native(file)
            self._copies.drop_window(self._files[file])
            self._machine.close(file)
            if native:
                self._files[file].rest.closed = True
                for number in self._machine.numbers(file):
                    if number >= 0 and self._machine.block(file, number).valid:
                        self._buffer.used(file, range(number, number + 1))
                self._copies.evict()
            else:
                self._held.forget(file)

    def closed_at_home(self, file: FileId) -> None:
        """Take up that home has closed the file."""
        with self._held.lock:
            self._machine.closed(file)

    def collect(self) -> None:
        """Send home the writes of sessions in files whose other writes go to its log. The next
        heartbeat waits for them. Also forget closed files that stayed only for a grant that has
        ended."""
        with self._held.lock:
            for known in list(self._files.values()):
                self._held.forget_closed(known)
            for file in self._copies.windowed():
                self._copies.absorb(file)
                if file.behind and file.log == "async" and not self._machine.native(file.file):
                    file.behind = 0
                    for flush in self._machine.flush(file.file, FLUSHED):
                        self._held.send(flush)
