# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a node joins a share, and stays in it while its connections come and go.

The hellos of a connection: docs/formats/share-messages.md. What holds the conversation is handed
in, because it is of another floor: `wire.Caller`.

    membership = Membership(partial(wire.Caller, path), share="photos", name="mobile")
    membership.join(timeout=10)
    node = ...(membership.hub)
"""

from __future__ import annotations

import errno
import logging
import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from satchel.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    StateError,
    UnavailableError,
)
from satchel.polling import POLL_SECONDS
from shares.node.hub import codec
from shares.node.hub.calls import Wait
from shares.node.hub.hub import Hub
from shares.protocol import NodeId

log = logging.getLogger(__name__)

VERSION = 13

PATIENCE_SECONDS = 30.0
"""Without an answer, until a call fails."""


_REFUSALS: dict[int, type[SatchelError]] = {
    errno.ENOENT: NotFoundError,
    errno.EEXIST: ConflictError,
    errno.EAGAIN: UnavailableError,
}

Reply = Callable[[bytes], None]


class LeaseOver(StateError):
    """Home has dropped this node. The node holds nothing any more and must join again."""


@dataclass(frozen=True)
class JoinRequest:
    """A node's hello. token: what home knows the node by, "" for a new one. conversation: a word
    for it; received: frames that the node has taken in it."""

    version: int
    share: str
    name: str
    token: str
    conversation: str
    received: int

    def pack(self) -> bytes:
        return codec.encode_call("join", [self])

    @classmethod
    def unpack(cls, hello: bytes) -> JoinRequest:
        """Raises IntegrityError."""
        name, values = codec.decode_call(hello)
        if name != "join" or len(values) != 1 or not codec.is_call(hello):
            raise IntegrityError("malformed hello", why=name[:40])
        join = codec.typed(values[0], cls)
        assert isinstance(join, JoinRequest)
        if join.version != VERSION or not 0 <= join.received < 1 << 63:
            raise IntegrityError("malformed hello", why=f"it is of version {join.version}")
        return join


@dataclass(frozen=True)
class JoinReply:
    """Home's hello. lease: seconds; received: frames that home has taken in the conversation."""

    node: int
    token: str
    lease: float
    received: int

    def pack(self) -> bytes:
        return codec.encode_result(self)

    @classmethod
    def unpack(cls, hello: bytes) -> JoinReply:
        """Raises the OSError that home refused with, and IntegrityError."""
        joined = codec.decode_reply(hello, cls)
        assert isinstance(joined, JoinReply)
        return joined


def await_reply(
    post: Callable[[Reply, Callable[[SatchelError], None]], None],
    require: Callable[[], None],
    arrived: Reply | None = None,
) -> bytes:
    """Post a request of a conversation, and wait for its reply.

    post: is given who gets the reply, and who gets why there is none. require: is called every
    POLL_SECONDS meanwhile; what it raises ends the wait. arrived: as for `Conversation.ask`.
    """
    found: queue.SimpleQueue[bytes | SatchelError] = queue.SimpleQueue()

    def take(reply: bytes) -> None:
        try:
            if arrived is not None:
                arrived(reply)
        finally:
            found.put(reply)

    post(take, found.put)
    while True:
        try:
            reply = found.get(timeout=POLL_SECONDS)
        except queue.Empty:
            require()
            continue
        if isinstance(reply, SatchelError):
            raise reply
        return reply


class ConversationOwner(Protocol):
    """What `wire.Caller` asks of who holds a conversation."""

    def greet(self, received: int) -> bytes: ...
    def welcomed(self, hello: bytes) -> int: ...
    def arrived(self, payload: bytes, reply: Reply | None) -> None: ...
    def ended(self, why: str) -> None: ...


class Conversation(Protocol):
    """`wire.Duplex`."""

    @property
    def connected(self) -> bool: ...
    def ask(
        self,
        payload: bytes,
        *,
        patience: float | None = None,
        arrived: Callable[[bytes], None] | None = None,
    ) -> bytes: ...
    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[SatchelError], None] | None = None,
    ) -> None: ...
    def ping(self, answered: Callable[[], None]) -> None: ...
    def wait(self) -> Wait: ...


class Caller(Protocol):
    """`wire.Caller`."""

    @property
    def duplex(self) -> Conversation: ...
    def close(self) -> None: ...


