# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The one FUSE session of a service, by which the calls of all its replicas are done.

To the session this is a kernel that mounts: it numbers requests anew and gives the replies back to
whoever asked.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import queue
import socket
import struct
import threading
from collections.abc import Callable

from guestshares.host import ServedSession
from guestshares.kernel import (
    IN_HEADER,
    INTERRUPT_BIT,
    OUT_HEADER,
    KernelRequest,
    Opcode,
    error_reply,
)
from guestshares.line import Pieces
from guestshares.outbox import Outbox

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 20.0
"""How long `close` waits for what is under way. Who waits for a lock is not waited for."""

WAIT_SECONDS = 30.0
"""How long `wait_for` waits."""

_LOCK_WAITS = (Opcode.SETLKW,)


class Performer:
    """See the module. Thread-safe."""

    def __init__(self, serve: Callable[[socket.socket], ServedSession]) -> None:
        """serve: as ShareHost.serve. Raises what it does."""
        self._near, self._far = socket.socketpair()
        try:
            self._served = serve(self._far)
        except BaseException:
            self._near.close()
            self._far.close()
            raise
        self._numbers = itertools.count(2, 2)
        self._changed = threading.Condition()
        self._under_way: dict[int, tuple[int, Callable[[bytes], None]]] = {}
        self._closing = False
        self._requests = Outbox(self._near, "perform out")
        self._thread = threading.Thread(target=self._receive, name="perform in", daemon=True)
        self._thread.start()

    def perform(
        self, request: KernelRequest, answered: Callable[[bytes], None], *, follows: bool = False
    ) -> int:
        """Have it done. answered: is given the reply, with the number 0, on one thread for all; it
        is not called when `close` comes first. follows: it belongs to a request whose reply has
        just been given, and is done even when `close` waits. Returns what `interrupt` is given."""
        with self._changed:
            number = next(self._numbers)
            if self._closing and not follows:
                return number
            self._under_way[number] = request.opcode, answered
        length, opcode, _, *rest = IN_HEADER.unpack_from(request.message)
        header = IN_HEADER.pack(length, opcode, number, *rest)
        self._requests.send(header + request.message[IN_HEADER.size :])
        return number

    def wait_for(self, request: KernelRequest) -> bytes:
        """Have it done, and wait: the reply, which is EIO after 30 s."""
        found: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.perform(request, found.put)
        try:
            return found.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            return error_reply(0, errno.EIO)

    def interrupt(self, number: int) -> None:
        """Who waits for that reply does not want to wait any longer."""
        with self._changed:
            if number not in self._under_way:
                return
        size = IN_HEADER.size + 8
        header = IN_HEADER.pack(size, Opcode.INTERRUPT, number | INTERRUPT_BIT, 0, 0, 0, 0, 0)
        self._requests.send(header + struct.pack("<Q", number))

    def close(self) -> None:
        """Returns when nothing is done any more; the replies to what was done have been given."""
        with self._changed:
            self._closing = True
            if not self._changed.wait_for(self._settled, CLOSE_SECONDS):
                logger.warning("calls of a guest end without an answer")
            self._under_way.clear()
        self._served.close()
        for end in (self._near, self._far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._requests.close()
        self._thread.join()
        self._near.close()
        self._far.close()

    def _settled(self) -> bool:
        return all(opcode in _LOCK_WAITS for opcode, _ in self._under_way.values())

    def _receive(self) -> None:
        stream = Pieces(self._near)
        with contextlib.suppress(OSError, EOFError):
            while True:
                length, error, number = OUT_HEADER.unpack(stream.take(OUT_HEADER.size))
                body = stream.take(length - OUT_HEADER.size)
                with self._changed:
                    found = self._under_way.get(number)
                if found is None:
                    continue
                try:
                    found[1](OUT_HEADER.pack(length, error, 0) + body)
                except Exception:
                    logger.exception("a call of a guest")
                with self._changed:
                    self._under_way.pop(number, None)
                    self._changed.notify_all()
