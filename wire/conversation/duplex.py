# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Frames in both directions over one Unix socket, and over the next one when that breaks.

Either side sends messages and requests; replies come in any order, everything else is handed on in
the order in which it was sent. What is in the frames is nothing to this module. A conversation
outlives its connection: each side keeps what the other has not acknowledged, and sends it again
over the next connection, so nothing is lost, repeated or out of order while both processes live.

A frame, little-endian: length of the payload (4), kind (1), number of the request (4), how many
frames were received from the other side when it was sent (8), payload. A long payload is sent in
parts, each as a frame; the last one has the kind. The first frame of a connection is a hello in
either direction (`wire/conversation/greeting.py`).

Whether the other side still hears this one is found out beside all that: a ping and its answer go
ahead of what waits, also between two parts, count for nothing, and end with their connection.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import logging
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from satchel.errors import SatchelError, StateError, UnavailableError
from satchel.polling import POLL_SECONDS
from wire.conversation.waits import Wait
from wire.errors import LocalProtocolError, PeerUnreachable, RemoteProtocolError

log = logging.getLogger(__name__)

HEADER = struct.Struct("<IBIQ")

FRAME_LIMIT = 16 << 20
"""Bytes of a payload."""

UNSENT_LIMIT = 32 << 20
"""Bytes that wait for the other side until those who send more wait, too."""

DROWNED_LIMIT = 256 << 20
"""Bytes of replies and messages on top of that, until a peer that does not read is given up."""

ACKNOWLEDGE_FRAMES = 64
ACKNOWLEDGE_BYTES = 1 << 20

PART = 1 << 16
"""Bytes of a payload that are sent without a look at what goes ahead."""

SEND_BUFFER = 1 << 16
"""Bytes that the kernel takes: what goes ahead stands behind these."""

AHEAD_LIMIT = 16
"""Pings and their answers that wait to be written. Whoever does not read gets no more."""

PINGS_LIMIT = 100
"""That have no answer yet; the oldest are forgotten."""

RECEIVE = 1 << 18
"""Bytes that are read at once."""

_WHY_LIMIT = 1000


class FrameKind(enum.IntEnum):
    MESSAGE = 0
    REQUEST = 1
    REPLY = 2
    FAILURE = 3
    ACKNOWLEDGE = 4
    HELLO = 5
    PART = 6
    PING = 7
    PONG = 8


_ANSWERS = (FrameKind.REPLY, FrameKind.FAILURE)
_AHEAD = (FrameKind.PING, FrameKind.PONG)
_KINDS = frozenset(FrameKind) - {FrameKind.HELLO}
_KIND_AT = 4
"""Where a frame has its kind."""


class PeerFailed(UnavailableError):
    """The other side could not answer this request; the conversation continues."""


class ConversationEnded(UnavailableError):
    """The conversation is over: pending requests have no answer."""


Reply = Callable[[bytes], None]
Arrived = Callable[[bytes, Reply | None], None]
"""Takes what the other side sent, on one thread, in order. With a request comes a function for the
reply, to be called once, now or later, on any thread. It must not ask the other side anything
itself: the answer would be read by the same thread."""


def _frame(kind: FrameKind, number: int, received: int, payload: bytes) -> bytes:
    """As it is written: its parts one after the other."""
    starts = range(0, max(len(payload), 1), PART)
    pieces = []
    for start in starts:
        piece = payload[start : start + PART]
        last = start == starts[-1]
        pieces += [
            HEADER.pack(len(piece), kind if last else FrameKind.PART, number, received),
            piece,
        ]
    return b"".join(pieces)


def _parts(frame: bytes) -> Iterator[memoryview]:
    view, start = memoryview(frame), 0
    while start < len(frame):
        end = start + HEADER.size + HEADER.unpack_from(frame, start)[0]
        yield view[start:end]
        start = end


