# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The socket of one service at which replicas at surrogates reach its keeper.

A client lends it to a surrogate, and no other service's: who reaches it may do what a guest of that
service may, and nothing else. A surrogate is a stranger, so all that it says is checked.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from guestshares import Call, CallKeeper, DistantLine
from guestshares.messages import (
    EXPECT,
    NO,
    RECALL,
    SESSION,
    YES,
    CallHello,
    ClaimLead,
    CompletedCalls,
    SentHandoff,
    UnsentCall,
    YieldLead,
    decode,
    encode_done,
    encode_first,
    refusal,
    welcome,
)
from satchel.errors import SatchelError
from satchel.inflight import InflightRequests
from wire import ConversationListener, Duplex, Reply

logger = logging.getLogger(__name__)

CONVERSATIONS = 16
"""Replicas that may ask at once."""

GONE_SECONDS = 120.0
"""For how long a replica that is not connected is waited for. After that it begins anew, and asks
again what it has no answer to."""

UNDER_WAY = 4096
"""Calls of one replica that may have no answer yet."""

UNDER_WAY_BYTES = 64 << 20
"""Bytes of these and of their replies: what is asked in an operation that is not logged is kept."""

_GUEST_CHECK_SECONDS = 10.0


@dataclass
class _Guest:
    """One replica. fences: what its node says is heard no more; silent: how often it was looked at
    without a connection; unsent: what is part of the handoff that is to follow."""

    conversation: str
    keeper: DistantLine
    duplex: Duplex
    backlog: InflightRequests
    fences: Callable[[bool], None]
    silent: int = 0
    unsent: list[UnsentCall] = field(default_factory=list)
    unsent_bytes: int = 0

    def recall(self, yielded: Callable[[], None]) -> None:
        self.duplex.post(RECALL, lambda reply: yielded(), lambda error: None)

    def fence(self, *, handed_over: bool = False) -> None:
        self.fences(handed_over)

    def session(self, told: Callable[[bytes], None]) -> None:
        self.duplex.post(SESSION, told, lambda error: None)

    def expect(self, session: bytes) -> None:
        self.duplex.post(EXPECT + session, lambda reply: None, lambda error: None)


