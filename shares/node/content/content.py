# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The content of the files that a node has open: accesses of programs, and what home asks.

One lock guards the machine, the buffer and the files. An access that lacks something posts what it
needs and waits. Whatever comes is taken up on the hub's thread, and the accesses that waited for
it go on there at once, before anything that came after it: otherwise two nodes that write one block
could take it from each other for ever. Messages with content are posted with the lock held, so
their place in the stream fits what they say.

A write that makes a file longer needs block -1 and blocks of content. While it has -1 and waits for
the others, it answers nobody who wants -1, for PIN_SECONDS at most. Nothing else is ever held
back, so no two nodes hold what the other one waits for.
"""

from __future__ import annotations

import errno
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from shares.node import clock
from shares.node.content.access import (
    FileAccess,
    OpenFile,
    ReadAccess,
    SetExtent,
    StatAccess,
    WriteAccess,
)
from shares.node.content.buffer import Buffer
from shares.node.content.copies import BlockCopies, Make
from shares.node.content.file_table import FileTable
from shares.node.content.holdings import FLUSHED, SEND_POLL_SECONDS, Holdings
from shares.node.content.lag import LAG_BYTES, Replies, file_status, settle, traffic_status
from shares.node.content.pages import Pages
from shares.node.extent import Extent
from shares.node.hub.hub import Hub
from shares.node.journal.journal import MountJournal
from shares.node.operations import Window
from shares.protocol import (
    ATTRIBUTES,
    BLOCK,
    UNCUT,
    Engage,
    FileId,
    Invalidate,
    Keep,
    Message,
    NativeGrant,
    Ownership,
    Recall,
    RecallReply,
    Release,
    Update,
    UpdateReply,
)

log = logging.getLogger(__name__)

PIN_SECONDS = 1.0
TRIMMED = 64 << 20
"""Bytes of a buffer that are given back at once. A kernel frees a gigabyte of cached pages in a
second, and heartbeats go on in between."""

PAUSE_SECONDS = 0.001
"""For which the lock is left to those who wait for it; a tenth of the time that it was held for, if
that is longer: on a busy machine a heartbeat needs more to get its turn."""

Reply = Callable[[Message], None]


class Content:
    """Of one node. Thread-safe. Raises OSError with the errno that a program gets.

    wait: seconds for which an access waits for home, as HomeWait counts them, until EIO; None: for
    ever. make: has sessions answer by themselves what they may. engaged: another node opens a file
    that was native; whether it was kept. It must not wait
    """

    def __init__(
        self,
        hub: Hub,
        buffer: Buffer,
        wait: float | None = 30.0,
        make: Make | None = None,
        engaged: Callable[[FileId, bool], None] = lambda file, kept: None,
        journal: MountJournal | None = None,
    ) -> None:
        self._let_close, self._journal = engaged, journal
        self._deferred: defaultdict[FileId, list[tuple[Message, Reply]]] = defaultdict(list)
        self._bringing = False
        self._leased = -inf  # by this membership
        self._held = held = Holdings(hub, buffer, wait, journal, self._go_on)
        self._changed, self._machine, self._files = held.lock, held.machine, held.files
        self._buffer = buffer
        self.pages = pages = Pages(held, self._answer)
        self.copies = copies = BlockCopies(held, pages, make)
        self.table = FileTable(held, copies, self.extent)

    def rejoined(self, hub: Hub) -> None:
        """The node has joined again: what was written here goes home first. Nothing is valid any
        more, and the files have to be opened again before anything else is asked."""
        with self._changed:
            self._leased = -inf
            for file in self._files.values():
                self.copies.take_back_all(file)
                file.session.complete = False
                self.pages.forget(file)
            self.copies.clear_old()
            releases = self._machine.reset()
            self._deferred.clear()
            self.pages.reset()
            self._held.under_way.clear()
            for file in self._files.values():
                for access in file.demand.waiting:
                    access.rounds.reset()
                file.extent_came, file.demand.pinned, file.demand.pinned_until = False, None, 0.0
                self._machine.hold(file.file, False)
                file.rest.kept, file.rest.answered = False, file.rest.spoken
            logs = self._held.begin(hub)
            if self._journal is not None:
                self._journal.rejoined()
            self._bringing = True
        pending: list[Replies] = []
        try:
            self._bring(hub, releases, pending)
            self._held.wait_for(pending)
        finally:
            with self._changed:
                settle(logs, pending)
                if hub is self._held.hub:
                    self._held.brought(releases, pending)
                    self._bringing = False
                self._changed.notify_all()

    def _bring(self, hub: Hub, releases: list[Release], pending: list[Replies]) -> None:
        """Send them, at most so much at once that a slow link is not given up for it. Until then no
        access asks for anything, and no heartbeat says that all of it has come. pending: gets their
        replies. Raises OSError where the membership ends; the next one begins with all of them."""
        for message in releases:
            with self._changed:
                while not self._held.room() and hub is self._held.hub:
                    self._changed.wait(SEND_POLL_SECONDS)
                if hub is not self._held.hub:
                    pending.append([])
                    raise OSError(errno.EIO, "this membership is over")
                pending.append(self._held.send(message))

    def goes_by(self, hub: Hub) -> bool:
        """Whether that is home, and no later membership's hub."""
        with self._changed:
            return hub is self._held.hub

    def end(self, why: OSError) -> None:
        """There is no share any more: nothing here is good for anything, and every access raises
        this."""
        with self._changed:
            for file in self._files.values():
                self.copies.take_back_all(file)
                file.session.complete = file.extent_came = False
                self.pages.forget(file)
                for access in file.demand.waiting:
                    access.error = why
            self.copies.clear_old()
            lost = sum(len(message.fresh) for message in self._machine.reset())
            self._deferred.clear()
            self.pages.reset()
            self._held.end(why)
            self._changed.notify_all()
        if lost:
            log.error("%d blocks that were written here are perhaps not at home", lost)

    def limit_wait(self, seconds: float) -> None:
        """For a home that is not reached nobody waits longer any more."""
        with self._changed:
            wait = self._held.wait
            self._held.wait = seconds if wait is None else min(wait, seconds)

    def close(self) -> None:
        """Empty the buffer, but not where something in the journal waits for home."""
        self.pages.close()
        with self._changed:
            for file in self._files.values():
                self.copies.take_back_all(file)
            self._buffer.close(keep=self._journal is not None and self._journal.waits)

    # Accesses.

    def extent(self, file: OpenFile) -> Extent:
        """Size and times."""
        access = StatAccess(file)
        self._perform(access)
        return access.result

    def set_extent(
        self,
        file: OpenFile,
        size: int | None = None,
        accessed: int | None = None,
        modified: int | None = None,
    ) -> Extent:
        """Make it longer, or change times (nanoseconds)."""
        access = SetExtent(file, size, accessed, modified)
        self._perform(access)
        self._held.wait_for(access.logs)
        return access.result

    def read(self, file: OpenFile, offset: int, size: int, *, pages: bool = False) -> bytes:
        """pages: for the kernel to keep. In parts that the buffer can hold, or the blocks of one
        would push out those of another."""
        most = max(1, self.copies.ahead_limit()) * BLOCK
        access = ReadAccess(file, offset, min(size, most), pages=pages)
        self._perform(access)
        if size <= most or len(access.result) < most:
            return access.result
        return access.result + self.read(file, offset + most, size - most, pages=pages)

    def write(self, file: OpenFile, offset: int | None, data: bytes, *, pages: bool = False) -> int:
        """offset: None to append. pages: of the kernel's, so what is behind the end is dropped."""
        access = WriteAccess(file, offset, data, pages=pages)
        self._perform(access)
        self._held.wait_for(access.logs)
        if file.log == "async":
            self._held.wait_until(self._held.bounded, busy=True)
            if file.behind > LAG_BYTES - BLOCK:
                self._held.flush(file)
                with self._changed:
                    self.copies.allow(file)
        return access.result

    def cut(self, file: OpenFile, extent: Extent) -> None:
        """Home has made the file shorter. What was here behind the cut it took before, with size
        and times: what is here of those by now is later."""
        name = file.file
        with self._changed:
            self.copies.forget_old(name)
            file.session.withdraw_whole()
            self.copies.absorb(file)
            if self._journal is not None:
                latest = file.extent_came or self._machine.block(name, ATTRIBUTES).valid
                about = (file.extent if latest else extent, extent)
                self._journal.cut(name, *about, partial(self._written_here, name))
        while True:
            began = time.monotonic()
            if not self._trim(file):
                break
            time.sleep(max(PAUSE_SECONDS, (time.monotonic() - began) / 10))

        with suppress(OSError), self._changed:
            self._buffer.reach(name, extent.size)

    def reach(self, file: OpenFile, size: int) -> None:
        """Raise OSError, EFBIG, if no file here can be so long."""
        with self._changed:
            self._buffer.reach(file.file, size)

    def _written_here(self, file: FileId, number: int) -> bool:
        """Whether the block has content that home may not have, and that is the latest."""
        return self._machine.block(file, number).valid and self._held.unconfirmed(file, number)

    def _trim(self, file: OpenFile) -> bool:
        """Give back a part of what the buffer has behind the last block that has to stay; whether
        there is more."""
        with self._changed:
            file.session.withdraw_whole()
            self.copies.absorb(file)
            end = self._machine.trim(file.file)
            return self._buffer.shrink(file.file, end * BLOCK, TRIMMED)

    def own_size(self, file: OpenFile) -> int | None:
        """Return the size, if this node owns block -1."""
        with self._changed:
            file.session.withdraw_whole()
            self.copies.absorb(file)
            return file.extent.size if self.copies.writable(file, ATTRIBUTES) else None

    def cut_here(self, file: OpenFile, size: int) -> bool:
        """Make a native file shorter without asking home; whether that could be."""
        with self._changed:
            return self.copies.cut(file, size)

    def room(self, file: OpenFile) -> int:
        """Bytes on this disk for content of the file."""
        with self._changed:
            return self._buffer.room(file.file)

    def native(self, file: FileId) -> bool:
        with self._changed:
            return self._machine.native(file)

    def window(self, file: OpenFile) -> Window | None:
        """Where sessions answer by themselves what a program asks that has opened it."""
        with self._changed:
            return self.copies.window(file)

    def _perform(self, access: FileAccess) -> None:
        file = access.file
        with self._changed:
            self._held.require_home()
            file.require()
            if self._step(access):
                return self._finish(access)
            file.demand.waiting.append(access)
            wait = self._held.begin_wait(f"an access to file {file.file}")
            while not access.done and access.error is None:
                self._changed.wait(SEND_POLL_SECONDS)
                try:
                    wait.require(self._held.wait, busy=self._bringing)
                except OSError as error:
                    access.error = error
                self._let_go(file)
                if not access.done and not access.error and self._step(access):
                    access.done = True
            if access in file.demand.waiting:
                file.demand.waiting.remove(access)
            return self._finish(access)

    def _finish(self, access: FileAccess) -> None:
        file = access.file
        if file.demand.pinned is access:
            file.demand.pinned = None
        self._let_go(file)
        if access.error is not None:
            raise access.error

    def _step(self, access: FileAccess) -> bool:
        """Have the access go on; post what it lacks. Whether it is over, done or failed."""
        if self._bringing or self.pages.delays(access):
            return False
        self.copies.logs, self.copies.since = access.logs, access.began
        file = access.file
        if isinstance(access, WriteAccess | SetExtent):
            file.session.withdraw_whole()
        self.copies.absorb(file)
        try:
            access.rounds.look()
            needs = access.advance(self.copies)
        except OSError as error:  # this node's disk is full, say: the program's, on any thread
            access.error = error
            return True
        finally:
            self.copies.since = inf
        if file.demand.pinned is access and file.demand.pinned_until == 0.0:
            file.demand.pinned_until = time.monotonic() + PIN_SECONDS
            self._machine.hold(file.file, True)
        for need in needs:
            if access.rounds.may_ask(need.first):
                self.table.ask(access, need)
        if needs:
            self.pages.is_waited_for(access)
        else:
            self.copies.grant(file, access.blocks)
        return not needs

    @property
    def traffic(self) -> Counter[str]:
        """Messages that were sent and came, by kind."""
        return self._held.traffic

    @property
    def unconfirmed(self) -> int:
        """Logged writes that are waited for."""
        with self._changed:
            return self._held.unlogged

    def go_on(self) -> None:
        """Have every access that waits look again."""
        with self._changed:
            for file in list(self._files):
                self._go_on(file)

    def _go_on(self, file: FileId) -> None:
        known = self._files.get(file)
        for access in list(known.demand.waiting) if known else []:
            if not access.done and access.error is None and self._step(access):
                access.done = True
        self._changed.notify_all()

    # What home asks.

    def answer(self, message: Message, reply: Reply) -> None:
        """As Hub.listen says."""
        with self._changed:
            self._held.count(message)
            file = self._files.get(message.file)
            if (
                file is not None
                and file.demand.pinned is not None
                and isinstance(message, Recall | Invalidate)
                and message.waited_for
                and ATTRIBUTES in message.numbers
                and time.monotonic() < file.demand.pinned_until
            ):
                self._deferred[message.file].append((message, reply))
                return
            self._answer_without_pages(message, reply)

    def _answer_without_pages(self, message: Message, reply: Reply) -> None:
        """At once, or when the kernel has dropped the pages that it is about."""
        file = self._files.get(message.file)
        if file is None or not self.pages.hold(file, message, reply):
            self._answer(message, reply)

    def _answer(self, message: Message, reply: Reply) -> None:
        self._take_back(message)
        self.copies.keep_old(self._files.get(message.file), message)
        now = clock.now()
        for flush in self._machine.ahead(message, now):
            self._held.send(flush)
        answer = self.copies.answer(message, now)
        if isinstance(message, Update | Ownership) and isinstance(answer, UpdateReply):
            answer = self._kept(message, answer)
        if isinstance(answer, RecallReply):
            sized = isinstance(message, Recall) and message.use
            answer = self.copies.given(answer, self._files.get(message.file), sized=sized)
        file = self._files.get(message.file)
        if isinstance(message, Engage):
            self._engaged(message.file)
            if file is not None:
                self._let_close(message.file, file.rest.kept)
                file.rest.kept = False
        if file is not None and (not message.count or ATTRIBUTES in message.numbers):
            file.extent_came = False
        self._held.count(answer)
        reply(answer)
        opened = isinstance(message, Engage) and message.cut == UNCUT
        if opened and file is not None and file.log != "off":
            for flush in self._machine.flush(message.file, FLUSHED):
                self._held.send(flush)
        self._go_on(message.file)
        if isinstance(message, Engage) and file is not None:
            self._held.forget_closed(file)

    def _kept(self, message: Update | Ownership, answer: UpdateReply) -> UpdateReply:
        """Its content is here; where this node's disk does not take that, it is declined."""
        kept = {n for n, k in zip(message.numbers, answer.kept, strict=True) if k}
        try:
            self._held.store(message, kept)
        except OSError as error:
            log.warning("blocks of %s are not kept: %s", message.file, error)
            kept -= self._machine.lose(message.file, kept)
        return replace(answer, kept=tuple(number in kept for number in message.numbers))

    def _take_back(self, message: Message) -> None:
        """Sessions answer nothing more by what the machine is about to lose."""
        file = self._files.get(message.file)
        if file is None or isinstance(message, NativeGrant):
            return
        if isinstance(message, Engage):
            file.session.withdraw_all()
        else:
            reads_on = isinstance(message, Recall) and message.keep in {Keep.COPY, Keep.LENT}
            file.session.withdraw(message.numbers, read=not reads_on)
        file.session.complete = False
        self.copies.absorb(file)
        self.copies.note_used_of(file)

    def _engaged(self, file: FileId) -> None:
        """What was native has to fit into the buffer from now on."""
        for number in self._machine.numbers(file):
            if number >= 0 and not self._machine.block(file, number).owned:
                self._buffer.used(file, range(number, number + 1))

    def _let_go(self, file: OpenFile) -> None:
        """Answer what was held back, if nothing holds it any more."""
        if file.demand.pinned is not None and time.monotonic() < file.demand.pinned_until:
            return
        file.demand.pinned, file.demand.pinned_until = None, 0.0
        self._machine.hold(file.file, False)
        for message, reply in self._deferred.pop(file.file, []):
            self._answer_without_pages(message, reply)

    def beating(self) -> int:
        """A heartbeat is about to be sent: a word for `leased`."""
        with self._changed:
            return 0 if self._bringing else self._machine.mark()

    def heard(self, sent: float) -> None:
        """Home's answer to the heartbeat of that time is next in the stream."""
        with self._changed:
            self._machine.heard(sent)
            self.copies.heard()

    def look_at_pages(self) -> None:
        """A heartbeat is due."""
        with self._changed:
            self.pages.look()

    def leased(self, hub: Hub, until: float, mark: int = 0) -> bool:
        """That home has heard this node: strong copies are good until then, what was given before
        the mark is at home. Whether this is still the membership that it is about."""
        with self._changed:
            if hub is not self._held.hub:
                return False
            self._leased = max(self._leased, until)
            self._machine.leased(self._leased)
            self._machine.confirmed(mark)
            if self._journal is not None:
                self._journal.confirmed(mark)
            self.copies.heard()
            return True

    def status(self) -> dict[str, Any]:
        """Traffic by kind of message; of each file its policy, and blocks by what they are. hot:
        those that were written most since others had them, with counter and threshold."""
        with self._changed:
            for file in self.copies.windowed():
                self.copies.absorb(file)
            return {
                "connected": self._held.connected,
                "traffic": traffic_status(self._held.traffic, self._held.bytes),
                "files": [
                    file_status(self._machine, name, clock.now(), self._held.since(name))
                    | {"open": name in self._files, "policy": self._held.policies.get(name, "")}
                    for name in self._machine.files()
                ],
                "buffered_blocks": self._buffer.blocks,
            }
