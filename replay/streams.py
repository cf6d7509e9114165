# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The host's end of a guest's streams: between programs' connections here and TCP ports there.

A stream outlives the carrier, which is the connection that reaches the guest at the moment: each
side keeps what the other has not acknowledged, and sends it again over the next carrier, behind a
hello in either direction. The guest's half of that is in its memory, and moves with it. So nothing
is lost, doubled or out of order while one machine goes on, wherever it does. A machine of an older
checkpoint is another conversation: `begin_anew` resets every stream.

One thread does everything; the methods tell it what to do. docs/formats/streams.md.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from replay.guards import Guard, StreamRefused
from replay.stream_records import (
    CONVERSATION_BYTES,
    FIRST_LIMIT,
    LIMIT,
    STREAMS_LIMIT,
    RecordReader,
    StreamEntry,
    StreamRecord,
    StreamRecordInvalid,
    decode_hello,
    encode,
    encode_hello,
    encode_window,
)
from satchel.errors import SatchelError

logger = logging.getLogger(__name__)

CARRIER_BYTES = 128 << 10
"""What waits for the carrier. More would stand between a stream that has little to say and it."""

ANEW_SECONDS = 10.0
PIECE = 16 << 10
RECEIVE = 256 << 10
ALL_WINDOWS = 64 << 20
"""Bytes for all streams together, in each direction."""
LEAST_WINDOW = 64 << 10
MOST_WINDOW = 1 << 20

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER, so that a program is told that its connection broke, and did not end."""

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@dataclass
class _Stream:
    """One stream, and the program's connection. `kept` from `acknowledged` on is what the guest
    has not taken; `received` counts the guest's end as well. Of a refused one the guest was told
    nothing: the program has its answer, and what it says more is dropped."""

    number: int
    port: int
    local: socket.socket
    guard: Guard | None = None
    refused: bool = False
    opened: bool = False
    heard: bool = False
    kept: bytearray = field(default_factory=bytearray)
    acknowledged: int = 0
    sent: int = 0
    limit: int = FIRST_LIMIT
    local_ended: bool = False
    end_sent: bool = False
    end_taken: bool = False
    to_local: bytearray = field(default_factory=bytearray)
    received: int = 0
    guest_ended: bool = False
    local_told: bool = False
    told_received: int = 0
    told_limit: int = 0
    events: int = 0

    @property
    def produced(self) -> int:
        return self.acknowledged + len(self.kept)


@dataclass(frozen=True)
class StreamCounts:
    """What a relay has done so far. quiet_seconds: since bytes last went either way. carried: there
    is a carrier; attached: and the guest has greeted over it. refused: connections that a guard
    did not let through. turns: how often a guest has spoken after a program did."""

    open: int
    opened: int
    reset: int
    refused: int
    sent_bytes: int
    received_bytes: int
    quiet_seconds: float
    carried: bool
    attached: bool
    turns: int


class StreamRelay:
    """See the module. Thread-safe."""

    def __init__(self, name: str, on_lost: Callable[[str], None] = lambda why: None) -> None:
        """Without a carrier yet: connections wait. on_lost: is told, on the relay's thread and
        once for each, that a carrier has ended; it returns at once."""
        self._name = name
        self._on_lost = on_lost
        self._orders: deque[Callable[[], None]] = deque()
        self._bell, self._wake = socket.socketpair()
        for end in (self._bell, self._wake):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, _READ, None)
        self._streams: dict[int, _Stream] = {}
        self._untold: dict[int, None] = {}  # those that may have something to say, in turn
        self._conversation = secrets.token_bytes(CONVERSATION_BYTES)
        self._next = 1
        self._carrier: socket.socket | None = None
        self._carrier_events = 0
        self._reader = RecordReader()
        self._outgoing = bytearray()
        self._greeted = False
        self._opened = self._resets = self._refusals = self._sent = self._received = 0
        self._turns, self._asked = 0, False
        self._moved = time.monotonic()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"streams-{name}", daemon=True)
        self._thread.start()

    def adopt(self, local: socket.socket, port: int, guard: Guard | None = None) -> None:
        """Pass a program's connection to that port of the guest. It belongs to the relay. guard:
        sees what the program says before the guest does."""
        self._order(lambda: self._adopt(local, port, guard))

    def attach(self, carrier: socket.socket) -> None:
        """Go on over this connection to the guest, in place of the one before, if any. It belongs
        to the relay; what comes over it begins behind the mark."""
        self._order(lambda: self._attach(carrier))

    def detach(self) -> None:
        """End the carrier, if there is one; nobody is told that it is lost."""
        self._order(self._end_carrier)

    def begin_anew(self) -> None:
        """Reset every stream whose guard cannot have it sent again: the guest that is attached next
        is not the one that had them. Returns when it is done."""
        done = threading.Event()

        def order() -> None:
            self._begin_anew()
            done.set()

        self._order(order)
        done.wait(ANEW_SECONDS)

    def counts(self) -> StreamCounts:
        """As of now."""
        return StreamCounts(
            open=len(self._streams),
            opened=self._opened,
            reset=self._resets,
            refused=self._refusals,
            sent_bytes=self._sent,
            received_bytes=self._received,
            quiet_seconds=time.monotonic() - self._moved,
            carried=self._carrier is not None,
            attached=self._greeted,
            turns=self._turns,
        )

    def close(self) -> None:
        """Reset what there is and end the thread. Harmless the second time."""
        self._order(self._close)
        self._thread.join()

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        with contextlib.suppress(BlockingIOError, OSError):
            self._bell.send(b"\0")

    def _run(self) -> None:
        while not self._closing:
            for key, events in self._selector.select():
                try:
                    if key.data is None:
                        self._wake_up()
                    elif key.data is self:
                        self._serve_carrier(events)
                    elif key.data.number in self._streams:
                        self._serve_local(key.data, events)
                except Exception:
                    logger.exception("streams of %s", self._name)
                if self._closing:
                    break
            self._tell()
        self._selector.close()
        self._bell.close()
        self._wake.close()

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        while self._orders:
            self._orders.popleft()()

    def _adopt(self, local: socket.socket, port: int, guard: Guard | None) -> None:
        if self._closing or len(self._streams) >= STREAMS_LIMIT:
            local.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            local.close()
            return
        local.setblocking(False)
        stream = self._streams[self._next] = _Stream(self._next, port, local, guard)
        self._next += 1
        self._opened += 1
        self._untold[stream.number] = None
        self._watch(stream)

    def _attach(self, carrier: socket.socket) -> None:
        self._end_carrier()
        carrier.setblocking(False)
        self._carrier, self._carrier_events = carrier, _READ
        self._selector.register(carrier, _READ, self)
        entries = []
        for stream in self._streams.values():
            if stream.opened:
                stream.told_received, stream.told_limit = stream.received, self._limit(stream)
                entries.append(
                    (stream.number, StreamEntry(False, stream.received, stream.told_limit))
                )
        self._outgoing += encode_hello(self._conversation, entries)

    def _end_carrier(self) -> None:
        if self._carrier is None:
            return
        self._selector.unregister(self._carrier)
        self._carrier.close()
        self._carrier = None
        self._greeted = False
        self._reader = RecordReader()
        self._outgoing.clear()

    def _lose_carrier(self, why: str) -> None:
        self._end_carrier()
        self._on_lost(why)

    def _begin_anew(self) -> None:
        self._end_carrier()
        self._conversation = secrets.token_bytes(CONVERSATION_BYTES)
        for stream in list(self._streams.values()):
            if stream.opened:
                self._restart(stream)

    def _restart(self, stream: _Stream) -> None:
        """The same connection of a program's, as another stream."""
        again = None
        if stream.guard and not (stream.to_local or stream.guest_ended or stream.local_ended):
            again = stream.guard.again()
        if again is None:
            self._reset(stream)
            return
        self._drop(stream)
        made = self._streams[self._next] = _Stream(
            self._next, stream.port, stream.local, stream.guard, kept=bytearray(again)
        )
        self._next += 1
        self._untold[made.number] = None
        self._watch(made)

    def _close(self) -> None:
        self._closing = True
        self._end_carrier()
        for stream in list(self._streams.values()):
            self._reset(stream)

    # The carrier

    def _serve_carrier(self, events: int) -> None:
        if self._carrier is None:
            return
        try:
            if events & _WRITE:
                self._write_carrier()
            if events & _READ:
                data = self._carrier.recv(RECEIVE)
                if not data:
                    self._lose_carrier("it ended")
                    return
                for kind, number, position, payload in self._reader.feed(data):
                    self._handle(kind, number, position, payload)
                    if self._carrier is None:
                        return
        except BlockingIOError:
            pass
        except (OSError, SatchelError) as error:
            self._lose_carrier(str(error))

    def _write_carrier(self) -> None:
        assert self._carrier is not None
        while self._outgoing:
            with memoryview(self._outgoing) as view:
                count = self._carrier.send(view[:RECEIVE])
            del self._outgoing[:count]

    def _handle(self, kind: StreamRecord, number: int, position: int, payload: bytes) -> None:
        if (kind is StreamRecord.HELLO) == self._greeted:
            raise StreamRecordInvalid(
                "malformed record of a guest's streams", why="a hello too many"
            )
        if kind is StreamRecord.HELLO:
            self._hello(payload)
            return
        stream = self._streams.get(number)
        if stream is None:
            return
        stream.heard = True
        self._untold[number] = None
        match kind:
            case StreamRecord.DATA:
                self._take(stream, position, payload)
            case StreamRecord.END:
                self._take_end(stream, position)
            case StreamRecord.WINDOW if len(payload) == LIMIT.size:
                self._acknowledge(stream, position, LIMIT.unpack(payload)[0])
            case _:
                self._outgoing += encode(StreamRecord.DONE, number)
                self._reset(stream)

    def _hello(self, payload: bytes) -> None:
        conversation, entries = decode_hello(payload)
        self._greeted = True
        if conversation != self._conversation:
            entries = {}
        for stream in list(self._streams.values()):
            entry = entries.get(stream.number)
            if entry is not None and not entry.reset:
                stream.heard = True
                stream.sent = stream.produced + stream.local_ended
                self._acknowledge(stream, entry.acknowledged, entry.limit)
                stream.sent = stream.acknowledged + stream.end_taken
                stream.end_sent = stream.end_taken
            elif entry is not None or stream.heard:
                self._reset(stream)
            else:
                stream.opened, stream.sent, stream.end_sent = False, 0, False
            self._untold[stream.number] = None

    def _acknowledge(self, stream: _Stream, position: int, limit: int) -> None:
        if not stream.acknowledged <= position <= stream.sent:
            self._give_up(stream)
            return
        count = min(position, stream.produced) - stream.acknowledged
        stream.end_taken = stream.local_ended and position > stream.produced
        del stream.kept[:count]
        stream.acknowledged += count
        stream.limit = max(stream.limit, limit)
        self._watch(stream)
        self._look_whether_done(stream)

    def _take(self, stream: _Stream, position: int, payload: bytes) -> None:
        end = position + len(payload)
        if stream.guest_ended or end <= stream.received:
            return
        if position > stream.received or end > stream.told_limit:
            self._give_up(stream)
            return
        new = payload[stream.received - position :]
        stream.received = end
        self._received += len(new)
        self._turns, self._asked = self._turns + self._asked, False
        if stream.guard:
            new = stream.guard.to_program(new)
        self._moved = time.monotonic()
        if not stream.to_local:
            try:
                new = new[stream.local.send(new) :]
            except BlockingIOError:
                pass
            except OSError:
                self._give_up(stream)
                return
        stream.to_local += new
        self._write_local(stream)

    def _take_end(self, stream: _Stream, position: int) -> None:
        if stream.guest_ended:
            return
        if position != stream.received:
            self._give_up(stream)
            return
        stream.guest_ended = True
        stream.received += 1
        if stream.guard:
            stream.to_local += stream.guard.to_program(b"")
        self._write_local(stream)

    # A program's connection

    def _serve_local(self, stream: _Stream, events: int) -> None:
        if events & _WRITE:
            self._write_local(stream)
        if events & _READ and stream.number in self._streams:
            self._read_local(stream)
        self._untold[stream.number] = None

    def _read_local(self, stream: _Stream) -> None:
        try:
            data = stream.local.recv(PIECE * 4)
        except BlockingIOError:
            return
        except OSError:
            self._give_up(stream)
            return
        stream.local_ended = not data
        if stream.guard and not stream.refused:
            try:
                data = stream.guard.to_guest(data)
            except StreamRefused as refused:
                self._refuse(stream, refused)
                return
        if not stream.refused:
            stream.kept += data
        self._watch(stream)
        self._look_whether_done(stream)

    def _refuse(self, stream: _Stream, refused: StreamRefused) -> None:
        """What a program says is not passed on. It is told why where the guest has said nothing, in
        whose words the answer would stand."""
        if not refused.expected:
            logger.warning("%s: %s", self._name, refused)
            self._refusals += 1
        if stream.opened:
            self._give_up(stream)
            return
        stream.refused = stream.guest_ended = True
        stream.kept.clear()
        stream.to_local += refused.answer
        self._write_local(stream)

    def _write_local(self, stream: _Stream) -> None:
        try:
            while stream.to_local:
                with memoryview(stream.to_local) as view:
                    count = stream.local.send(view[:RECEIVE])
                del stream.to_local[:count]
            if stream.guest_ended and not stream.local_told:
                stream.local_told = True
                stream.local.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._give_up(stream)
            return
        self._watch(stream)
        self._look_whether_done(stream)

    def _watch(self, stream: _Stream) -> None:
        """Have the selector wait for what is of use now."""
        if stream.number not in self._streams:
            return
        wants_more = not stream.local_ended and len(stream.kept) < self._window()
        events = (_READ if wants_more else 0) | (_WRITE if stream.to_local else 0)
        if events == stream.events:
            return
        if not stream.events:
            self._selector.register(stream.local, events, stream)
        elif not events:
            self._selector.unregister(stream.local)
        else:
            self._selector.modify(stream.local, events, stream)
        stream.events = events

    def _look_whether_done(self, stream: _Stream) -> None:
        if stream.number not in self._streams:
            return
        silent = stream.guard and not (stream.opened or stream.produced)
        if (stream.refused or silent) and stream.local_ended and not stream.to_local:
            self._forget(stream)
        elif stream.end_taken and stream.local_told:
            self._outgoing += encode(StreamRecord.DONE, stream.number)
            self._forget(stream)

    def _give_up(self, stream: _Stream) -> None:
        """The program, or the guest, does what cannot be gone on with."""
        if stream.opened and self._greeted:
            self._outgoing += encode(StreamRecord.RESET, stream.number)
        self._reset(stream)

    def _reset(self, stream: _Stream) -> None:
        if stream.number in self._streams:
            self._resets += 1
            with contextlib.suppress(OSError):
                stream.local.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._forget(stream)

    def _forget(self, stream: _Stream) -> None:
        self._drop(stream)
        stream.local.close()

    def _drop(self, stream: _Stream) -> None:
        """Forget the stream; its connection stays open."""
        del self._streams[stream.number]
        self._untold.pop(stream.number, None)
        if stream.events:
            self._selector.unregister(stream.local)

    # What is to be said

    def _window(self) -> int:
        each = ALL_WINDOWS // max(1, len(self._streams))
        return min(MOST_WINDOW, max(LEAST_WINDOW, each))

    def _limit(self, stream: _Stream) -> int:
        """Up to where the guest may send. It never goes back."""
        passed_on = stream.received - len(stream.to_local)
        return max(stream.told_limit, passed_on + self._window())

    def _tell(self) -> None:
        """Each stream a piece in its turn, as long as the carrier is not full."""
        if self._carrier is None:
            return
        while self._greeted and self._untold and len(self._outgoing) < CARRIER_BYTES:
            number = next(iter(self._untold))
            del self._untold[number]
            if (stream := self._streams.get(number)) and self._tell_one(stream):
                self._untold[number] = None
        try:
            self._write_carrier()
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose_carrier(str(error))
            return
        events = _READ | (_WRITE if self._outgoing or self._untold else 0)
        if events != self._carrier_events:
            self._selector.modify(self._carrier, events, self)
            self._carrier_events = events

    def _tell_one(self, stream: _Stream) -> bool:
        """Whether there is more to say of it at once."""
        number, limit = stream.number, self._limit(stream)
        if stream.refused or (stream.guard and not (stream.opened or stream.produced)):
            return False
        if not stream.opened:
            stream.opened, stream.told_limit = True, limit
            self._outgoing += encode(StreamRecord.OPEN, number, limit, port=stream.port)
        if (
            stream.received != stream.told_received
            or limit - stream.told_limit >= self._window() // 4
        ):
            stream.told_received, stream.told_limit = stream.received, limit
            self._outgoing += encode_window(number, stream.received, limit)
        start = stream.sent - stream.acknowledged
        piece = bytes(stream.kept[start : start + min(PIECE, max(0, stream.limit - stream.sent))])
        if piece:
            self._outgoing += encode(StreamRecord.DATA, number, stream.sent, piece)
            stream.sent += len(piece)
            self._sent += len(piece)
            self._asked = True
            self._moved = time.monotonic()
        elif stream.local_ended and not stream.end_sent and stream.sent == stream.produced:
            self._outgoing += encode(StreamRecord.END, number, stream.sent)
            stream.sent += 1
            stream.end_sent = True
        return bool(piece)
