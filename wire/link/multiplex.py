# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Many streams over one pipe in each direction: what a link and the door at its other end speak.

A stream is a connection of a local socket, carried to a socket at the other side. Each has a
window: its receiver says how many bytes more it takes, so one that nobody reads holds up no other.
Frames of all streams take turns, and a stream is read only when there is room on the pipe. The
bytes are those of docs/formats/door.md. What comes is a stranger's: each frame is bounded before it
is kept, and the first one that breaks the rules ends all streams.

One thread runs it (`run`). Every other method may be called from any thread.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import logging
import math
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from satchel.errors import SatchelError
from wire.errors import PeerTimeout, RemoteProtocolError
from wire.link.liveness import Liveness
from wire.link.outlet import Outlet

logger = logging.getLogger(__name__)

HELLO = struct.Struct("<4sBB")
"""Magic, the lowest and the highest version that this side speaks."""

MAGIC = b"SDOR"

VERSION = 2

HEADER = struct.Struct("<BII")
"""Kind, stream, bytes of the payload."""

WINDOW = 1 << 20
"""Bytes of a stream that its receiver keeps at most."""

PIECE = 1 << 15
"""Bytes of a payload at most."""

STREAMS_LIMIT = 128
"""Streams that each side may have open of those that it opened."""

FULL = 1 << 17
"""Bytes that wait for the pipe until no more is read from streams."""

DROWNED = 1 << 20
"""Bytes that wait for the pipe until nothing more is read from it: its other end reads nothing."""

NAME_LIMIT = 300

HELLO_SECONDS = 25.0
"""How long the other side may take to say hello, with what it takes to connect; longer where who
calls waits longer for a slow host."""

PAUSE_SECONDS = 0.02
"""Before a connection is accepted again that could not be."""

_WHY_LIMIT = 300
_RECEIVE = 1 << 18
_CREDIT = struct.Struct("<I")


class MuxKind(enum.IntEnum):
    OPEN = 1
    DATA = 2
    CREDIT = 3
    END = 4
    RESET = 5
    OFFER = 6
    OFFERED = 7
    REFUSED = 8
    BEAT = 9
    HEARD = 10


_ASKED_OF_A_STREAM = (MuxKind.DATA, MuxKind.CREDIT, MuxKind.END, MuxKind.RESET)
_LIMITS = {
    MuxKind.OPEN: NAME_LIMIT,
    MuxKind.DATA: PIECE,
    MuxKind.CREDIT: _CREDIT.size,
    MuxKind.END: 0,
    MuxKind.RESET: _WHY_LIMIT,
    MuxKind.OFFER: NAME_LIMIT,
    MuxKind.OFFERED: NAME_LIMIT,
    MuxKind.REFUSED: NAME_LIMIT + _WHY_LIMIT,
    MuxKind.BEAT: 0,
    MuxKind.HEARD: 0,
}

Connect = Callable[[str], socket.socket]
"""Connects to what the other side names. Raises SatchelError or OSError: it is refused then. It is
called on a thread of its own and may take a while."""

_Do = Callable[[], None]

Asked = Callable[[MuxKind, bytes], None]
"""Takes a frame about offers, on the thread that runs. Raises RemoteProtocolError."""


@dataclass
class _Stream:
    number: int
    socket: socket.socket | None = None  # None: not connected yet
    credit: int = WINDOW  # bytes that may still be sent
    inbox: bytearray = field(default_factory=bytearray)
    owed: int = 0  # bytes that were taken out, and not told of yet
    heard_out: bool = False  # the other side sends nothing more
    said_out: bool = False  # this side sends nothing more
    closed: bool = False  # its socket is closed
    events: int = 0  # that are looked for
    reset: bool = False  # by the other side
    deaf: bool = False  # its socket takes nothing more; what it said before is still read