class _Call:
    """A request that has no reply yet."""

    def __init__(
        self,
        arrived: Callable[[bytes], None] | None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None:
        self._arrived = arrived
        self._failed = failed
        self.done = threading.Event()
        self.reply = b""
        self.error: SatchelError | None = None

    def settle(self, reply: bytes) -> None:
        try:
            if self._arrived:
                self._arrived(reply)
        finally:
            self.reply = reply
            self.done.set()

    def fail(self, error: SatchelError) -> None:
        self.error = error
        self.done.set()
        if self._failed:
            self._failed(error)


class Duplex:
    """One side of a conversation. Thread-safe.

    received: frames that were taken from the other side; taken: frames that it has acknowledged;
    written, came: as `Wait` counts them. heard: monotonic time at which anything of one came last.
    caller: the process at the other end of the last connection that was taken at a socket here
    """

    def __init__(self, name: str, arrived: Arrived) -> None:
        """A conversation without a connection yet: what is sent waits for `attach`.

        name: of the other side, for messages
        """
        self.name = name
        self.received = 0
        self.caller = 0
        self.heard = self._gone_since = time.monotonic()
        self._arrived = arrived
        self._lock = threading.Condition()
        self._numbers = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._kept: deque[bytes] = deque()  # frames that are not acknowledged
        self._kept_bytes = 0
        self.taken = self.written = self.came = 0
        self._unwritten: deque[memoryview] = deque()  # the first may be written in part
        self._pings: dict[int, Callable[[], None]] = {}
        self._parts = bytearray()
        self._writing = False
        self._socket: socket.socket | None = None
        self._told = 0  # of `received`, what the other side knows
        self._untold_bytes = 0
        self._ended: str | None = None
        self._reading = threading.Lock()

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def ended(self) -> str | None:
        """Why the conversation is over; None while it is not."""
        return self._ended

    def ask(
        self,
        payload: bytes,
        *,
        patience: float | None = None,
        arrived: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Send a request and wait for its reply.

        arrived: is called with the reply on the thread that reads, before anything that came
        after it; also when nobody waits any more. patience: seconds, as `Wait` counts them, until
        PeerUnreachable is raised; None: endless. Raises PeerFailed, ConversationEnded,
        LocalProtocolError.
        """
        call = _Call(arrived)
        self._wait_for_room(patience)
        self._request(payload, call)
        wait = self.wait()
        while not call.done.wait(POLL_SECONDS if patience is not None else None):
            self._require_patience(patience)
            late = wait.over(patience) if patience is not None else 0.0
            if late:
                raise PeerUnreachable(f"{self.name} has not answered", why=f"for {late:.0f} s")
        if call.error:
            raise call.error
        return call.reply

    def tell(self, payload: bytes, *, patience: float | None = None) -> None:
        """Send a message. Raises as `ask` does, but not PeerFailed."""
        self._wait_for_room(patience)
        self._send(FrameKind.MESSAGE, 0, payload)

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None:
        """Send a message or, with `arrived`, a request, and never wait: for threads that read.

        arrived: as for `ask`; failed: is called where there will be no reply, also at once. A
        message of a conversation that is over goes nowhere.
        """
        try:
            if arrived:
                self._request(payload, _Call(arrived, failed))
            else:
                self._send(FrameKind.MESSAGE, 0, payload)
        except ConversationEnded as error:
            if failed:
                failed(error)

    def wait(self) -> Wait:
        """Begin to count the time of a wait for the other side."""
        return Wait(self)

    @property
    def sent(self) -> int:
        """The frames that were sent."""
        with self._lock:
            return self.taken + len(self._kept)

    def ping(self, answered: Callable[[], None]) -> None:
        """Have `answered` called when the other side has heard this, on the thread that reads, with
        nothing else waited for that either side has to say. Not, where the connection ends before.
        Never waits."""
        with self._lock:
            number = next(self._numbers) & 0xFFFFFFFF
            if self._socket is None:
                return
            self._pings[number] = answered
            if len(self._pings) > PINGS_LIMIT:
                del self._pings[next(iter(self._pings))]
        self._ahead(FrameKind.PING, number)

    def _ahead(self, kind: FrameKind, number: int) -> None:
        with self._lock:
            waits = self._unwritten
            if len(waits) > AHEAD_LIMIT and waits[AHEAD_LIMIT][_KIND_AT] in _AHEAD:
                return
            frame = memoryview(HEADER.pack(0, kind, number, 0))
            waits.insert(1 if self._writing else 0, frame)  # the first is being written
        self._write()

    def attach(self, connection: socket.socket, taken: int, before: bytes = b"") -> None:
        """Go on over this connection, and read from it until it ends; then it is closed.

        taken: frames that the other side has received. before: bytes that were read from the
        connection already. A connection that there is, is cut. Raises RemoteProtocolError where
        the other side cannot be gone on with; the conversation is over then.
        """
        self.cut()
        with self._reading:
            with self._lock:
                if self._ended is not None:
                    connection.close()
                    return
                if not self.taken <= taken <= self.taken + len(self._kept):
                    why = f"it has {taken} frames of {self.taken + len(self._kept)}"
                    error = RemoteProtocolError(f"{self.name} cannot continue", why=why)
                else:
                    self._acknowledged(taken)
                    self._unwritten = deque(part for frame in self._kept for part in _parts(frame))
                    self._pings.clear()
                    self._parts.clear()
                    self._socket, error = connection, None
            if error:
                connection.close()
                self.end(str(error))
                raise error
            with contextlib.suppress(OSError):  # whoever reads notices
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            self._write()
            self._read(connection, before)

    def pause(self) -> int:
        """Cut the connection and wait until all that came over it was handed on: how many frames
        were received then."""
        self.cut()
        with self._reading:
            return self.received

    def cut(self) -> None:
        """End the connection, if there is one. The conversation goes on with another."""
        with self._lock:
            connection = self._socket
            if connection:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def end(self, why: str) -> None:
        """End the conversation. Whoever waits for an answer gets ConversationEnded. Harmless the
        second time."""
        with self._lock:
            if self._ended is None:
                self._ended = why
            calls, self._calls = self._calls, {}
            self._kept.clear()
            self._kept_bytes = 0
            self._unwritten.clear()
            self._lock.notify_all()
        self.cut()
        for call in calls.values():
            call.fail(self._over())

    def _over(self) -> ConversationEnded:
        return ConversationEnded(
            f"the conversation with {self.name} is over", why=self._ended or ""
        )

    def _request(self, payload: bytes, call: _Call) -> None:
        with self._lock:
            number = next(self._numbers) & 0xFFFFFFFF
            if self._ended is not None:
                raise self._over()
            self._calls[number] = call
        self._send(FrameKind.REQUEST, number, payload)

    def _send(self, kind: FrameKind, number: int, payload: bytes) -> None:
        if len(payload) > FRAME_LIMIT:
            raise LocalProtocolError(f"a frame for {self.name} is too long", why=str(len(payload)))
        with self._lock:
            if self._ended is not None:
                raise self._over()
            frame = _frame(kind, number, self.received, payload)
            self._kept.append(frame)
            self._kept_bytes += len(frame)
            drowned = self._kept_bytes > DROWNED_LIMIT
            if self._socket:
                self._unwritten.extend(_parts(frame))
                self._told, self._untold_bytes = self.received, 0
        if drowned:
            self.end("it takes nothing of what it is sent")
        self._write()

    def _write(self) -> None:
        """Write what can be written now; the rest is left to a thread."""
        with self._lock:
            if self._writing or not self._unwritten:
                return
            self._writing = True
            while self._unwritten and self._socket:
                try:
                    written = self._socket.send(self._unwritten[0], socket.MSG_DONTWAIT)
                except BlockingIOError:
                    threading.Thread(
                        target=self._write_rest,
                        args=(self._socket,),
                        name=f"write {self.name}",
                        daemon=True,
                    ).start()
                    return
                except OSError:
                    break  # whoever reads notices
                self._written(written)
            self._writing = False

    def _write_rest(self, connection: socket.socket) -> None:
        while True:
            with self._lock:
                if not self._unwritten or self._socket is not connection:
                    break
                first = self._unwritten[0]
            try:
                written = connection.send(first)
            except OSError:
                break
            with self._lock:
                if self._socket is not connection or not self._unwritten:
                    break
                self._written(written)
        with self._lock:
            self._writing = False
        self._write()

    def _written(self, count: int) -> None:
        """With the lock: so many bytes of the first frame are on their way."""
        self.written += len(self._unwritten[0]) > HEADER.size
        rest = self._unwritten[0][count:]
        if rest:
            self._unwritten[0] = rest
        else:
            self._unwritten.popleft()

    def _read(self, connection: socket.socket, before: bytes) -> None:
        why = "it closed the connection"
        buffer = bytearray(before)
        try:
            while True:
                self._frames(buffer)
                part = connection.recv(RECEIVE)
                if not part:
                    break
                self.heard = time.monotonic()
                buffer += part
        except RemoteProtocolError as error:
            self.end(str(error))
        except OSError as error:
            why = str(error)
        finally:
            with self._lock:
                self._socket = None
                self._gone_since = time.monotonic()
                self._unwritten.clear()
            connection.close()
            log.debug("%s: %s", self.name, why)

    def _frames(self, buffer: bytearray) -> None:
        """Take whole frames off the buffer's front."""
        start = 0
        while len(buffer) - start >= HEADER.size:
            length, kind, number, taken = HEADER.unpack_from(buffer, start)
            if len(self._parts) + length > FRAME_LIMIT or kind not in _KINDS:
                why = f"a frame of kind {kind} and {length} bytes"
                raise RemoteProtocolError(f"{self.name} sent no frame", why=why)
            if len(buffer) - start < HEADER.size + length:
                break
            payload = bytes(memoryview(buffer)[start + HEADER.size : start + HEADER.size + length])
            start += HEADER.size + length
            if kind == FrameKind.PART:
                self._parts += payload
                self.came += 1
            elif kind in _AHEAD:
                self._heard(FrameKind(kind), number)
            elif self._parts and kind != FrameKind.ACKNOWLEDGE:
                whole = bytes(self._parts + payload)
                self._parts.clear()
                self._frame(FrameKind(kind), number, taken, whole)
            else:
                self._frame(FrameKind(kind), number, taken, payload)
        del buffer[:start]

    def _heard(self, kind: FrameKind, number: int) -> None:
        if kind is FrameKind.PING:
            self._ahead(FrameKind.PONG, number)
            return
        with self._lock:
            answered = self._pings.pop(number, None)
        if answered:
            answered()

    def _frame(self, kind: FrameKind, number: int, taken: int, payload: bytes) -> None:
        with self._lock:
            if taken > self.taken + len(self._kept) and self._ended is None:
                raise RemoteProtocolError(
                    f"{self.name} acknowledged a message that was not sent", why=f"{taken} frames"
                )
            self._acknowledged(taken)
            if kind is FrameKind.ACKNOWLEDGE:
                return
            self.received += 1
            self._untold_bytes += len(payload)
            call = self._calls.pop(number, None) if kind in _ANSWERS else None
        if kind in _ANSWERS:
            self._answered(kind, call, payload)
        else:
            self._hand_on(kind, number, payload)
        self._acknowledge()

    def _answered(self, kind: FrameKind, call: _Call | None, payload: bytes) -> None:
        if call is None:
            if self._ended is None:
                raise RemoteProtocolError(f"{self.name} answered a request that was not sent")
        elif kind is FrameKind.REPLY:
            try:
                call.settle(payload)
            except Exception:  # of who takes it: an OSError would be taken for the connection's
                log.exception("%s", self.name)
        else:
            call.fail(PeerFailed(f"{self.name} failed", why=payload.decode(errors="replace")))

    def _hand_on(self, kind: FrameKind, number: int, payload: bytes) -> None:
        reply = _Reply(self, number) if kind is FrameKind.REQUEST else None
        try:
            self._arrived(payload, reply)
        except SatchelError as error:
            log.warning("%s: %s", self.name, error)
            if reply:
                reply.fail(str(error))
        except Exception as error:
            log.exception("%s", self.name)
            if reply:
                reply.fail(repr(error))

    def _acknowledge(self) -> None:
        with self._lock:
            frames = self.received - self._told
            if frames < ACKNOWLEDGE_FRAMES and self._untold_bytes < ACKNOWLEDGE_BYTES:
                return
            if self._socket:
                frame = HEADER.pack(0, FrameKind.ACKNOWLEDGE, 0, self.received)
                self._unwritten.append(memoryview(frame))
                self._told, self._untold_bytes = self.received, 0
        self._write()

    def _acknowledged(self, taken: int) -> None:
        """With the lock."""
        while self.taken < taken and self._kept:
            self._kept_bytes -= len(self._kept.popleft())
            self.taken += 1
        if self._kept_bytes <= UNSENT_LIMIT:
            self._lock.notify_all()

    def _wait_for_room(self, patience: float | None) -> None:
        while True:
            with self._lock:
                if self._kept_bytes <= UNSENT_LIMIT or self._ended is not None:
                    return
                self._lock.wait(POLL_SECONDS)
            self._require_patience(patience)

    def _require_patience(self, patience: float | None) -> None:
        if patience is not None and not self.connected:
            gone = time.monotonic() - self._gone_since
            if gone > patience:
                raise PeerUnreachable(f"{self.name} is not reached", why=f"for {gone:.0f} s")


class _Reply:
    """What a request is answered with, once."""

    def __init__(self, duplex: Duplex, number: int) -> None:
        self._duplex = duplex
        self._number = number
        self._lock = threading.Lock()
        self._given = False

    def __call__(self, payload: bytes) -> None:
        self._give(FrameKind.REPLY, payload)

    def fail(self, why: str) -> None:
        with contextlib.suppress(StateError):
            self._give(FrameKind.FAILURE, why.encode()[:_WHY_LIMIT])

    def _give(self, kind: FrameKind, payload: bytes) -> None:
        with self._lock:
            if self._given:
                raise StateError(f"a request of {self._duplex.name} has its reply already")
            self._given = True
        with contextlib.suppress(ConversationEnded):
            self._duplex._send(kind, self._number, payload)
