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
from shares.node.content.access import Need, OpenFile
from shares.node.content.copies import Copies
from shares.node.content.holdings import FLUSHED, Holdings
from shares.node.extent import Extent
from shares.node.hub.hub import Hub, Opened
from shares.node.operations import Attributes
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    POLICIES,
    Blocks,
    DelayedUpdate,
    Fetch,
    FileId,
    Granted,
    Message,
    Own,
    Policy,
)

log = logging.getLogger(__name__)

AHEAD_OF_OPEN = 16
"""Blocks that are asked for together with an open to read, at most."""

ON_THIS_DISK = "home is not reached; what was written is durable on this disk"


class FileTable:
    """Of one node. Thread-safe. Raises OSError."""

    def __init__(
        self, held: Holdings, copies: Copies, extent: Callable[[OpenFile], Extent]
    ) -> None:
        """extent: returns a file's size and times, with the writes of this node."""
        self._held, self._copies, self._extent = held, copies, extent
        self._machine, self._buffer, self._journal = held.machine, held.buffer, held.journal
        self._files = held.files
        self._policies: dict[str, Policy] = {}

    # Opens, and files made here.

    @contextmanager
    def opening(self, file: FileId | None = None) -> Iterator[None]:
        """Within this home is asked to open files, and `opened` is called. file: where it is known,
        the one; nobody else opens it meanwhile."""
        with self._held.lock:
            self._machine.opening()
        try:
            yield
        finally:
            with self._held.lock:
                self._machine.opening_over()
                self._held.unexpect(file)

    def ask_ahead(self, file: FileId, remembered: Attributes, hub: Hub) -> None:
        """Within `opening`, before `hub` is asked to open the file to read: ask for the beginning
        of its content, so that a program which opens and reads waits once. What comes are copies
        as all others: home counts them and calls them back, also before the file is open.

        remembered: what home said of the file's attributes and has not called back, so no other
        node has it open to write. Nothing is asked for that is here, or on its way."""
        with self._held.lock:
            blocks = -(-remembered.size // BLOCK)
            count = min(blocks, AHEAD_OF_OPEN, self._copies.ahead_limit())
            if hub is not self._held.hub or count == 0:
                return
            if file not in self._files:
                self._expect(file, Extent.of(remembered))
            self.ask(self._files[file], Need(0, count, writes=False))

    def expect_cut(self, file: FileId) -> None:
        """Within `opening`, before home is asked to make the file empty and open it: what home
        gives of it comes ahead of the answer."""
        with self._held.lock:
            if file not in self._files:
                self._expect(file, Extent(0, 0, 0, 0))

    def _expect(self, file: FileId, extent: Extent) -> None:
        self._files[file] = OpenFile(file, None, extent, "off")
        self._held.expected.add(file)
        self._machine.expect(file, self._policy(DelayedUpdate.name))

    def unasked(self, file: FileId) -> bool:
        """Home has not opened the file: wait until it has answered what was asked ahead. Whether it
        counts this node among who has copies, and is to be told that it closes the file."""
        if file not in self._held.expected:
            return False
        with suppress(OSError):
            self._held.wait_until(
                lambda: self._held.under_way[file] <= 0 or not self._held.connected
            )
        return self._held.under_way[file] <= 0

    def opened(self, file: FileId, opened: Opened, hub: Hub) -> OpenFile:
        """Home has opened the file for this node; again, where it is open already. Calls are
        answered on another thread than messages, which may have overtaken this answer. hub: who
        gave it; one of an earlier membership says nothing any more of whose the file is."""
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
        """This node has made the file, and no other one knows of it: it is native. `made` or
        `refuse` follows when home has answered; it is not closed before."""
        with self._held.lock:
            self._machine.make(file, self._policy(DelayedUpdate.name))
            made = OpenFile(file, attributes, Extent.of(attributes), "async", extent_came=True)
            self._files[file] = made
            return made

    def made(self, file: FileId, opened: Opened, hub: Hub) -> OpenFile:
        """Home has made it too, and opened it for this node."""
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
        """Home has made it, in this membership or in one before, and goes by this grant."""
        with self._held.lock:
            self._machine.made(file, grant)
            if self._journal is not None:
                self._journal.made(file, grant)

    def refuse(self, file: FileId, why: OSError) -> None:
        """Home has not made it: nothing is to be had of it any more. Every access raises why."""
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

    def _policy(self, name: str) -> Policy:
        if name not in POLICIES:
            log.warning("home's policy %s is not known here", name)
        return self._policies.setdefault(name, POLICIES.get(name, DelayedUpdate)())

    # Requests for blocks, with the lock held.

    def ask(self, file: OpenFile, need: Need) -> None:
        """Ask home for these blocks, as far as they are neither here nor on their way. With the
        lock held."""
        now, name, hub = clock.now(), file.file, self._held.hub
        asked: list[Fetch] | list[Fetch | Own] = (
            self._machine.to_write(name, need.first, need.count, need.whole, now)
            if need.writes
            else self._machine.to_read(name, need.first, need.count, now)
        )
        for message in asked:
            self._held.count(message)
            self._held.under_way[name] += 1
            came = partial(self._came, hub, message, now)
            hub.post(message, came, partial(self._failed, hub, message))

    def _came(self, hub: Hub, request: Fetch | Own, sent: float, reply: Message) -> None:
        with self._held.lock:
            if hub is not self._held.hub:
                return
            self._held.count(reply)
            self._held.under_way[request.file] -= 1
            file = self._files.get(request.file)
            if file is not None:
                self._copies.take_back(file, request.numbers, read=True)
            numbers: set[int] = set()
            try:
                if isinstance(request, Fetch) and isinstance(reply, Blocks):
                    numbers = set(self._machine.blocks(request, reply, sent))
                elif isinstance(request, Own) and isinstance(reply, Granted):
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

    def _lose(self, request: Fetch | Own, numbers: set[int], error: OSError) -> None:
        """The machine has these blocks, but their content is not to be had here."""
        self._machine.unstored(request, numbers)
        self._refuse(request, error)

    def _failed(self, hub: Hub, request: Fetch | Own, error: OSError) -> None:
        with self._held.lock:
            if hub is not self._held.hub:
                return  # of an earlier membership: it is asked again already
            self._held.under_way[request.file] -= 1
            self._refuse(request, error)

    def _refuse(self, request: Fetch | Own, error: OSError) -> None:
        self._machine.failed(request)
        file = self._files.get(request.file)
        if self._held.connected:  # else it is asked again, as long as the accesses wait
            for access in file.demand.waiting if file else []:
                access.error = error
        self._held.lock.notify_all()

    # Writing back.

    def sync(self, file: OpenFile) -> None:
        """Returns when home has what was written here; the caller has home make it durable."""
        self.note_times(file)
        self._held.flush(file)

    def settle(self, file: FileId) -> None:
        """No program writes it any more: home gets what it has not. With the log policy `sync` it
        has that on return; else it is on its way, ahead of all that is said after this."""
        known = self._files[file]
        self.note_times(known)
        self._held.flush(known, wait=known.log == "sync")
        if known.log == "sync":
            self._held.wait_until(lambda: self._held.quiet(file))  # what was pushed, too

    def keep(self, file: FileId) -> bool:
        """No program has it open. Whether it is native, and so is this node's until another one
        opens it; of that the node is told (`engaged`), for the file to be closed. With relaxation
        it is not: who opens it here may read it as it was."""
        with self._held.lock:
            native = self._machine.native(file)
            if native and not self._machine.relaxed(file):
                self._files[file].rest.kept = True
                self._machine.keep(file, True)
            return native

    def relaxed(self, file: FileId) -> bool:
        """Whether programs may read it as it was some time ago."""
        with self._held.lock:
            return self._machine.relaxed(file)

    def used(self, file: OpenFile) -> None:
        """A program has it open again."""
        with self._held.lock:
            if file.rest.kept:
                file.rest.kept = False
                self._machine.keep(file.file, False)

    def told(self, file: OpenFile, spoken: int, found: Attributes | OSError | None) -> None:
        """Home has stored what was written: size and times are these from now on."""
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
        """Until it is known when home stored what was written: that is the time of the last status
        change, and is not to be another one a moment later. Not where home is not reached."""
        self._held.wait_until(
            lambda: file.rest.answered >= file.rest.spoken or not self._held.connected
        )

    def await_room(self) -> None:
        """Until not too much of what was closed is on its way. Raises OSError(EIO), but not where
        the journal has it: then it waits there for a home that is not reached."""
        journaled = self._journal is not None
        self._held.wait_until(lambda: self._held.room() or (journaled and not self._held.connected))

    @contextmanager
    def else_here(self, file: OpenFile) -> Iterator[None]:
        """Within this home is to have the file durable. Where it is not reached for that, what was
        written is durable on this disk, if there is a journal. Raises OSError: ENOLINK then."""
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
        """What home answered to content that nobody waited for. Raises OSError, once."""
        with self._held.lock:
            error = self._held.failure(file.file)
        if error is not None:
            raise error

    def note_times(self, file: OpenFile) -> None:
        """What was written has its time in block -1."""
        file.require()
        with self._held.lock:
            self._copies.absorb(file)
        if file.touched:
            self._extent(file)

    def give_back(self, file: FileId) -> None:
        """Before the file is closed: home gets what is here alone. Of a native file the content
        stays until it is wanted elsewhere."""
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
        """Whether home has perhaps not got yet what it was given of the file in answers: that the
        answer to a heartbeat says. Of a native file that stays known when it is closed."""
        with self._held.lock:
            return not self._machine.native(file) and self._machine.gives(file)

    def await_given(self, file: FileId) -> None:
        """Until a heartbeat has told that. Raises OSError(EIO) where home is not reached."""
        self._held.wait_until(lambda: not self._machine.gives(file))

    def closed(self, file: FileId) -> None:
        """The last program has closed it, and home is about to be told. It has what was written, so
        that stays for the next open as far as there is room."""
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
        """Home has answered that it is closed."""
        with self._held.lock:
            self._machine.closed(file)

    def collect(self) -> None:
        """What was written through windows is on its way to home, where writes that ask are on
        their way to its log. Not waited for: the heartbeat that comes next is. Nothing stays of a
        closed file whose grant has ended when it was still needed, or with a membership."""
        with self._held.lock:
            for known in list(self._files.values()):
                self._held.forget_closed(known)
            for file in self._copies.windowed():
                self._copies.absorb(file)
                if file.behind and file.log == "async" and not self._machine.native(file.file):
                    file.behind = 0
                    for flush in self._machine.flush(file.file, FLUSHED):
                        self._held.send(flush)
