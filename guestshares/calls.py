# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest asks of its shares as calls that one keeper has done, once for all replicas.

    guest's port -- SharesLine -- CallHost -- Keeper: home's own, or the way to it

A host gives each request the name by which every replica knows it: the operation, and how often
the same was asked in it before. The keeper answers those that another replica has asked already
from its record. docs/shares.md, Replicas.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from guestshares.counts import CallCounts, CallName
from guestshares.digests import RELEASING
from guestshares.kernel import (
    IN_HEADER,
    OUT_HEADER,
    KernelRequest,
    Opcode,
    ShareMessageInvalid,
    error_reply,
)
from guestshares.line import RECORD, Pieces
from guestshares.outbox import Outbox

logger = logging.getLogger(__name__)

UNDER_WAY_BYTES = 64 << 20
"""Of requests without a reply that the guest has taken, and of these replies. A guest that takes
none is read no further."""

LEAST_COST = 4096
"""Of a request, in this. More of these than a session has room for wait for locks."""

Answered = Callable[[bytes], None]
"""Is given a FUSE reply whose number is 0, once, on any thread."""


@dataclass(frozen=True)
class Call:
    """A request, and its name: None for one that was made in no operation, or has a `refusal`."""

    request: KernelRequest
    name: CallName | None = None


class Keeper(Protocol):
    """Has calls done, on behalf of one replica. Thread-safe; no call waits for its answer."""

    def ask(self, call: Call, answered: Answered) -> None:
        """Have it done, unless it was, and tell the reply. The first one is FUSE_INIT. There is no
        reply after `close`."""

    def interrupt(self, call: Call) -> None:
        """Who waits for the reply to that call was interrupted."""

    def finished(self, operation: int) -> None:
        """The replica has executed that operation."""

    def close(self) -> None:
        """The replica asks nothing more. Idempotent."""


class CallHost:
    """A share host that passes what guests ask on to a keeper. See ShareHost."""

    def __init__(
        self, connect: Callable[[], Keeper], check: Callable[[], None] = lambda: None
    ) -> None:
        """connect: a keeper for each guest that is served; check: see ShareHost."""
        self._connect, self._check = connect, check

    def check(self) -> None:
        self._check()

    def serve(self, session: socket.socket, counts: Path | None = None) -> Calls:
        """Answer what a line that tells operations passes on. counts: a file for what this process
        counts of a machine, so that one after it can go on."""
        return Calls(session, self._connect(), CallCounts(counts))


class Calls:
    """The calls of one guest. See ManifestPort."""

    def __init__(self, session: socket.socket, keeper: Keeper, counts: CallCounts) -> None:
        """Begins at once. Takes over all but the socket."""
        self._session = session
        self._keeper = keeper
        self._counts = counts
        self._changed = threading.Condition()
        self._pending: dict[int, Call] = {}
        self._under_way = 0
        self._over = False
        self._replies = Outbox(session, "calls out")
        self._thread = threading.Thread(target=self._inwards, name="calls in", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._session.shutdown(socket.SHUT_RDWR)
        self._end()
        self._keeper.close()
        self._replies.close()
        self._thread.join()
        self._counts.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """What the guest asks meanwhile is part of no operation, whatever its agent says."""
        self._counts.reading(on=True)
        try:
            yield
        finally:
            self._counts.reading(on=False)

    def finished(self, operation: int) -> None:
        """The guest has executed that operation."""
        self._keeper.finished(operation)

    def _inwards(self) -> None:
        stream = Pieces(self._session)
        try:
            while True:
                length, _, _, operation = RECORD.unpack(stream.take(RECORD.size))
                self._arrived(KernelRequest.parse(stream.take(length)), operation)
        except (OSError, EOFError):
            pass  # the line has ended, and tells why
        except ShareMessageInvalid as error:
            logger.error("%s", error)

    def _arrived(self, request: KernelRequest, operation: int) -> None:
        if request.opcode in (Opcode.FORGET, Opcode.BATCH_FORGET):
            return
        if request.opcode == Opcode.INTERRUPT:
            (target,) = struct.unpack_from("<Q", request.message, IN_HEADER.size)
            with self._changed:
                call = self._pending.get(target)
            if call:
                self._keeper.interrupt(call)
            return
        cost = max(request.cost, LEAST_COST)
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._under_way < UNDER_WAY_BYTES)
            self._under_way += cost
        if request.opcode in RELEASING:  # nobody waits for it
            self._reply(error_reply(request.unique, 0), cost)
            self._keeper.ask(Call(request), lambda reply: None)
            return
        begins = request.opcode == Opcode.INIT
        call = Call(request, None if begins else self._counts.name(request, operation))
        with self._changed:
            self._pending[request.unique] = call
        self._keeper.ask(call, lambda reply: self._answered(request.unique, reply, cost))

    def _answered(self, unique: int, reply: bytes, cost: int) -> None:
        with self._changed:
            if self._pending.pop(unique, None) is None:
                self._under_way -= cost
                self._changed.notify_all()
                return
        length, error, _ = OUT_HEADER.unpack_from(reply)
        whole = OUT_HEADER.pack(length, error, unique) + reply[OUT_HEADER.size :]
        self._reply(whole, cost)

    def _reply(self, reply: bytes, cost: int) -> None:
        def sent() -> None:
            with self._changed:
                self._under_way -= cost
                self._changed.notify_all()

        self._replies.send(reply, sent)

    def _end(self) -> None:
        """The guest takes no replies any more: nobody waits until it has."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