class Membership:
    """A node's place in a share, and its channel to home. Thread-safe.

    token: what a membership after this one is joined with, so that home knows the node again
    """

    def __init__(
        self,
        call: Callable[[ConversationOwner], Caller],
        share: str,
        name: str,
        *,
        token: str = "",
        patience: float | None = PATIENCE_SECONDS,
        over: Callable[[str], None] = lambda why: None,
    ) -> None:
        """Begin to call. patience: seconds without an answer until a call fails, None: endless.

        over: is called, on a thread of its own, when the membership is over: the lease was, or home
        does not know the node any more
        """
        self.share, self.name, self.token = share, name, token
        self._patience = patience
        self.over = over
        self._conversation = secrets.token_hex(8)
        self._joined: JoinReply | None = None
        self._refusal: SatchelError | None = None
        self._settled = threading.Event()
        self._answer: Callable[[bytes, Reply], None] = _busy
        self._asking, self._counting = 0, threading.Lock()
        self._caller = call(self)

    def join(self, timeout: float) -> Hub:
        """Wait until home has taken the node in. Raises what home refuses with (NotFoundError: no
        such share), and UnavailableError; the membership is over then."""
        if not self._settled.wait(timeout):
            self.close()
            raise UnavailableError(f"cannot join the share {self.share}", why="no answer of home's")
        if self._joined is None:
            self.close()
            raise self._refusal or UnavailableError(f"cannot join the share {self.share}")
        return self.hub

    @property
    def hub(self) -> Hub:
        """Home, once the node has joined."""
        if self._joined is None:
            raise StateError(f"the share {self.share} is not joined")
        return Hub(self, NodeId(self._joined.node))

    @property
    def refusal(self) -> SatchelError | None:
        """Why home does not take the node in; NotFoundError: for good, there is no such share."""
        return self._refusal

    def close(self) -> None:
        """Leave. What is asked raises OSError from now on."""
        self._caller.close()

    # The channel.

    @property
    def connected(self) -> bool:
        return self._caller.duplex.connected

    @property
    def asking(self) -> int:
        """How many requests of programs wait for an answer of home's."""
        return self._asking

    def request(self, payload: bytes, arrived: Callable[[bytes], None] | None = None) -> bytes:
        with self._counting:
            self._asking += 1
        try:
            return self._caller.duplex.ask(payload, patience=self._patience, arrived=arrived)
        except SatchelError as error:
            log.warning("a call of the share %s failed: %s", self.share, error)
            raise OSError(errno.EIO, str(error)) from error
        finally:
            with self._counting:
                self._asking -= 1

    def post(
        self,
        payload: bytes,
        arrived: Callable[[bytes], None] | None = None,
        failed: Callable[[OSError], None] | None = None,
    ) -> None:
        def say(error: SatchelError) -> None:
            if failed:  # who posts has a lock, and may be on this very thread
                problem = OSError(errno.EIO, str(error))
                threading.Thread(target=failed, args=(problem,), name="failed post").start()

        self._caller.duplex.post(payload, arrived, say)

    def ping(self, heard: Callable[[], None]) -> None:
        self._caller.duplex.ping(heard)

    def wait(self) -> Wait:
        return self._caller.duplex.wait()

    def serve(self, answer: Callable[[bytes, Reply], None]) -> None:
        self._answer = answer

    # What the caller asks.

    def greet(self, received: int) -> bytes:
        join = JoinRequest(VERSION, self.share, self.name, self.token, self._conversation, received)
        return join.pack()

    def welcomed(self, hello: bytes) -> int:
        try:
            joined = JoinReply.unpack(hello)
        except OSError as error:
            kind = _REFUSALS.get(error.errno or 0, LeaseOver)
            what = f"home does not take this node into the share {self.share}"
            self._refusal = kind(what, why=error.strerror or "")
            self._settled.set()
            raise self._refusal from error
        self._joined, self.token = joined, joined.token
        self._settled.set()
        return joined.received

    def arrived(self, payload: bytes, reply: Reply | None) -> None:
        self._answer(payload, reply or (lambda _: None))

    def ended(self, why: str) -> None:
        self._settled.set()
        self.over(why)


def _busy(payload: bytes, reply: Reply) -> Any:
    """Before anybody listens, there is nothing that home could ask about."""
    reply(codec.encode_refusal(OSError(errno.EAGAIN, "nobody listens here yet")))
