# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The host's end of the port of a guest's shares: between the guest's kernel and a FUSE session.

To the session it is a mount of its own: the kernel's requests come at `session` as they are,
FUSE_INIT first, and replies go back the same way. A guest that has had another host before does not
ask FUSE_INIT again. Then this end asks it, with the words that the guest has kept, and keeps the
reply to itself; it must be the one that the guest's kernel goes by.

docs/formats/agent-protocol.md describes what crosses the port; replay/agent/shares.h defines it.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from guestshares.kernel import (
    IN_HEADER,
    INTERRUPT_BIT,
    MESSAGE_LIMIT,
    OUT_HEADER,
    KernelRequest,
    Opcode,
    ShareMessageInvalid,
    error_reply,
)
from replay import AgentChannel
from satchel.errors import UnavailableError

logger = logging.getLogger(__name__)

MARK_BYTES = 16
ATTACH_SECONDS = 30.0
STALE_LIMIT = 64 << 20
"""Bytes that may come before the guest's mark: what it had said to an earlier host."""

RECORD = struct.Struct("<IHHQ")
"""What is before each message on the port: its length, kind, zero, operation."""

_INIT, _REQUEST = 1, 2
_PIECE = 1 << 18


class SharesGone(UnavailableError):
    """The port of the shares ended or does not answer."""


class SharesLine:
    """The line to one guest's shares. `session` is the session's end, and belongs to the caller.

    Two threads carry messages until either end closes. `failure` says why it ended by itself.
    """

    def __init__(
        self, guest: socket.socket, mark: bytes, name: str, *, operations: bool = False
    ) -> None:
        """Takes over a socket whose guest was told `mark`. Nothing is carried before `start`.

        operations: the session is told, before each request, in which operation it was made: it
        gets what `RECORD` is as well.
        """
        self._guest = guest
        self._mark = mark
        self._name = name
        self._operations = operations
        self._near, self.session = socket.socketpair()
        self._closing = False
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._init: tuple[int, bytes] | None = None
        self.failure: str | None = None
        self._threads = [
            threading.Thread(target=self._carry, args=(work,), name=f"shares-{end}-{name}")
            for end, work in (("in", self._inwards), ("out", self._outwards))
        ]

    @classmethod
    def attach(
        cls,
        path: Path,
        agent: AgentChannel,
        timeout: float = ATTACH_SECONDS,
        *,
        operations: bool = False,
    ) -> SharesLine:
        """Become the host of the shares of that machine, whoever was it before.

        operations: as for a new line. Raises SharesGone, AgentFailed where the guest has no shares,
        AgentTimeout, AgentGone.
        """
        guest = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mark = secrets.token_bytes(MARK_BYTES)
        try:
            try:
                guest.connect(bytes(path))
            except OSError as error:
                raise SharesGone(f"cannot reach the shares at {path}", why=str(error)) from error
            agent.attach_shares(mark, timeout)
            line = cls(guest, mark, str(path), operations=operations)
        except BaseException:
            guest.close()
            raise
        line.start()
        return line

    def start(self) -> None:
        """Begin to carry messages. Once."""
        with contextlib.suppress(OSError):
            self._guest.sendall(self._mark)
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End it; requests without an answer stay with the guest. Idempotent."""
        self._closing = True
        self._hang_up()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join()
        self._guest.close()
        self._near.close()

    def _hang_up(self) -> None:
        for end in (self._guest, self._near):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _carry(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, EOFError, ShareMessageInvalid) as error:
            with self._lock:
                if self.failure is None and not self._closing:
                    self.failure = str(error) or "the other end closed"
                    logger.warning("shares at %s ended: %s", self._name, self.failure)
        finally:
            self._hang_up()

    def _inwards(self) -> None:
        """From the guest to the session."""
        stream = Pieces(self._guest)
        stream.skip_to(self._mark)
        first = True
        while True:
            length, kind, reserved, operation = RECORD.unpack(stream.take(RECORD.size))
            if reserved or length > 2 * MESSAGE_LIMIT or (kind == _INIT and not first):
                raise ShareMessageInvalid(f"a record of kind {kind} has {length} bytes")
            message = stream.take(length)
            if kind == _INIT:
                self._repeat_init(message)
            elif kind == _REQUEST:
                self._ask(KernelRequest.parse(message), operation)
            else:
                raise ShareMessageInvalid(f"a record is of kind {kind}")
            first = False

    def _repeat_init(self, exchange: bytes) -> None:
        if len(exchange) < IN_HEADER.size:
            raise ShareMessageInvalid("the first exchange is too short")
        length = int.from_bytes(exchange[:4], "little")
        request, reply = KernelRequest.parse(exchange[:length]), exchange[length:]
        if request.opcode != Opcode.INIT or request.refusal() or len(reply) < OUT_HEADER.size:
            raise ShareMessageInvalid("malformed first exchange")
        self._init = (request.unique, reply)
        self._pass_on(request, 0)

    def _ask(self, request: KernelRequest, operation: int) -> None:
        if request.opcode == Opcode.DESTROY:
            self._answer(error_reply(request.unique, 0))
        elif code := request.refusal():
            if not request.silent:
                self._answer(error_reply(request.unique, code))
        else:
            self._pass_on(request, operation)

    def _pass_on(self, request: KernelRequest, operation: int) -> None:
        if self._operations:
            self._near.sendall(RECORD.pack(len(request.message), _REQUEST, 0, operation))
        self._near.sendall(request.message)

    def _answer(self, reply: bytes) -> None:
        with self._sending:
            self._guest.sendall(reply)

    def _outwards(self) -> None:
        """From the session to the guest: replies alone, no notices."""
        stream = Pieces(self._near)
        while True:
            header = stream.take(OUT_HEADER.size)
            length, _, unique = OUT_HEADER.unpack(header)
            assert OUT_HEADER.size <= length <= MESSAGE_LIMIT, "the session sends a wrong length"
            reply = header + stream.take(length - OUT_HEADER.size)
            if self._init and self._init[0] == unique:
                if self._init[1] != reply:
                    raise ShareMessageInvalid(
                        "the guest's kernel was promised by another Satchel what this one cannot do"
                    )
                self._init = None
            elif unique & ~INTERRUPT_BIT:
                self._answer(reply)


class Pieces:
    """Whole pieces out of a socket. Raises EOFError when it ends."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._bytes = bytearray()

    def _more(self) -> None:
        received = self._end.recv(_PIECE)
        if not received:
            raise EOFError("the other end closed")
        self._bytes += received

    def take(self, count: int) -> bytes:
        while len(self._bytes) < count:
            self._more()
        piece = bytes(self._bytes[:count])
        del self._bytes[:count]
        return piece

    def skip_to(self, mark: bytes) -> None:
        """Drop all up to and including `mark`. Raises ShareMessageInvalid if it does not come."""
        skipped = 0
        while (at := self._bytes.find(mark)) < 0:
            useless = max(0, len(self._bytes) - len(mark) + 1)
            skipped += useless
            del self._bytes[:useless]
            if skipped > STALE_LIMIT:
                raise ShareMessageInvalid(f"no mark came within {skipped} bytes")
            self._more()
        del self._bytes[: at + len(mark)]
