# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The blocks that a node holds, and their way home: logged writes, pushes, flushes, releases."""

from __future__ import annotations

import errno
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from shares.node import clock
from shares.node.content.access import OpenFile
from shares.node.content.buffer import Buffer
from shares.node.content.lag import CONFIRMED_BYTES, LAG_BYTES, Replies
from shares.node.extent import Extent
from shares.node.hub.hub import Hub
from shares.node.hub.waits import HomeWait
from shares.node.journal.journal import MountJournal
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    Ack,
    Carrier,
    FileId,
    Flush,
    LogWrite,
    Message,
    NodeMachine,
    Push,
    RefusalReply,
    Release,
    content,
    filled,
)

log = logging.getLogger(__name__)

SEND_POLL_SECONDS = 0.25

FLUSHED = 4096
"""Blocks that are given to home before its answer is waited for."""

REFUSED = "home went on without what was written here"


class Holdings:
    """The state of one node's content, and the owner of its lock. Every method but `flush`,
    `wait_for` and `wait_until` is called with the lock held.

    lock: is notified of whatever comes. files: those that are open, and closed ones of which
    something is left. expected: files that home is asked to open, whose content comes before.
    policies: the names of the coherence policies that home applies. under_way: requests without a
    reply, by file. hub: of the latest membership. traffic: messages that were sent and came, by
    kind; bytes: of their content. wait: as for Content; go_on: has the accesses to a file look
    again
    """

    def __init__(
        self,
        hub: Hub,
        buffer: Buffer,
        wait: float | None,
        journal: MountJournal | None,
        go_on: Callable[[FileId], None],
    ) -> None:
        self.lock = threading.Condition()
        self.machine, self.buffer, self.journal = NodeMachine(), buffer, journal
        self.hub, self.wait, self.go_on = hub, wait, go_on
        self.files: dict[FileId, OpenFile] = {}
        self.expected: set[FileId] = set()
        self.policies: dict[FileId, str] = {}
        self.under_way: Counter[FileId] = Counter()
        self.traffic: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._logs: dict[int, tuple[LogWrite, Replies]] = {}
        self._sent = self._confirmed = self._asked = 0  # bytes of logged writes that go unwaited
        self._going = 0
        self._unanswered: Counter[FileId] = Counter()
        self._unanswered_since: dict[FileId, float] = {}
        self._failures: dict[FileId, OSError] = {}
        self._over: OSError | None = None

    # Files.

    def block(self, file: FileId, number: int) -> bytes:
        """Return the block's content here."""
        if number == ATTRIBUTES:
            return self.files[file].extent.pack()
        return self.buffer.read(file, number * BLOCK, BLOCK)

    def unconfirmed(self, file: FileId, number: int) -> bool:
        """Return whether home may lack what was written to the block here."""
        block = self.machine.block(file, number)
        return block.dirty or block.given > 0

    def store(self, message: Carrier, numbers: set[int]) -> None:
        """Put content that came for these blocks where it belongs. Raises IntegrityError, and
        OSError if this node's disk does not take it."""
        file = self.files.get(message.file)
        for number, data in content(message):
            if file is None or number not in numbers:
                continue
            if number == ATTRIBUTES:
                file.extent = Extent.unpack(data)
                file.sized = file.extent.size
            else:
                self.buffer.write(message.file, number * BLOCK, data)
                self.buffer.brought(message.file, range(number, number + 1))

    def unexpect(self, file: FileId | None) -> None:
        """End the wait for an open. If home has not opened the file, forget it."""
        if file in self.expected:
            self.expected.discard(file)
            self.machine.forget(file)
            self.buffer.forget(file)
            del self.files[file]

    def forget(self, file: FileId) -> None:
        """Remove everything that is here of the file."""
        self.machine.forget(file)
        self.buffer.forget(file)
        if self.journal is not None:
            self.journal.forget(file)
        del self.files[file]
        self.policies.pop(file, None)
        self.under_way.pop(file, None)

    def forget_closed(self, file: OpenFile) -> None:
        """Forget a closed file that is not native any more, if nothing of it is needed. Do
        nothing while a file is being opened: home may have said that later than it answered the
        open."""
        if not file.rest.closed or self.machine.opens or self.machine.native(file.file):
            return
        if not any(self.machine.needed(file.file, n) for n in self.machine.numbers(file.file)):
            self.forget(file.file)

    def forget_evicted(self, file: FileId) -> None:
        """Forget a closed file of which nothing is left, even if it is still native."""
        known = self.files.get(file)
        if known is None or not known.rest.closed or self.machine.opens:
            return
        extent = self.machine.block(file, ATTRIBUTES)
        numbers = (number for number in self.machine.numbers(file) if number >= 0)
        if extent.dirty or extent.given or any(self.machine.needed(file, n) for n in numbers):
            return
        self.forget(file)

    # A membership.

    def begin(self, hub: Hub) -> list[tuple[LogWrite, Replies]]:
        """Begin a new membership. Return the logged writes that the last one has not confirmed,
        for `settle`."""
        self.hub = hub
        logs, self._logs = self._logs, {}
        self._going = 0
        self._unanswered.clear()
        self._unanswered_since.clear()
        self._sent = self._confirmed = self._asked = 0
        return list(logs.values())

    @property
    def connected(self) -> bool:
        return self.hub.connected

    def end(self, why: OSError) -> None:
        """End all waits with this error: there is no share any more."""
        self._over = why
        for _, replies in self.begin(self.hub):
            replies.append(why)

    def require_home(self) -> None:
        """Raise the error of `end`, after it."""
        if self._over is not None:
            raise OSError(*self._over.args)

    def room(self) -> bool:
        """Return whether more content may be sent to home."""
        return self._going <= LAG_BYTES

    def bounded(self) -> bool:
        """Return whether home's log is not too far behind."""
        return self._sent - self._confirmed <= LAG_BYTES

    def since(self, file: FileId) -> float:
        """Return the time on the clock at which the oldest content without an answer was sent;
        inf if there is none."""
        return self._unanswered_since.get(file, inf)

    def quiet(self, file: FileId) -> bool:
        """Return whether home has answered all content of the file."""
        return self._unanswered[file] <= 0

    def failure(self, file: FileId) -> OSError | None:
        """Return, once, why home refused content of the file for which no program waited."""
        return self._failures.pop(file, None)

    @property
    def unlogged(self) -> int:
        """The number of logged writes that are waited for."""
        return len(self._logs)

    # Content on its way.

    def log(self, message: LogWrite, to: list[Replies] | None) -> None:
        """Send a write to home's log, before the push of that write. to: gets the list for the
        reply if the write waits for it."""
        hub = self.hub
        self.count(message)
        if to is None:
            self._post_log(hub, message)
            return
        file, number = message.file, message.first
        self.machine.log_sent(file, number)
        generation = self._giving(file, (number,))
        replies: Replies = []
        to.append(replies)
        self._logs[id(replies)] = (message, replies)

        def logged(reply: Message | OSError) -> None:
            with self.lock:
                lost = isinstance(reply, OSError) and not hub.connected
                if hub is not self.hub or lost:
                    return  # what the node brings to its next membership says what became of it
                self._logs.pop(id(replies), None)
                replies.append(reply)
                if isinstance(reply, Ack):
                    self._at_home(file, (number,), generation)
                self.machine.log_done(file, number)
                self.go_on(file)

        hub.post(message, logged, logged)

    def _post_log(self, hub: Hub, message: LogWrite) -> None:
        """Send a write to home's log without waiting for it. Sometimes ask home to confirm."""
        self._sent += len(message.data)
        if self._sent - self._asked < CONFIRMED_BYTES:
            hub.post(message)
            return
        self._asked = upto = self._sent

        def confirmed(_: Message | OSError) -> None:
            with self.lock:
                if hub is self.hub:
                    self._confirmed = max(self._confirmed, upto)
                self.lock.notify_all()

        hub.post(message, confirmed, confirmed)

    def send(self, message: Push | Flush | Release) -> Replies:
        """Fill in the content and post the message. Return a list that gets the reply."""
        if ATTRIBUTES in message.fresh:
            self.send_growth(message.file)
        generation = self._giving(message.file, message.fresh)
        message, hub = filled(message, self.block), self.hub
        file = message.file
        given = {number: self.machine.block(file, number).given for number in message.fresh}
        replies: Replies = []
        self.count(message)
        self._going += len(message.data)
        self._unanswered[file] += 1
        self._unanswered_since.setdefault(file, clock.now())

        def replied(reply: Message | OSError) -> None:
            with self.lock:
                replies.append(reply)
                if isinstance(reply, RefusalReply):
                    log.warning("home went on without blocks %s of %s", reply.refused, reply.file)
                    self._set_aside(message, reply.refused)
                if hub is self.hub:
                    self._going -= len(message.data)
                    self._unanswered[file] -= 1
                    if not self._unanswered[file]:
                        del self._unanswered[file]
                        del self._unanswered_since[file]
                    self._note_failure(reply, file)
                if hub is self.hub and not isinstance(reply, OSError):
                    self._at_home(file, message.fresh, generation)
                    for number, sent in given.items():
                        if self.machine.block(file, number).given == sent:
                            self.machine.arrived(file, number)
                self.lock.notify_all()

        hub.post(message, replied, replied)
        return replies

    def send_growth(self, file: FileId) -> None:
        """Send home the bytes that make the file longer, before it gets the size: if this node is
        lost in between, no other one finds zeros there. Logged bytes are on their way already."""
        known = self.files[file]
        if known.log == "off" or known.behind:
            before = min(known.sized, known.extent.size)
            for flush in self.machine.flush_from(file, before // BLOCK):
                self.send(flush)
        known.sized = known.extent.size

    def flush(self, file: OpenFile, *, wait: bool = True) -> None:
        """Give home what is written by now. Call it without the lock. It sends parts, so that
        the connection's backlog is bounded. wait: also for the last part. It ignores later
        writes, or a program that writes all the time would keep it from ending."""
        while True:
            with self.lock:
                flushes = self.machine.flush(file.file, FLUSHED)
                pending = [self.send(message) for message in flushes]
                file.behind = 0
            last = sum(message.count for message in flushes) < FLUSHED
            if wait or not last:
                self.wait_for(pending)
            if last:
                return

    def _giving(self, file: FileId, numbers: tuple[int, ...]) -> int:
        if self.journal is None:
            return 0
        sized = ATTRIBUTES in numbers
        extent = Extent.unpack(self.block(file, ATTRIBUTES)) if sized else None
        return self.journal.giving(file, numbers, extent)

    def _at_home(self, file: FileId, numbers: tuple[int, ...], generation: int) -> None:
        if self.journal is not None:
            try:
                self.journal.at_home(file, numbers, generation)
            except OSError as error:
                log.error("the journal: %s; content of %s may be sent again", error, file)

    def _set_aside(self, message: Carrier, refused: tuple[int, ...]) -> None:
        """Keep refused blocks beside the file's content; they then count as being at home."""
        if self.journal is not None:
            blocks = {number: data for number, data in content(message) if number in refused}
            self.journal.set_aside(message.file, blocks)

    def brought(self, releases: Iterable[Release], pending: list[Replies]) -> None:
        """Note that home has answered everything that this node brought to a new membership. If
        home keeps its own size of a file, it cuts off the rest, so set all of that file aside."""
        if self.journal is None:
            return
        refused = [r for replies in pending for r in replies if isinstance(r, RefusalReply)]
        sized = {reply.file for reply in refused if ATTRIBUTES in reply.refused}
        for message in releases:
            if message.file in sized:
                numbers = [number for number in message.fresh if number != ATTRIBUTES]
                blocks = {number: self.block(message.file, number) for number in numbers}
                self.journal.set_aside(message.file, blocks)
        self.journal.brought()

    def _note_failure(self, reply: Message | OSError, file: FileId) -> None:
        """Note a refusal for the next sync. Without a connection nothing is lost: the node
        brings the content to its next membership. If home's disk is full, home keeps the content
        in memory and refuses syncs."""
        if isinstance(reply, RefusalReply):
            self._failures[file] = OSError(errno.ESTALE, REFUSED)
        elif isinstance(reply, OSError) and self.hub.connected:
            log.warning("home does not take content of %s: %s", file, reply)
            if reply.errno != errno.ENOSPC:
                self._failures[file] = reply

    def push(self, pushes: Iterable[Push]) -> None:
        """Send the pushes that a write caused."""
        for push in pushes:
            self.send(push)

    def wait_for(self, pending: list[Replies]) -> None:
        """Wait for these replies, without the lock. Raises OSError: EIO if home is not reached,
        ESTALE if home has lost this node meanwhile."""
        self.wait_until(lambda: all(pending))
        for (reply,) in pending:
            if isinstance(reply, OSError):
                raise reply
            if isinstance(reply, RefusalReply):
                raise OSError(errno.ESTALE, REFUSED)

    def wait_until(self, condition: Callable[[], bool], *, busy: bool = False) -> None:
        """Wait, without the lock, until the condition holds, which is called with the lock.
        busy: home may still be taking content that is sent later. Raises OSError: EIO if that
        takes too long, or the error of `end`."""
        with self.lock:
            wait = self.begin_wait("content on its way")
            while not condition():
                self.require_home()
                self.lock.wait(SEND_POLL_SECONDS)
                wait.require(self.wait, busy=busy)

    def begin_wait(self, about: str) -> HomeWait:
        """Begin a wait for home."""
        return HomeWait(lambda: self.hub, about)

    def count(self, message: Message) -> None:
        """Count a message that was sent or came."""
        name = type(message).__name__
        self.traffic[name] += 1
        data = getattr(message, "data", b"")
        if data:
            self.bytes[name] += len(data)
