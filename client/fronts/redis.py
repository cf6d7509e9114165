# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The front of `redis`: each command of an unmodified Redis client is an operation.

An operation has a connection of its own to the service. What a program's connection is (its
database, its protocol) is kept here and comes before each of its commands; a transaction is one
operation, from MULTI to EXEC. What needs a connection that stays there is refused, and what would
wait there, as nothing else is executed meanwhile.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import BinaryIO

from client.session.session import Session
from replay import MAX_PAYLOAD
from replay.adapters import redis
from satchel.errors import SatchelError, UsageError
from wire import StreamPort

LISTENING = frozenset(b"MONITOR PSUBSCRIBE PSYNC SSUBSCRIBE SUBSCRIBE SYNC WATCH".split())
WAITING = frozenset(
    b"BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN WAIT WAITAOF".split()
)
CLIENT_STATE = frozenset(b"CACHING NO-EVICT NO-TOUCH REPLY TRACKING".split())
NOTHING_TO_END = frozenset(b"PUNSUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE".split())

_OK = b"+OK\r\n"
_QUEUED = b"+QUEUED\r\n"
_ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
_CARRY = b"carry it: redis-carried has everything"


def redis_front(session: Session, port: int = 0) -> StreamPort:
    """See client.fronts."""
    return StreamPort("redis", port, lambda connection: _talk(session, connection))


class Conversation:
    """One program's connection. Used by one thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings: dict[bytes, Sequence[bytes]] = {}
        self._queued: list[Sequence[bytes]] | None = None
        self._queued_bytes = 0
        self._aborted = False

    def answer(self, words: Sequence[bytes]) -> bytes:
        """The reply to a command. Raises what the session raises; what was queued is kept then."""
        name = words[0].upper()
        if self._queued is not None:
            return self._in_transaction(name, words)
        if refusal := _refusal(name, words):
            return refusal
        if reply := self._of_itself(name, words):
            return reply
        reply = self._operate(words)
        if (setting := _setting(name, words)) and not reply.startswith((b"-", b"!")):
            self._settings.pop(setting, None)
            self._settings[setting] = words
        return reply

    def _of_itself(self, name: bytes, words: Sequence[bytes]) -> bytes:
        """The reply to what only concerns this connection; empty for what is an operation."""
        if name == b"MULTI" and len(words) == 1:
            self._queued, self._queued_bytes, self._aborted = [], 0, False
            return _OK
        if name in (b"EXEC", b"DISCARD"):
            return b"-ERR %b without MULTI\r\n" % name
        if name == b"RESET":
            self._settings.clear()
            return b"+RESET\r\n"
        return _OK if name == b"UNWATCH" else b""

    def _in_transaction(self, name: bytes, words: Sequence[bytes]) -> bytes:
        assert self._queued is not None
        if name == b"DISCARD":
            self._queued = None
            return _OK
        if name == b"EXEC":
            return self._execute()
        if name == b"RESET":
            self._queued = None
            self._settings.clear()
            return b"+RESET\r\n"
        if name == b"MULTI":
            return b"-ERR MULTI calls can not be nested\r\n"
        refusal = b"" if name in WAITING else _refusal(name, words)  # in one, they do not wait
        if not refusal and name in (b"AUTH", b"HELLO"):
            refusal = b"-ERR Command not allowed inside a transaction\r\n"
        self._queued_bytes += sum(map(len, words)) + 16 * len(words)
        if not refusal and self._queued_bytes > MAX_PAYLOAD // 2:
            refusal = b"-ERR the transaction is too large\r\n"
        if refusal:
            self._aborted = True
            self._queued.clear()
            return refusal
        self._queued.append(words)
        return _QUEUED

    def _execute(self) -> bytes:
        queued, self._queued = self._queued, None
        assert queued is not None
        if self._aborted:
            return _ABORTED
        reply = self._operate([b"MULTI"], *queued, [b"EXEC"])
        for words, said in zip(queued, redis.elements(reply), strict=False):
            setting = _setting(words[0].upper(), words)
            if setting and said == _OK:
                self._settings[setting] = words
        return reply

    def _operate(self, *commands: Sequence[bytes]) -> bytes:
        payload = redis.encode(*self._settings.values(), *commands)
        return self._session.call(lambda *_: payload).payload


def _setting(name: bytes, words: Sequence[bytes]) -> bytes:
    """Which of a connection's settings that command is; empty for one that is none."""
    if name == b"CLIENT":
        return b"SETNAME" if [word.upper() for word in words[1:2]] == [b"SETNAME"] else b""
    return name if name in redis.SETTING else b""


def _refusal(name: bytes, words: Sequence[bytes]) -> bytes:
    """What a command is told that cannot be kept; empty for one that can be."""
    second = words[1].upper() if len(words) > 1 else b""
    if name in LISTENING or (name == b"CLIENT" and second in CLIENT_STATE):
        shown = name + b" " + second if name == b"CLIENT" else name
        return b"-ERR %b needs a connection that stays, and here is none; %b\r\n" % (shown, _CARRY)
    blocks = name in (b"XREAD", b"XREADGROUP") and b"BLOCK" in (word.upper() for word in words)
    if name in WAITING or blocks:
        return b"-ERR %b would let everybody wait, and cannot be replayed; %b\r\n" % (name, _CARRY)
    if name in NOTHING_TO_END:
        return b"-ERR %b: nothing is subscribed to here; %b\r\n" % (name, _CARRY)
    return b""


def _talk(session: Session, connection: socket.socket) -> None:
    with connection.makefile("rb") as stream:
        conversation = Conversation(session)
        while True:
            try:
                words = _next(stream)
            except UsageError as error:
                connection.sendall(_error(error))
                return
            if words is None:
                return
            if words[0].upper() == b"QUIT":
                connection.sendall(_OK)
                return
            try:
                connection.sendall(conversation.answer(words))
            except SatchelError as error:
                connection.sendall(_error(error))


def _next(stream: BinaryIO) -> list[bytes] | None:
    """The next command; None at the end, and where a web page speaks."""
    words = redis.read_command(stream)
    page = words is not None and words[0].upper().startswith((b"POST", b"HOST:"))
    return None if page else words


def _error(error: SatchelError) -> bytes:
    return b"-ERR %b\r\n" % " ".join(str(error).split()).encode()
