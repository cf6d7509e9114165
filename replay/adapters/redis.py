# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What Redis speaks (RESP, or a line of words): one command, one reply, one connection.

An operation is the command and a QUIT behind it, whose +OK the normalised reply does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from replay.adapters.adapter import Asked
from replay.operations import MAX_PAYLOAD, Operation
from satchel.errors import UsageError

kind = "redis"

MAX_WORDS = 1 << 20
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


def encode(words: Sequence[bytes]) -> bytes:
    """The payload of an operation."""
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join([b"*%d\r\n" % len(words), *parts, _QUIT])


def request(asked: Asked, *, number: int, time_ns: int, seed: int) -> bytes:
    """See `Adapter.request`: the body is a command."""
    return encode(asked.payload().split())


def label(operation: Operation) -> str:
    """See `Adapter.label`: the command's first word."""
    parts = operation.payload[:256].split(b"\r\n")
    return parts[2].decode("ascii", "replace").upper() if len(parts) > 2 else ""


def changes_nothing(operation: Operation, keys: Sequence[str]) -> bool:
    """Whether it is a command that only reads, where all keys are declared: `/`."""
    return "/" in keys and label(operation).encode() in READS


def normalise(response: bytes, operation: Operation) -> bytes:
    """See `Adapter.normalise`."""
    whole = response.endswith(_FAREWELL) and len(response) > len(_FAREWELL)
    return response[: -len(_FAREWELL)] if whole else _BROKEN


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