class CallDoor:
    """See the module. Thread-safe."""

    def __init__(
        self,
        path: Path,
        keeper: CallKeeper,
        leads: Callable[[], bool] = lambda: False,
        fence: Callable[[bool], None] = lambda handed_over: None,
    ) -> None:
        """Listen. The keeper stays the caller's. leads: whether a writable grant of who reaches
        this socket counts now; fence: has home go on without its node, which has handed over or has
        not. Raises what ConversationListener does."""
        self._keeper, self._leads, self._fence = keeper, leads, fence
        self._lock = threading.Lock()
        self._guests: dict[str, _Guest] = {}  # by conversation, the oldest first
        self._closing = threading.Event()
        self._listener = ConversationListener(path, self._welcome)
        self._thread = threading.Thread(target=self._look, name=f"at {path.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End every conversation."""
        self._closing.set()
        self._thread.join()
        self._listener.close()
        with self._lock:
            guests, self._guests = list(self._guests.values()), {}
        for guest in guests:
            self._end(guest, "home is being stopped")

    def callers(self) -> set[int]:
        """Return the processes from which the last connections of its replicas came."""
        with self._lock:
            return {guest.duplex.caller for guest in self._guests.values()}

    def end_guests_of(self, processes: Collection[int]) -> None:
        """Hear no more of the replicas that came through these processes."""
        with self._lock:
            ended = [g for g in self._guests.values() if g.duplex.caller in processes]
            for guest in ended:
                del self._guests[guest.conversation]
        for guest in ended:
            guest.fence()
            self._end(guest, "its client was unpaired")

    def _welcome(self, hello: bytes) -> tuple[bytes, Duplex | None, int]:
        try:
            said = CallHello.unpack(hello)
        except SatchelError as error:
            return refusal(str(error)), None, 0
        surplus = None
        with self._lock:
            if self._closing.is_set():
                return refusal("home is being stopped"), None, 0
            guest = self._guests.get(said.conversation)
            if guest is None and said.received:
                return refusal("home does not know this conversation"), None, 0
            if guest is None:
                guest = self._guests[said.conversation] = self._begin(said)
                if len(self._guests) > CONVERSATIONS:
                    surplus = self._guests.pop(next(iter(self._guests)))
        if surplus:
            self._end(surplus, "too many replicas ask")
        return welcome(guest.duplex.pause()), guest.duplex, said.received

    def _begin(self, said: CallHello) -> _Guest:
        duplex = Duplex(said.replica, lambda payload, reply: self._arrived(guest, payload, reply))
        keeper = self._keeper.elsewhere(
            lambda done: duplex.post(encode_done(done)), granted=self._leads
        )
        backlog = InflightRequests(UNDER_WAY, UNDER_WAY_BYTES)
        guest = _Guest(said.conversation, keeper, duplex, backlog, self._fence)
        return guest

    def _arrived(self, guest: _Guest, payload: bytes, reply: Reply | None) -> None:
        """Raises SatchelError for what is no message; the other side is told."""
        said = decode(payload)
        if isinstance(said, Call):
            self._ask(guest, said, reply)
        elif isinstance(said, YieldLead):
            guest.keeper.yielded()
        elif isinstance(said, UnsentCall):
            self._keep(guest, said)
        elif reply and isinstance(said, SentHandoff):
            unsent, guest.unsent, guest.unsent_bytes = guest.unsent, [], 0
            restored = functools.partial(self._restored, reply)
            guest.keeper.hand_over(unsent, said.session, restored)
        elif reply and isinstance(said, CompletedCalls):
            reply(YES if guest.keeper.told(said.done) else NO)
        elif reply and isinstance(said, ClaimLead) and self._leads():
            granted = functools.partial(self._granted, reply)
            guest.keeper.lead(guest, said.operation, granted)
        elif reply:
            reply(encode_first(0))

    def _keep(self, guest: _Guest, unsent: UnsentCall) -> None:
        guest.unsent.append(unsent)
        guest.unsent_bytes += len(unsent.request.message) + len(unsent.reply)
        if guest.unsent_bytes > UNDER_WAY_BYTES or not self._leads():
            guest.duplex.end("it hands too much over")

    @staticmethod
    def _restored(reply: Reply, taken: bool) -> None:
        reply(YES if taken else NO)

    @staticmethod
    def _granted(reply: Reply, first: int, session: bytes) -> None:
        reply(encode_first(first, session))

    def _ask(self, guest: _Guest, call: Call, reply: Reply | None) -> None:
        if reply:
            cost = call.request.cost
            if not guest.backlog.asked(cost):
                guest.duplex.end("it asks too much at once")
                return
            guest.keeper.ask(call, functools.partial(self._answered, guest, reply, cost))

    @staticmethod
    def _answered(guest: _Guest, reply: Reply, cost: int, answer: bytes) -> None:
        guest.backlog.answered(cost)
        reply(answer)

    def _look(self) -> None:
        """Give up those that do not come back."""
        while not self._closing.wait(_GUEST_CHECK_SECONDS):
            with self._lock:
                for guest in self._guests.values():
                    guest.silent = 0 if guest.duplex.connected else guest.silent + 1
                gone = [
                    guest
                    for guest in self._guests.values()
                    if guest.silent * _GUEST_CHECK_SECONDS > GONE_SECONDS or guest.duplex.ended
                ]
                for guest in gone:
                    del self._guests[guest.conversation]
            for guest in gone:
                self._end(guest, "nothing is heard of it")

    def _end(self, guest: _Guest, why: str) -> None:
        guest.duplex.end(why)
        guest.keeper.close()
