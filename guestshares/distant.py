# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The way from a guest here to home's keeper of its calls, through a socket that a client lends.

The conversation outlives its connections, so a client that moves is not noticed. When home has
lost it, another one is begun, and what has no answer is asked again: a call that was done meanwhile
is in the record, by its name. What holds a conversation is handed in, because it is of another
floor: `wire.Caller`.
"""

from __future__ import annotations

import errno
import functools
import itertools
import logging
import secrets
import threading
from collections.abc import Callable

from guestshares.calls import Answered, Call
from guestshares.counts import CallName
from guestshares.kernel import OUT_HEADER, Opcode, error_reply
from guestshares.messages import (
    EXPECT,
    SESSION,
    SESSION_LIMIT,
    YES,
    CallHello,
    ClaimLead,
    CompletedCalls,
    SentHandoff,
    UnsentCall,
    YieldLead,
    decode_done,
    decode_first,
    encode,
    encode_call,
    welcomed,
)
from satchel.errors import SatchelError
from satchel.ids import ReplicaId
from shares.node import Caller, ConversationOwner

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""Before another conversation is begun."""

TOLD_BYTES = 32 << 20
"""Replies that home has told and nobody has asked for yet; what is more is asked for."""


class DistantKeeper:
    """See the module, and Keeper. While home is not reached, what a guest asks waits.

    begins: is called before another conversation is begun: home knows nothing of the last one;
    recalled: home wants this surrogate to hand over; it is handed what says that it has; session:
    says what this surrogate's session is now; expected: the session that may be handed over to this
    one. None of them waits.
    """

    def __init__(
        self,
        call: Callable[[ConversationOwner], Caller],
        replica: ReplicaId,
        failed: type[SatchelError],
    ) -> None:
        """Begin to call. call: begins a conversation; failed: what it says where home could not do
        what was asked of it, and the conversation goes on."""
        self._begin, self._replica, self._refused = call, replica, failed
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._pending: dict[int, tuple[Call, Answered]] = {}  # in the order in which it was asked
        self._first: Call | None = None
        self._operation = 0
        self._done: dict[int, dict[CallName, bytes]] = {}
        self._done_bytes = 0
        self._closing = threading.Event()
        self.begins: Callable[[], None] = lambda: None
        self.recalled: Callable[[Callable[[], None]], None] = lambda yielded: yielded()
        self.session: Callable[[], bytes] = lambda: b""
        self.expected: Callable[[bytes], None] = lambda session: None
        self._caller = self._call()

    def ask(self, call: Call, answered: Answered) -> None:
        with self._lock:
            reply = self._told(call)
        if reply is not None:
            answered(reply)
            return
        with self._lock:
            if call.request.opcode == Opcode.INIT:
                self._first = call
            number = next(self._numbers)
            self._pending[number] = call, answered
            self._post(number, call)

    def _told(self, call: Call) -> bytes | None:
        """The reply, if home has told it before it was asked."""
        name = call.name
        if name is None:
            return None
        if name.operation > self._operation:
            self._operation = name.operation
            for operation in [number for number in self._done if number < name.operation]:
                self._done_bytes -= sum(map(len, self._done.pop(operation).values()))
        return self._done.get(name.operation, {}).get(name)

    def tell(self, payload: bytes) -> None:
        """What home says without being asked. Raises ShareMessageInvalid."""
        with self._lock:
            for done in decode_done(payload):
                size = len(done.reply)
                operation = done.name.operation
                if operation >= self._operation and self._done_bytes + size <= TOLD_BYTES:
                    replies = self._done.setdefault(operation, {})
                    if done.name not in replies:
                        replies[done.name] = done.reply
                        self._done_bytes += size

    def told(self) -> tuple[int, ...]:
        """The operations of which home has told something that is not asked for yet."""
        with self._lock:
            return tuple(self._done)

    def tell_done(self, said: CompletedCalls, answered: Callable[[bool], None]) -> None:
        """Tell that, and never wait. answered: whether home takes it; False where it says
        nothing."""
        self._say(said, lambda reply: answered(reply == YES))

    def want_lead(self, first: int, granted: Callable[[int, bytes], None]) -> None:
        """Never waits. granted: from which operation on home lets it lead, 0: it does not; and the
        session of who led before."""
        self._say(ClaimLead(first), lambda reply: granted(*decode_first(reply)))

    def hand_over(
        self, unsent: list[UnsentCall], session: bytes, answered: Callable[[bool], None]
    ) -> None:
        """Say that, behind all that was told; never waits. answered: whether home has all of it."""
        with self._lock:
            for call in unsent:
                self._caller.caller.duplex.post(encode(call))
        self._say(SentHandoff(session), lambda reply: answered(reply == YES))

    def yielded(self) -> None:
        """Say so, behind all that was told."""
        with self._lock:
            self._caller.caller.duplex.post(encode(YieldLead()))

    def _say(
        self, said: ClaimLead | CompletedCalls | SentHandoff, answered: Callable[[bytes], None]
    ) -> None:
        with self._lock:
            duplex = self._caller.caller.duplex
        duplex.post(encode(said), answered, lambda error: answered(b""))

    def interrupt(self, call: Call) -> None:
        """Home goes by its own replica's: all are to be interrupted, or none."""

    def finished(self, operation: int) -> None:
        """Home goes by what its own replica has finished."""

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            caller = self._caller.caller
            self._pending.clear()
        caller.close()

    def _call(self) -> _Conversation:
        return _Conversation(self, self._begin, self._replica)

    def _post(self, number: int, call: Call) -> None:
        self._caller.caller.duplex.post(
            encode_call(call),
            functools.partial(self._arrived, number),
            functools.partial(self._failed, number),
        )

    def _arrived(self, number: int, reply: bytes) -> None:
        with self._lock:
            _, answered = self._pending.pop(number, (None, None))
        if answered is None:
            return
        if len(reply) < OUT_HEADER.size or OUT_HEADER.unpack_from(reply)[0] != len(reply):
            logger.warning("home's keeper sent no reply, but %d bytes", len(reply))
            reply = error_reply(0, errno.EIO)
        answered(reply)

    def _failed(self, number: int, error: SatchelError) -> None:
        """Home cannot do it. Where the conversation is over, the next one asks."""
        if isinstance(error, self._refused):
            logger.warning("%s", error)
            self._arrived(number, error_reply(0, errno.EIO))

    def over(self, why: str) -> None:
        """The conversation of the moment is: begin the next."""
        if self._closing.is_set():
            return
        logger.info("the calls of %s: %s; beginning anew", self._replica, why)
        self.begins()
        if self._closing.wait(AGAIN_SECONDS):
            return
        with self._lock:
            if self._closing.is_set():
                return
            self._caller = self._call()
            first = self._first
            if first and all(call is not first for call, _ in self._pending.values()):
                self._post(next(self._numbers), first)  # its reply is known
            for number, (call, _) in list(self._pending.items()):
                self._post(number, call)


class _Conversation:
    """One conversation. See shares.node.ConversationOwner."""

    def __init__(
        self,
        keeper: DistantKeeper,
        begin: Callable[[ConversationOwner], Caller],
        replica: ReplicaId,
    ) -> None:
        self._keeper, self._replica = keeper, replica
        self._name = f"c-{secrets.token_hex(16)}"
        self.caller = begin(self)

    def greet(self, received: int) -> bytes:
        return CallHello(self._replica, self._name, received).pack()

    def welcomed(self, hello: bytes) -> int:
        return welcomed(hello)

    def arrived(self, payload: bytes, reply: Callable[[bytes], None] | None) -> None:
        """Home tells what its own replica has asked, or asks this one something."""
        if reply is None:
            self._keeper.tell(payload)
        elif payload[:1] == SESSION:
            reply(self._keeper.session()[:SESSION_LIMIT])
        elif payload[:1] == EXPECT:
            self._keeper.expected(payload[1:])
            reply(YES)
        else:
            self._keeper.recalled(lambda: reply(YES))

    def ended(self, why: str) -> None:
        self._keeper.over(why)
