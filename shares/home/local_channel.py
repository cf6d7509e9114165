# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A node and a home in one process: a conversation without a socket.

    membership = Membership(partial(LocalCaller, reception.welcome), "photos", "mobile")

It keeps the contract of `wire.Duplex`: what is said arrives in order, none of it is lost or
repeated, and a connection may be cut and made again. Payloads are the same bytes. What waits for
the other side has no limit here.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from satchel.errors import SatchelError, StateError, UnavailableError
from shares.home.channel import Arrived, Channel
from shares.node import Ends, await_reply

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.02
"""Between the attempts to connect."""

Welcome = Callable[[bytes], "tuple[bytes, Channel | None, int]"]
"""`Reception.welcome`."""


class _Kind(enum.Enum):
    MESSAGE = enum.auto()
    REQUEST = enum.auto()
    REPLY = enum.auto()
    FAILURE = enum.auto()


@dataclass(frozen=True)
class _Said:
    kind: _Kind
    number: int
    payload: bytes


_Call = tuple[Callable[[bytes], None], Callable[[SatchelError], None]]


class _Connection:
    """Between two ends, until it is cut."""

    def __init__(self, *ends: LocalChannel) -> None:
        self._ends = ends
        self.over = False

    def other(self, end: LocalChannel) -> LocalChannel:
        return self._ends[1] if end is self._ends[0] else self._ends[0]

    def cut(self) -> None:
        self.over = True
        for end in self._ends:
            end.detach(self)


