# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pages: what the kernel keeps of files that programs have mapped, and how it is made to forget
them.

read(2) and write(2) have no pages: each of them is asked for. A mapping has. The kernel reads a
page when a program touches it first, keeps it, and writes it back at msync(2), munmap(2), close(2)
and when it likes. So a node that loses a block has the kernel drop its pages of that block, and
answers home afterwards. The other node's write returns after that answer, so no mapping here shows
old bytes any more.

Waiting. The kernel drops a page only when no request about it is under way. Such a request may
wait for home, and home may wait for this answer. Three rules keep this from being for ever:

- Pages are dropped on threads of their own. Nothing else is done there.
- A read of pages that are being dropped waits for the answer. When one waits, the answer is made
  after CONTENDED_SECONDS at the latest. Then the read asks home, and gets what is written there.
- Any answer is made after PATIENCE_SECONDS at the latest. While a program of this node cuts the
  file nothing is waited for at all: the kernel writes no page back before that has its answer.

An answer that was not waited for leaves pages that are older than what home has, until the request
that was in the way is answered.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from shares.node import clock
from shares.node.content.access import FileAccess, OpenFile, ReadAccess
from shares.node.content.holdings import Holdings
from shares.protocol import (
    BLOCK,
    UNCUT,
    Engage,
    FileId,
    Invalidate,
    Keep,
    Message,
    Ownership,
    Recall,
    Update,
)

log = logging.getLogger(__name__)

CONTENDED_SECONDS = 0.02
PATIENCE_SECONDS = 1.0
THREADS = 8

EVERY = range(UNCUT)
"""Every block of a file."""

Reply = Callable[[Message], None]

Drop = Callable[[int, int, int], None]
"""Session.invalidate: file, offset and length in bytes; length 0: to the end."""


@dataclass
class DeferredReply:
    """A message that is not answered yet. blocks: whose pages are being dropped; until: when it is
    answered at the latest, monotonic; dropped: the kernel has none of these pages"""

    file: OpenFile
    message: Message
    reply: Reply
    blocks: range
    until: float
    dropped: bool = False


