# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate's node has done for a guest, on its way to home.

What was read is told at once. What was written is told when home has it, durably: in the order in
which it was written, several writes with one fsync each file.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import queue
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from guestshares.counts import CallName
from guestshares.gate import Gate
from guestshares.kernel import OUT_HEADER, KernelRequest, Opcode
from guestshares.messages import CallResult, CompletedCalls, UnsentCall
from guestshares.requests import asked
from satchel.polling import POLL_SECONDS

logger = logging.getLogger(__name__)

BEHIND_BYTES = 16 << 20
"""Of what was written and home has not; a guest that writes more waits."""

FSYNC_SECONDS = 60.0


@dataclass(frozen=True)
class _PendingWrite:
    done: CallResult
    handle: int | None
    request: KernelRequest


_Item = _PendingWrite | Callable[[], None]


def _size(item: _Item) -> int:
    return item.request.cost if isinstance(item, _PendingWrite) else 1


class Settler:
    """Thread-safe, with a thread of its own."""

    def __init__(
        self,
        gate: Gate,
        say: Callable[[CompletedCalls, Callable[[bool], None]], None],
        perform: Callable[[KernelRequest, Callable[[bytes], None]], object],
        lost: Callable[[str], None],
    ) -> None:
        """say: tells home, and gives its answer; perform: has the node do it; lost: home does not
        take what it is told, or the node cannot give home what was written. Called on any
        thread."""
        self._gate, self._say, self._perform, self._lost = gate, say, perform, lost
        self._changed = threading.Condition()
        self._items: list[_Item] = []
        self._settling: list[_Item] = []  # what of them is on its way to home
        self._behind = 0
        self._unconfirmed = 0
        self._over = False
        self._thread = threading.Thread(target=self._run, name="settle", daemon=True)
        self._thread.start()

    @property
    def room(self) -> bool:
        """Whether a guest may write on."""
        return self._behind < BEHIND_BYTES

    def read(self, name: CallName, reply: bytes) -> None:
        """Tell that; before its guest is answered."""
        self._tell([CallResult(name, reply)])

    def written(
        self, name: CallName, reply: bytes, handle: int | None, request: KernelRequest
    ) -> None:
        """Tell that when home has it. handle: through which; None: home has it already."""
        self._put(_PendingWrite(CallResult(name, reply), handle, request))

    def then(self, act: Callable[[], None]) -> None:
        """Do that, on the settler's thread, when all before is told."""
        self._put(act)

    @property
    def behind(self) -> int:
        """Bytes of what was written and not told."""
        return self._behind

    def drain(self, seconds: float, most: int = 0) -> bool:
        """Wait until home has confirmed all of it but so many bytes; whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self._few(most), seconds) and not self._over

    def _few(self, most: int) -> bool:
        return self._over or (self._behind <= most and (most > 0 or not self._unconfirmed))

    def take(self) -> tuple[list[UnsentCall], list[Callable[[], None]]]:
        """Tell nothing more: what was not told, in order, and what was to be done behind it."""
        with self._changed:
            self._over = True
            items = [*self._settling, *self._items]
            self._settling, self._items = [], []
            self._changed.notify_all()
        written = [item for item in items if isinstance(item, _PendingWrite)]
        unsent = [UnsentCall(each.done.name, each.done.reply, each.request) for each in written]
        return unsent, [item for item in items if not isinstance(item, _PendingWrite)]

    def close(self) -> None:
        """Tell nothing more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, item: _Item) -> None:
        with self._changed:
            self._items.append(item)
            self._behind += _size(item)
            self._changed.notify_all()

    def _tell(self, done: list[CallResult]) -> None:
        number = self._gate.tell()
        with self._changed:
            self._unconfirmed += 1

        def answered(taken: bool) -> None:
            if taken:
                self._gate.confirm(number)
            with self._changed:
                self._unconfirmed -= 1
                self._changed.notify_all()
            if not taken:
                self._lost("home does not take what it is told")

        self._say(CompletedCalls(tuple(done)), answered)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._over)
                if self._over:
                    return
                items, self._items = self._items, []
                self._settling = list(items)
            try:
                self._settle(items)
            except OSError as error:
                with self._changed:
                    over = self._over
                if not over:
                    self._lost(str(error))
            with self._changed:
                self._behind -= sum(map(_size, items))
                self._changed.notify_all()

    def _settle(self, items: list[_Item]) -> None:
        """Raises OSError where the node cannot give home what was written."""
        written = [item for item in items if isinstance(item, _PendingWrite)]
        self._sync({item.handle >> 8: item.handle for item in written if item.handle is not None})
        for kind, several in itertools.groupby(items, lambda item: isinstance(item, _PendingWrite)):
            mine = self._claimed(list(several))
            if kind and mine:
                self._tell([item.done for item in mine if isinstance(item, _PendingWrite)])
            for item in mine:
                if not isinstance(item, _PendingWrite):
                    item()

    def _claimed(self, items: list[_Item]) -> list[_Item]:
        """Those that nobody has taken."""
        with self._changed:
            if not self._settling:
                return []
            del self._settling[: len(items)]
            return items

    def _sync(self, handles: dict[int, int]) -> None:
        """All at once. handles: by file, one that writes it. Raises OSError."""
        replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        for file, handle in handles.items():
            body = struct.pack("<QII", handle, 0, 0)
            self._perform(asked(Opcode.FSYNC, file, body), replies.put)
        until = time.monotonic() + FSYNC_SECONDS
        for _ in handles:
            _, error, _ = OUT_HEADER.unpack_from(self._next(replies, until))
            if error:
                raise OSError(-error, "home lacks some of the writes")

    def _next(self, replies: queue.SimpleQueue[bytes], until: float) -> bytes:
        """until: monotonic. Raises OSError."""
        while not self._over and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                return replies.get(timeout=POLL_SECONDS)
        raise OSError("home lacks some of the writes")