class LocalChannel:
    """One end of such a conversation. Thread-safe.

    received: payloads that were taken from the other end; heard: when the last one was
    """

    def __init__(self, name: str, arrived: Arrived) -> None:
        """What is posted waits for `converse`, of either end. name: of the other one."""
        self.name = name
        self.received = 0
        self.heard = self._gone_since = monotonic()
        self._arrived = arrived
        self._changed = threading.Condition()
        self._reading = threading.Lock()
        self._connection: _Connection | None = None
        self._ended: str | None = None
        self._unsaid: deque[_Said] = deque()
        self._pongs: deque[Callable[[], None]] = deque()
        self._calls: dict[int, _Call] = {}
        self._taken = 0  # by the other end
        self._numbers = itertools.count(1)

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def ended(self) -> str | None:
        return self._ended

    def ask(
        self,
        payload: bytes,
        *,
        patience: float | None = None,
        arrived: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """As `wire.Duplex.ask`. Raises UnavailableError."""
        return await_reply(
            lambda take, failed: self.post(payload, take, failed),
            lambda: self._require_patience(patience),
            arrived,
        )

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None:
        """As `Channel.post`."""
        number = next(self._numbers)
        kind = _Kind.MESSAGE if arrived is None else _Kind.REQUEST
        call = None if arrived is None else (arrived, failed or _nothing)
        if not self._say(_Said(kind, number, payload), call) and failed is not None:
            failed(self._over())

    def ping(self, answered: Callable[[], None]) -> None:
        """As `wire.Duplex.ping`: the other end has heard it when both have a connection."""
        connection = self._connection
        if connection is not None:
            connection.other(self).pong(answered, connection)

    def pong(self, answered: Callable[[], None], connection: _Connection) -> None:
        """The other end hears at once, ahead of what waits, that this one has heard it."""
        with self._changed:
            if not connection.over:
                self.heard = monotonic()
                self._pongs.append(answered)
                self._changed.notify_all()

    def cut(self) -> None:
        """End the connection, if there is one. The conversation goes on with another."""
        connection = self._connection
        if connection is not None:
            connection.cut()

    def pause(self) -> int:
        """As `Channel.pause`."""
        self.cut()
        with self._reading:
            return self.received

    def end(self, why: str) -> None:
        """As `Channel.end`. Who waits for an answer gets UnavailableError."""
        with self._changed:
            if self._ended is None:
                self._ended = why
            calls, self._calls = self._calls, {}
            self._unsaid.clear()
        self.cut()
        for _, failed in calls.values():
            failed(self._over())

    def converse(self, other: LocalChannel, taken: int) -> None:
        """Be connected with the other end. Returns when the connection is cut.

        taken: payloads of this end's that the other one says it has taken. Raises StateError where
        these are others than were given: a home that began again has forgotten them. The
        conversation is over then.
        """
        if taken != self._taken:
            why = f"it has taken {taken} payloads of {self._taken}"
            self.end(why)
            raise StateError(f"{self.name} cannot go on", why=why)
        connection = _Connection(self, other)
        for end in (self, other):
            with end._changed:
                end._connection = connection
        if self.ended is not None or other.ended is not None:
            connection.cut()
        reader = threading.Thread(
            target=other._read, args=(self, connection), name=other.name, daemon=True
        )
        reader.start()
        self._read(other, connection)

    def detach(self, connection: _Connection) -> None:
        """That connection is over."""
        with self._changed:
            if self._connection is connection:
                self._connection = None
                self._gone_since = monotonic()
                self._pongs.clear()
            self._changed.notify_all()

    def _over(self) -> UnavailableError:
        what = f"the conversation with {self.name} is over"
        return UnavailableError(what, why=self._ended or "")

    def _say(self, said: _Said, call: _Call | None = None) -> bool:
        """Whether it is said, and `call` settled some time: not where this end is over."""
        with self._changed:
            if self._ended is not None:
                return False
            if call is not None:
                self._calls[said.number] = call
            self._unsaid.append(said)
            self._changed.notify_all()
            return True

    def _next(self, connection: _Connection) -> _Said | Callable[[], None] | None:
        """What this end says next over the connection, or the answer to a ping; None when that is
        over."""
        with self._changed:
            self._changed.wait_for(lambda: connection.over or self._pongs or self._unsaid)
            if connection.over:
                return None
            if self._pongs:
                return self._pongs.popleft()
            self._taken += 1
            return self._unsaid.popleft()

    def _read(self, other: LocalChannel, connection: _Connection) -> None:
        with self._reading:
            while (said := other._next(connection)) is not None:
                self.heard = monotonic()
                try:
                    self._take(said) if isinstance(said, _Said) else said()
                except Exception:  # of who takes it: the others are to be heard all the same
                    log.exception("%s", self.name)

    def _take(self, said: _Said) -> None:
        self.received += 1
        if said.kind in (_Kind.REPLY, _Kind.FAILURE):
            with self._changed:
                call = self._calls.pop(said.number, None)
            if call is None:  # this end is over
                return
            arrived, failed = call
            if said.kind is _Kind.REPLY:
                arrived(said.payload)
            else:
                failed(UnavailableError(f"{self.name} failed", why=said.payload.decode()))
            return
        try:
            self._arrived(
                said.payload, self._replying(said) if said.kind is _Kind.REQUEST else None
            )
        except Exception as error:
            self._say(_Said(_Kind.FAILURE, said.number, repr(error).encode()))
            raise

    def _replying(self, said: _Said) -> Callable[[bytes], None]:
        def reply(payload: bytes) -> None:
            self._say(_Said(_Kind.REPLY, said.number, payload))

        return reply

    def _require_patience(self, patience: float | None) -> None:
        if patience is None or self.connected:
            return
        gone = monotonic() - self._gone_since
        if gone > patience:
            raise UnavailableError(f"{self.name} is not reached", why=f"for {gone:.0f} s")


class LocalCaller:
    """Holds a node's end of a conversation with a home in this process, and connects again when
    that breaks: as `wire.Caller` does with one at a socket."""

    def __init__(self, welcome: Welcome, ends: Ends, name: str = "home") -> None:
        """Begin at once. welcome: of the reception whose channels are LocalChannels; it may raise
        UnavailableError, and is asked again then."""
        self._welcome, self._ends = welcome, ends
        self.duplex = LocalChannel(name, ends.arrived)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"call {name}", daemon=True)
        self._thread.start()

    def close(self, why: str = "it was closed here") -> None:
        """End the conversation; returns when the thread has ended, unless it is this one."""
        self._closing.set()
        self.duplex.end(why)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while self.duplex.ended is None:
            try:
                hello, home, _ = self._welcome(self._ends.greet(self.duplex.received))
                taken = self._ends.welcomed(hello)
                assert isinstance(home, LocalChannel), "a reception of local channels"
                self.duplex.converse(home, taken)
            except UnavailableError as error:
                log.info("%s: %s", self.duplex.name, error)
            except SatchelError as error:
                self.duplex.end(str(error))
            if self.duplex.ended is None:
                self._closing.wait(AGAIN_SECONDS)
        self._ends.ended(self.duplex.ended)


def _nothing(_: object) -> None:
    pass