class Multiplexer:
    """One side. It owns the descriptors, the listeners and the sockets of the streams."""

    def __init__(
        self,
        reading: int,
        writing: int,
        *,
        opens: int,
        connect: Connect,
        asked: Asked,
        liveness: Liveness | None = None,
        hello_seconds: float = HELLO_SECONDS,
    ) -> None:
        """reading, writing: of the pipe, may be the same; opens: the number of the first stream
        that this side opens, 1 for who called and 2 for the door; liveness: of who called, whose
        side says beats; hello_seconds: until the other side must have said hello."""
        self._reading, self._writing = reading, writing
        self._liveness = liveness
        self._connect, self._asked = connect, asked
        self._next, self._mine = opens, opens % 2
        self._asking = 0  # threads that connect
        self._last = 0  # of those that the other side opened
        self._streams: dict[int, _Stream] = {}
        self._listeners: dict[socket.socket, str] = {}
        self._accepting: set[socket.socket] = set()
        self._in = bytearray()
        self._out = Outlet(writing)
        self._todo: collections.deque[tuple[_Do, _Do | None]] = collections.deque()
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._pipe_events: dict[int, int] = {}
        self._hello_seconds, self._greet_until = hello_seconds, math.inf
        self._full = False
        self._ending = False
        self._over = False
        self._posting = threading.Lock()
        self.agreed = threading.Event()
        """Set when the other side has said hello; and at the end."""
        self.version = 0
        self.failure: SatchelError | None = None
        """Why it ended, if not in good order."""

    def listen(self, listener: socket.socket, name: str) -> None:
        """Open a stream to `name` for each connection that is accepted there, until the end."""

        def add() -> None:
            self._listeners[listener] = name
            listener.setblocking(False)
            self._look_at_listeners()

        self._post(add, listener.close)

    def ask(self, kind: MuxKind, payload: bytes) -> None:
        """Send a frame about offers."""
        self._post(lambda: self._send(kind, 0, payload))

    def fall_silent(self) -> None:
        """Say no beats any more, and bear that the other side says nothing."""
        if self._liveness:
            self._post(self._liveness.fall_silent)

    def wake(self) -> None:
        """Say beats again, one at once: what is said from now on has an answer soon, or `run`
        returns. Harmless where it is awake."""
        self._post(self._wake_up)

    def end(self) -> None:
        """Have `run` return. Harmless the second time."""

        def end() -> None:
            self._ending = True

        self._post(end)

    def run(self) -> None:
        """Carry until the pipe or `end` ends it; `failure` says why. Never raises: everything that
        was its own is closed then."""
        try:
            self._begin()
            while not self._ending:
                self._turn()
        except SatchelError as error:
            self.failure = error
        except OSError as error:
            self.failure = RemoteProtocolError("the pipe of a door broke", why=str(error))
        finally:
            self._finish()

    def _begin(self) -> None:
        for descriptor in {self._reading, self._writing}:
            os.set_blocking(descriptor, False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._work)
        self._greet_until = time.monotonic() + self._hello_seconds
        self._out.put(HELLO.pack(MAGIC, VERSION, VERSION))

    def _turn(self) -> None:
        self._attend()
        self._flush()
        self._look()
        due = self._liveness.due if self.version and self._liveness else self._greet_until
        left = None if due == math.inf else max(0.0, due - time.monotonic())
        for key, events in self._selector.select(left):
            if isinstance(key.data, _Stream):
                self._serve(key.data, events)
            elif key.data is not None:
                key.data()
            else:
                self._serve_pipe(events)

    def _attend(self) -> None:
        """Give up the other side, or say a beat, when it is time."""
        now = time.monotonic()
        if not self.version:
            if now >= self._greet_until:
                raise _broken(f"it said nothing for {self._hello_seconds:.0f} s")
        elif self._liveness:
            if self._liveness.over(now):
                if not self._out.drains():
                    raise PeerTimeout("the other end of a link says nothing any more")
                self._liveness.bear(now)
            if self._liveness.beat(now):
                self._beat()

    def _wake_up(self) -> None:
        if self._liveness and self._liveness.wake(time.monotonic()):
            self._beat()

    def _beat(self) -> None:
        self._out.drains()  # from here on, of what stands before it
        self._send(MuxKind.BEAT, 0)

    def _serve_pipe(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ:
            self._read()

    def _look(self) -> None:
        """Look at the pipe for what it can be of use for, and at streams where its room changed."""
        wanted = {self._reading: 0, self._writing: 0}
        if len(self._out) < DROWNED:
            wanted[self._reading] |= selectors.EVENT_READ
        if self._out:
            wanted[self._writing] |= selectors.EVENT_WRITE
        for descriptor, events in wanted.items():
            before = self._pipe_events.get(descriptor, 0)
            if events != before:
                self._register(descriptor, before, events, None)
                self._pipe_events[descriptor] = events
        full = len(self._out) >= FULL
        if full != self._full:
            self._full = full
            for stream in self._streams.values():
                self._want(stream)

    def _register(self, what: int | socket.socket, before: int, events: int, data: object) -> None:
        if not events:
            self._selector.unregister(what)
        elif before:
            self._selector.modify(what, events, data)
        else:
            self._selector.register(what, events, data)

    def _want(self, stream: _Stream) -> None:
        if stream.socket is None or stream.closed:
            return
        events = 0
        if stream.credit and not stream.said_out and not self._full:
            events |= selectors.EVENT_READ
        if stream.inbox:
            events |= selectors.EVENT_WRITE
        if events != stream.events:
            self._register(stream.socket, stream.events, events, stream)
            stream.events = events

    # what other threads ask for

    def _post(self, do: _Do, otherwise: _Do | None = None) -> None:
        with self._posting:
            if not self._over:
                self._todo.append((do, otherwise))
                with contextlib.suppress(BlockingIOError):
                    self._wake.send(b"\0")
                return
        if otherwise:
            otherwise()

    def _work(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._todo:
            self._todo.popleft()[0]()

    # the pipe

    def _send(self, kind: MuxKind, number: int, payload: bytes = b"") -> None:
        self._out.put(HEADER.pack(kind, number, len(payload)), payload)

    def _flush(self) -> None:
        if not self._out.flush():
            self._ending = True

    def _read(self) -> None:
        try:
            piece = os.read(self._reading, _RECEIVE)
        except BlockingIOError:
            return
        except ConnectionResetError:
            piece = b""
        if not piece:
            self._ending = True
            return
        if self._liveness and self.version:
            self._liveness.heard(time.monotonic())
        self._in += piece
        if not self.version and not self._greeted():
            return
        start = 0
        while len(self._in) - start >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self._in, start)
            if kind not in _LIMITS or length > _LIMITS[kind]:
                raise _broken(f"a frame of kind {kind} and {length} bytes")
            end = start + HEADER.size + length
            if len(self._in) < end:
                break
            payload = bytes(memoryview(self._in)[start + HEADER.size : end])
            start = end
            self._frame(MuxKind(kind), number, payload)
        del self._in[:start]

    def _greeted(self) -> bool:
        if not MAGIC.startswith(self._in[: len(MAGIC)]):
            raise _broken(f"it began with {bytes(self._in[:40])!r}")
        if len(self._in) < HELLO.size:
            return False
        _, lowest, highest = HELLO.unpack_from(self._in)
        if not lowest <= VERSION <= highest:
            raise _broken(f"it speaks versions {lowest} to {highest}, and we {VERSION}")
        del self._in[: HELLO.size]
        self.version = VERSION
        self._greet_until = math.inf
        if self._liveness:
            self._liveness.begin(time.monotonic())
            self._beat()
        self.agreed.set()
        return True

    def _frame(self, kind: MuxKind, number: int, payload: bytes) -> None:
        if kind is MuxKind.OPEN:
            self._opened(number, payload)
        elif kind not in _ASKED_OF_A_STREAM:
            if number:
                raise _broken(f"a frame of kind {kind} about stream {number}")
            self._of_the_link(kind, payload)
        elif stream := self._streams.get(number):
            self._heard(stream, kind, payload)
        elif not 0 < number < self._next if number % 2 == self._mine else number > self._last:
            raise _broken(f"stream {number}, which was not opened")

    def _of_the_link(self, kind: MuxKind, payload: bytes) -> None:
        if kind is MuxKind.BEAT:
            if self._liveness:
                raise _broken("a beat of a door's")
            self._send(MuxKind.HEARD, 0)
        elif kind is MuxKind.HEARD:
            if self._liveness is None or not self._liveness.answered(time.monotonic()):
                raise _broken("an answer to no beat")
        else:
            self._asked(kind, payload)

    def _opened(self, number: int, payload: bytes) -> None:
        if number % 2 == self._mine or number <= self._last:
            raise _broken(f"it opened stream {number} after {self._last}")
        self._last = number
        theirs = sum(1 for n in self._streams if n % 2 != self._mine)
        try:
            name = payload.decode("ascii")
        except UnicodeDecodeError:
            raise _broken("a name that is not ASCII") from None
        if theirs >= STREAMS_LIMIT or self._asking >= STREAMS_LIMIT:
            self._send(MuxKind.RESET, number, b"too many streams")
            return
        stream = self._streams[number] = _Stream(number)
        self._asking += 1
        threading.Thread(
            target=self._connecting, args=(stream, name), name="door-connect", daemon=True
        ).start()

    def _connecting(self, stream: _Stream, name: str) -> None:
        try:
            connected = self._connect(name)
        except (SatchelError, OSError) as error:
            why = str(error).encode("ascii", "replace")[:_WHY_LIMIT]
            self._post(lambda: self._refuse(stream, why))
        else:
            self._post(lambda: self._begin_stream(stream, connected), connected.close)

    def _refuse(self, stream: _Stream, why: bytes) -> None:
        self._asking -= 1
        logger.debug("stream %d: %s", stream.number, why)
        if self._streams.pop(stream.number, None):
            self._send(MuxKind.RESET, stream.number, why)

    def _begin_stream(self, stream: _Stream, connected: socket.socket) -> None:
        self._asking -= 1
        if stream.closed:
            connected.close()
            return
        connected.setblocking(False)
        stream.socket = connected
        self._drain(stream)

    # listeners

    def _look_at_listeners(self) -> None:
        """Accept only while there may be more streams."""
        ours = sum(1 for n in self._streams if n % 2 == self._mine)
        wanted = set(self._listeners) if ours < STREAMS_LIMIT else set()
        for listener in self._accepting - wanted:
            self._selector.unregister(listener)
        for listener in wanted - self._accepting:
            accept = self._acceptor(listener)
            self._selector.register(listener, selectors.EVENT_READ, accept)
        self._accepting = wanted

    def _acceptor(self, listener: socket.socket) -> Callable[[], None]:
        def accept() -> None:
            if listener not in self._accepting:
                return
            try:
                connection, _ = listener.accept()
            except OSError:
                time.sleep(PAUSE_SECONDS)  # too many files are open
                return
            connection.setblocking(False)
            stream = self._streams[self._next] = _Stream(self._next, connection)
            self._next += 2
            self._send(MuxKind.OPEN, stream.number, self._listeners[listener].encode("ascii"))
            self._want(stream)
            self._look_at_listeners()

        return accept

    # streams

    def _heard(self, stream: _Stream, kind: MuxKind, payload: bytes) -> None:
        if kind is MuxKind.CREDIT:
            if len(payload) != _CREDIT.size:
                raise _broken("a credit that is not a number")
            stream.credit += _CREDIT.unpack(payload)[0]
            if stream.credit > WINDOW:
                raise _broken("a credit beyond the window")
        elif kind is MuxKind.RESET:  # also after its end: then it takes nothing more
            stream.heard_out = stream.said_out = stream.reset = True
        elif stream.heard_out:
            raise _broken(f"more of stream {stream.number} after its end")
        elif kind is MuxKind.DATA:
            if not payload or len(stream.inbox) + stream.owed + len(payload) > WINDOW:
                raise _broken(f"nothing, or more of stream {stream.number} than its window")
            stream.inbox += payload
        else:
            stream.heard_out = True
        self._drain(stream)

    def _serve(self, stream: _Stream, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._drain(stream)
        if events & selectors.EVENT_READ and not stream.said_out and not stream.closed:
            self._take(stream)

    def _take(self, stream: _Stream) -> None:
        assert stream.socket is not None
        try:
            piece = stream.socket.recv(min(PIECE, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self._abandon(stream)
            return
        if piece:
            stream.credit -= len(piece)
            self._send(MuxKind.DATA, stream.number, piece)
        elif stream.deaf:
            self._abandon(stream)
            return
        else:
            stream.said_out = True
            self._send(MuxKind.END, stream.number)
        self._settle(stream)

    def _drain(self, stream: _Stream) -> None:
        """Hand on what came, as far as its socket takes it."""
        if stream.closed:
            return
        if stream.socket is None:
            if stream.reset:
                self._forget(stream)
            return
        while stream.inbox:
            try:
                written = len(stream.inbox) if stream.deaf else stream.socket.send(stream.inbox)
            except BlockingIOError:
                break
            except OSError:
                if stream.said_out:
                    self._abandon(stream)
                    return
                stream.deaf = True
                continue
            stream.owed += written
            del stream.inbox[:written]
        if stream.owed >= WINDOW // 2 and not stream.heard_out:
            self._send(MuxKind.CREDIT, stream.number, _CREDIT.pack(stream.owed))
            stream.owed = 0
        if stream.heard_out and not stream.inbox:
            with contextlib.suppress(OSError):
                stream.socket.shutdown(socket.SHUT_WR)
        self._settle(stream)

    def _settle(self, stream: _Stream) -> None:
        if stream.heard_out and stream.said_out and not stream.inbox:
            self._forget(stream)
        else:
            self._want(stream)

    def _abandon(self, stream: _Stream) -> None:
        """Its socket is broken: the other side is told, and what it still sends is nothing."""
        if stream.number in self._streams and not stream.reset:
            self._send(MuxKind.RESET, stream.number)
        self._forget(stream)

    def _forget(self, stream: _Stream) -> None:
        if self._streams.pop(stream.number, None) is None:
            return
        if stream.socket is not None:
            if stream.events:
                self._selector.unregister(stream.socket)
            stream.socket.close()
        stream.closed = True
        if stream.number % 2 == self._mine:
            self._look_at_listeners()

    def _finish(self) -> None:
        with self._posting:
            self._over = True
        for stream in list(self._streams.values()):
            if stream.socket is not None:
                stream.socket.close()
        for listener in self._listeners:
            listener.close()
        for _, otherwise in self._todo:
            if otherwise:
                otherwise()
        self._todo.clear()
        self._streams.clear()
        self._selector.close()
        self._wake.close()
        self._woken.close()
        for descriptor in {self._reading, self._writing}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.agreed.set()


def _broken(why: str) -> RemoteProtocolError:
    return RemoteProtocolError("the other end of a link does not speak as a door does", why=why)