class Pages:
    """Of one node. With the lock of its content held, where nothing else is said."""

    def __init__(self, held: Holdings, answer: Callable[[Message, Reply], None]) -> None:
        """answer: is called with the lock held for each message that was held, in the order in
        which those of a file came."""
        self._lock, self._machine, self._files = held.lock, held.machine, held.files
        self._answer = answer
        self._drop: Drop | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pages")
        self._held: defaultdict[FileId, list[DeferredReply]] = defaultdict(list)
        self._lapsed: set[FileId] = set()
        self._look = threading.Event()
        self._closed = False

    def serve(self, drop: Drop) -> None:
        """There is a kernel, which forgets pages by this. It may block for as long as a request is
        not answered, and raises OSError where the kernel is gone. Without the lock; once."""
        self._drop = drop
        threading.Thread(target=self._keep_time, name="pages", daemon=True).start()

    def close(self) -> None:
        """The kernel is gone: nothing is waited for any more."""
        self._closed = True
        self._look.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def unmapped(self, file: OpenFile) -> None:
        """No program has it open, so none has it mapped: nobody sees these pages any more. The
        kernel reads them anew for the next mapping. Without the lock."""
        with self._lock:
            file.pages.there = False
            if file.session.window is not None:
                file.session.window.take_paged()

    @contextmanager
    def cutting(self, file: OpenFile | None) -> Iterator[None]:
        """Within this a program of this node sets the file's size. Without the lock."""
        if file is None:
            yield
            return
        with self._lock:
            file.pages.cutting += 1
        try:
            yield
        finally:
            with self._lock:
                file.pages.cutting -= 1

    # Messages of home's.

    def hold(self, file: OpenFile, message: Message, reply: Reply) -> bool:
        """Have the pages dropped that are no longer good after this message. Whether it is answered
        later, when they are."""
        queue = self._held.get(file.file)
        blocks = lost_blocks(message)
        waits = False
        if blocks and self._has_pages(file):
            # Else a page that is dropped is read again through it before the answer.
            file.session.withdraw(blocks, read=True)
            waits = waited_for(message) and not file.pages.cutting
            waits = waits and not self._machine.relaxed(file.file)
        elif not queue:
            return False
        if not waits and not queue:
            self._submit(file.file, blocks, None)
            return False
        self._enqueue(
            file, DeferredReply(file, message, reply, blocks, time.monotonic(), dropped=not waits)
        )
        return True

    def _enqueue(self, file: OpenFile, held: DeferredReply) -> None:
        file.pages.dropping += 1
        self._held[file.file].append(held)
        if held.dropped:  # nothing to wait for, but its turn
            self._submit(file.file, held.blocks, None)
            return
        under_way = any(a.pages and overlap(a.blocks, held.blocks) for a in file.demand.waiting)
        held.until += CONTENDED_SECONDS if under_way else PATIENCE_SECONDS
        self._submit(file.file, held.blocks, held)
        self._look.set()

    def _advance(self, file: FileId) -> None:
        """Answer what has waited for long enough, in order."""
        queue = self._held.get(file, [])
        while queue and (queue[0].dropped or queue[0].until <= time.monotonic()):
            held = queue.pop(0)
            held.file.pages.dropping -= 1
            if not held.dropped:
                log.info("some pages of %s are dropped after home was answered", file)
            self._answer(held.message, held.reply)
        if not queue:
            self._held.pop(file, None)

    def reset(self) -> None:
        """Nobody waits for these answers any more, and nothing here is good any more."""
        for queue in self._held.values():
            for held in queue:
                held.file.pages.dropping -= 1
        self._held.clear()

    # Accesses.

    def delays(self, access: FileAccess) -> bool:
        """Whether a read of pages is not to go on yet, since these are being dropped."""
        if not isinstance(access, ReadAccess) or not access.pages:
            return False
        access.file.pages.there = True
        return self.is_waited_for(access)

    def is_waited_for(self, access: FileAccess) -> bool:
        """The kernel does not drop these pages before the access is over, which waits. Whether an
        answer waits for that; it is made soon then."""
        found = False
        for held in self._held.get(access.file.file, ()):
            if access.pages and overlap(access.blocks, held.blocks):
                held.until = min(held.until, time.monotonic() + CONTENDED_SECONDS)
                found = True
                self._look.set()
        return found

    # Pages that nobody waits for.

    def forget(self, file: OpenFile, blocks: range = EVERY) -> None:
        """The node has lost these blocks without being asked. Their rights were withdrawn."""
        if self._has_pages(file):
            self._submit(file.file, blocks, None)

    def look(self) -> None:
        """Before a heartbeat: pages are used for no longer than the copies that they show."""
        now = clock.now()
        for file in self._files.values():
            name = file.file
            lapsed = now > self._machine.until(name)
            if self._machine.relaxed(name) or (lapsed and name not in self._lapsed):
                self.forget(file)
            (self._lapsed.add if lapsed else self._lapsed.discard)(name)

    # Threads.

    def _has_pages(self, file: OpenFile) -> bool:
        return file.pages.there or (file.session.window is not None and file.session.window.paged)

    def _submit(self, file: FileId, blocks: range, held: DeferredReply | None) -> None:
        if not blocks:
            return
        if self._drop is None or self._closed:
            if held is not None:
                held.dropped = True
            return
        self._threads.submit(self._dropped, self._drop, file, blocks, held)

    def _dropped(self, drop: Drop, file: FileId, blocks: range, held: DeferredReply | None) -> None:
        """Without the lock."""
        try:
            ends = blocks.stop < EVERY.stop
            drop(file, blocks.start * BLOCK, len(blocks) * BLOCK if ends else 0)
        except OSError as error:
            log.debug("pages of %s are not dropped: %s", file, error)
        if held is not None:
            with self._lock:
                held.dropped = True
                self._advance(file)

    def _keep_time(self) -> None:
        while not self._closed:
            with self._lock:
                for file in list(self._held):
                    self._advance(file)
                soonest = min((queue[0].until for queue in self._held.values()), default=inf)
            self._look.wait(None if soonest == inf else max(0.0, soonest - time.monotonic()))
            self._look.clear()


def lost_blocks(message: Message) -> range:
    """Blocks of content of which the node has not the latest any more, or not for long."""
    if isinstance(message, Engage):
        return range(message.cut, EVERY.stop)
    keeps = isinstance(message, Recall) and message.keep in {Keep.COPY, Keep.LENT}
    if keeps or not isinstance(message, Recall | Invalidate | Update | Ownership):
        return range(0)
    return range(max(0, message.first), max(0, message.first + message.count))


def waited_for(message: Message) -> bool:
    """Whether another node's program waits for the answer."""
    return isinstance(message, Engage) or (
        isinstance(message, Recall | Invalidate) and message.waited_for
    )


def overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
