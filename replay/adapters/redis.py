# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What Redis speaks (RESP, or a line of words): one command, one reply, one connection.

An operation is the command and a QUIT behind it. Before it there may be commands that make the
connection what the program's own is (SETTING), and it may be a transaction, from MULTI to EXEC. The
normalised reply is the last one before QUIT's.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from replay.adapters.adapter import Asked
from replay.operations import MAX_PAYLOAD, Operation
from satchel.errors import UsageError

kind = "redis"

MAX_WORDS = 1 << 20
SETTING = frozenset((b"AUTH", b"CLIENT", b"HELLO", b"SELECT"))
"""Commands that say what a connection is; before another one they are not what is operated."""
READS = frozenset(
    b"BITCOUNT BITPOS DBSIZE EXISTS EXPIRETIME GEODIST GEOPOS GEOSEARCH GET GETBIT GETRANGE "
    b"HEXISTS HGET HGETALL HKEYS HLEN HMGET HSCAN HSTRLEN HVALS KEYS LINDEX LLEN LPOS LRANGE MGET "
    b"PEXPIRETIME PTTL SCAN SCARD SDIFF SINTER SISMEMBER SMEMBERS SMISMEMBER SSCAN STRLEN SUNION "
    b"TTL TYPE XLEN XRANGE XREVRANGE ZCARD ZCOUNT ZLEXCOUNT ZMSCORE ZRANGE ZRANGEBYSCORE ZRANK "
    b"ZREVRANGE ZREVRANK ZSCAN ZSCORE".split()
)
"""Commands that change nothing that another one shows."""
_LINE = 64 << 10
_QUIT = b"*1\r\n$4\r\nQUIT\r\n"
_FAREWELL = b"+OK\r\n"
_BROKEN = b"-ERR the service gave no whole answer\r\n"
_LINES = frozenset(b"+-:_,#(")
_STRINGS = frozenset(b"$!=")
_ARRAYS = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
"""Kinds of replies of RESP2 and RESP3: a line, bytes of a length, so many replies."""

_OWN_NUMBER = re.compile(rb"(\$2\r\nid\r\n):\d+")
"""In the reply to HELLO: the connection's number, which counts all that a server ever had."""


def read_command(stream: BinaryIO) -> list[bytes] | None:
    """The words of the next command, at least one; None at the end. Raises UsageError for what is
    no command."""
    while line := stream.readline(_LINE):
        if not line.endswith(b"\n"):
            raise UsageError("a line is not whole")
        if line[:1] != b"*":
            words = line.split()
        else:
            words = [_word(stream) for _ in range(_number(line[1:], MAX_WORDS))]
        if words:
            return words
    return None


def encode(*commands: Sequence[bytes]) -> bytes:
    """The payload of an operation: one command; before it, those that make the connection what it
    has to be; or a transaction from MULTI to EXEC, behind such ones."""
    parts = []
    for words in commands:
        parts.append(b"*%d\r\n" % len(words))
        parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join([*parts, _QUIT])


def request(asked: Asked, *, number: int, time_ns: int, seed: int) -> bytes:
    """See `Adapter.request`: the body is a command."""
    return encode(asked.payload().split())


def label(operation: Operation) -> str:
    """See `Adapter.label`: the command's first word; MULTI of a transaction."""
    names = _names(operation.payload)
    own = next((name for name in names if name not in SETTING), names[-1] if names else b"")
    return own.decode("ascii", "replace")


def changes_nothing(operation: Operation, keys: Sequence[str]) -> bool:
    """Whether it is a command that only reads, where all keys are declared: `/`."""
    return "/" in keys and label(operation).encode() in READS


def normalise(response: bytes, operation: Operation) -> bytes:
    """See `Adapter.normalise`."""
    names = _names(operation.payload)
    if not response.endswith(_FAREWELL) or not names:
        return _BROKEN
    replies = [reply for _, reply in zip(names, replies_in(response), strict=False)]
    if sum(map(len, replies)) + len(_FAREWELL) != len(response) or len(replies) < len(names):
        return _BROKEN
    reply = replies[-1]
    return _OWN_NUMBER.sub(rb"\1:1", reply) if names[-1] == b"HELLO" else reply


def replies_in(data: bytes) -> Iterator[bytes]:
    """One whole reply after the other; ends before what is none. data: may be anything."""
    at = 0
    while (end := _reply_end(data, at)) is not None:
        yield data[at:end]
        at = end


def elements(reply: bytes) -> list[bytes]:
    """The replies that an array holds, empty for everything else."""
    return list(replies_in(reply[reply.find(b"\n") + 1 :])) if reply[:1] == b"*" else []


def _reply_end(data: bytes, at: int) -> int | None:
    """Where a reply ends that begins there; None where it is not whole, or none."""
    wanted = 1
    while wanted:
        end = data.find(b"\r\n", at, at + _LINE)
        if end < 0 or end == at:
            return None
        kind, text, at = data[at], data[at + 1 : end], end + 2
        wanted -= 1
        if kind in _LINES or text == b"-1":
            continue
        if not text.isdigit() or len(text) > 10 or kind not in _STRINGS | _ARRAYS.keys():
            return None
        if kind in _ARRAYS:
            wanted += int(text) * _ARRAYS[kind]
        else:
            at += int(text) + 2
            if data[at - 2 : at] != b"\r\n":
                return None
    return at


def _names(payload: bytes) -> list[bytes]:
    """The first words of a payload's commands, in capitals, QUIT left out; none of what is no
    payload."""
    stream, names = io.BytesIO(payload), []
    with contextlib.suppress(UsageError):
        while words := read_command(stream):
            names.append(words[0].upper())
    return names[:-1] if names[-1:] == [b"QUIT"] else []


def _word(stream: BinaryIO) -> bytes:
    line = stream.readline(_LINE)
    if line[:1] != b"$":
        raise UsageError("a command is an array of strings")
    size = _number(line[1:], MAX_PAYLOAD)
    word = stream.read(size + 2)
    if len(word) != size + 2:
        raise UsageError("a word is not whole")
    return word[:size]


def _number(text: bytes, limit: int) -> int:
    digits = text.strip()
    if not digits.isdigit() or len(digits) > 10 or int(digits) > limit:
        raise UsageError(f"{text[:20]!r} is no number up to {limit}")
    return int(digits)
