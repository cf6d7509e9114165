# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Messages about blocks, and calls about names, as bytes: docs/formats/share-messages.md.

Data from a peer is refused with IntegrityError.
"""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

from satchel.errors import IntegrityError
from satchel.typed import Form, TypeMismatch
from shares.node.extent import BLOCK
from shares.node.hub.packing import pack, unpack
from shares.protocol import (
    LONGEST,
    Ack,
    Acquire,
    Blocks,
    Engage,
    EngageReply,
    Fetch,
    FileId,
    Flush,
    Invalidate,
    InvalidateReply,
    Keep,
    LogWrite,
    Message,
    NativeGrant,
    Ownership,
    Push,
    Recall,
    RecallReply,
    RefusalReply,
    Release,
    Update,
    UpdateReply,
)

CALL, RESULT, REFUSED = 64, 65, 66
"""What a payload begins with where it is not a message about blocks."""

_LISTS = Form(lists=True, integers=range(-(1 << 94), 1 << 94))
"""Times are nanoseconds, and file systems have seconds of 64 bits. The owner of a lock of flock(2)
also has more than 64 bits."""

_HEADER = struct.Struct("<BQqQ")
_KINDS: dict[type[Message], tuple[int, tuple[str, ...]]] = {
    Fetch: (1, ("relaxed", "versions")),
    Blocks: (2, ("versions", "lent", "fresh", "data")),
    Acquire: (3, ("whole", "versions")),
    Ownership: (4, ("grant", "versions", "shared", "used", "fresh", "data")),
    Push: (5, ("everyone", "fresh", "data")),
    LogWrite: (6, ("offset", "size", "data")),
    Release: (7, ("grant", "fresh", "data")),
    Ack: (8, ()),
    Invalidate: (9, ("keep",)),
    Recall: (10, ("keep", "use")),
    RecallReply: (11, ("kept", "fresh", "data")),
    Update: (12, ("versions", "fresh", "data")),
    Flush: (13, ("fresh", "data")),
    InvalidateReply: (14, ("used",)),
    UpdateReply: (15, ("kept",)),
    RefusalReply: (16, ("refused",)),
    Engage: (17, ("cut", "grant")),
    EngageReply: (18, ("owned", "copies")),
    NativeGrant: (19, ("grant",)),
}
_MESSAGES = {kind: (message, names) for message, (kind, names) in _KINDS.items()}
_SCALARS = {
    "relaxed": "<?",
    "everyone": "<?",
    "use": "<?",
    "keep": "<B",
    "grant": "<Q",
    "offset": "<I",
    "size": "<H",
    "cut": "<Q",
}
_FLAGS = frozenset({"shared", "used", "kept", "lent"})
_RUNS = frozenset({"owned", "copies"})
_ABOUT_FILES = (Engage, EngageReply, NativeGrant)


def encode(message: Message) -> bytes:
    """A message about blocks."""
    kind, names = _KINDS[type(message)]
    parts = [_HEADER.pack(kind, message.file, message.first, message.count)]
    if isinstance(message, Acquire):
        start = message.whole.start - message.first if message.whole else 0
        parts.append(struct.pack("<HH", start, len(message.whole)))
        names = ("versions",)
    parts += [_field(name, getattr(message, name)) for name in names]
    return b"".join(parts)


def _field(name: str, value: Any) -> bytes:
    if name == "data":
        return pack(value)
    if name == "keep":
        value = value.value
    if name in _SCALARS:
        return struct.pack(_SCALARS[name], value)
    if name == "versions":
        return struct.pack(f"<{len(value)}Q", *value)
    if name in _FLAGS:
        return bytes(value)
    if name in _RUNS:
        pairs = [number for run in value for number in run]
        return struct.pack(f"<I{len(pairs)}q", len(value), *pairs)
    return struct.pack(f"<I{len(value)}q", len(value), *value)


def decode(payload: bytes) -> Message:
    """A message about blocks. Raises IntegrityError."""
    try:
        kind, file, first, count = _HEADER.unpack_from(payload)
        message, names = _MESSAGES[kind]
        reader = _Reader(payload, first, count)
        values = {name: reader.field(name) for name in names}
        values.pop("size", None)
    except (struct.error, KeyError, ValueError) as error:
        raise IntegrityError(
            "malformed message about blocks from a peer", why=str(error)
        ) from error
    decoded = message(FileId(file), first, count, **values)
    _check(decoded, len(payload) - reader.at)
    return decoded


class _Reader:
    """Fields of one payload, in order."""

    def __init__(self, payload: bytes, first: int, count: int) -> None:
        self.at = _HEADER.size
        self._payload = payload
        self._blocks = range(first, first + count)
        self._sizes: list[int] = []
        """Of what content is of, as the fields before it said."""
        if count > LONGEST:
            raise ValueError(f"{count} blocks in one message")

    def field(self, name: str) -> Any:
        if name == "data":
            packed, self.at = self._payload[self.at :], len(self._payload)
            return unpack(packed, self._sizes)
        if name in _SCALARS:
            (value,) = self._take(_SCALARS[name])
            if name == "size":
                self._sizes = [value] if value else []
            return Keep(value) if name == "keep" else value
        if name == "versions":
            return self._take(f"<{len(self._blocks)}Q")
        if name == "whole":
            return self._part()
        return self._take(f"<{len(self._blocks)}?") if name in _FLAGS else self._counted(name)

    def _part(self) -> range:
        start, count = self._take("<HH")
        if start + count > len(self._blocks) or (start and not count):
            raise ValueError("a part of other blocks")
        return self._blocks[start : start + count] if count else range(0)

    def _counted(self, name: str) -> tuple[Any, ...]:
        (count,) = self._take("<I")
        if name in _RUNS:
            return self._runs(count)
        if count > len(self._blocks):
            raise ValueError(f"content of {count} of {len(self._blocks)} blocks")
        numbers = self._take(f"<{count}q")
        ascending = all(a < b for a, b in itertools.pairwise(numbers))
        if not ascending or not all(number in self._blocks for number in numbers):
            raise ValueError(f"{name} names other blocks")
        self._sizes = [BLOCK] * count
        return numbers

    def _runs(self, count: int) -> tuple[tuple[int, int], ...]:
        if count * 16 > len(self._payload) - self.at:
            raise ValueError(f"{count} runs in {len(self._payload)} bytes")
        numbers = self._take(f"<{2 * count}q")
        found = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        if any(first < -1 or not 0 < length <= LONGEST for first, length in found):
            raise ValueError("malformed run of blocks")
        return found

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._payload, self.at)
        self.at += struct.calcsize(layout)
        return values


def _check(message: Message, left: int) -> None:
    """That the content is as long as the message says."""
    match message:
        case LogWrite():
            size = max(0, message.offset + message.size - BLOCK)
        case _:
            size = left
    least = 0 if isinstance(message, (*_ABOUT_FILES, Ack)) else 1
    if size or message.count < least or message.first < -1:
        why = f"{type(message).__name__}, {message.count} blocks from {message.first}"
        raise IntegrityError("a peer's message about blocks has content of another size", why=why)


def is_call(payload: bytes) -> bool:
    """Whether this is a call rather than a message about blocks."""
    return payload[:1] == bytes([CALL])


def encode_call(name: str, arguments: list[Any]) -> bytes:
    """A call by name, with arguments in order."""
    return bytes([CALL]) + json.dumps([name, *map(_LISTS.plain, arguments)]).encode()


def decode_call(payload: bytes) -> tuple[str, list[Any]]:
    """Name and arguments as JSON has them. Raises IntegrityError."""
    try:
        name, *arguments = json.loads(payload[1:])
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityError("malformed call from a peer", why=str(error)) from error
    if not isinstance(name, str):
        raise IntegrityError("malformed call from a peer", why="it has no name")
    return name, arguments


def encode_result(value: Any) -> bytes:
    """What a call returned."""
    return bytes([RESULT]) + json.dumps(_LISTS.plain(value)).encode()


def encode_refusal(error: OSError) -> bytes:
    """That a call, or a request about blocks, failed."""
    text = error.strerror or str(error)
    return bytes([REFUSED]) + json.dumps([error.errno or 5, text]).encode()


def decode_reply(payload: bytes, hint: Any) -> Any:
    """What a call returned. Raises the OSError that was the answer, and IntegrityError."""
    raise_refusal(payload)
    if payload[:1] != bytes([RESULT]):
        raise IntegrityError("malformed answer from a peer")
    return typed(_json(payload), hint)


def raise_refusal(payload: bytes) -> None:
    """Raise the OSError that the payload is, if it is one."""
    if payload[:1] == bytes([REFUSED]):
        number, text = typed(_json(payload), tuple[int, str])
        raise OSError(number, text)


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload[1:])
    except (ValueError, RecursionError) as error:
        raise IntegrityError("a peer's answer is not JSON", why=str(error)) from error


def typed(value: Any, hint: Any) -> Any:
    """What JSON carried, as the annotation says. Raises IntegrityError."""
    try:
        return _LISTS.typed(value, hint, "it")
    except TypeMismatch as error:
        raise IntegrityError("a peer's value is of another kind", why=str(error)) from error
