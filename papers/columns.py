# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The file of a recording, whatever was recorded: a head in JSON and columns of numbers, packed.

    magic (8 bytes), version (4), size of what follows (4), a raw LZMA2 stream

In the stream each part is its length (4 bytes) and so many bytes: first the head, then columns,
varints each (7 bits a byte, the lowest first, bit 7: more follow). Integers are little-endian.
"""

from __future__ import annotations

import json
import lzma
import struct
from collections.abc import Iterable, Iterator
from typing import Any

_HEAD = struct.Struct("<8sII")
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24}]


def packed(magic: bytes, version: int, head: Any, columns: Iterable[Iterable[int]]) -> bytes:
    """The bytes of a file. Numbers are not negative."""
    text = json.dumps(head, separators=(",", ":")).encode("ascii")
    body = b"".join(struct.pack("<I", len(part)) + part for part in [text, *map(_varints, columns)])
    stream = lzma.compress(body, lzma.FORMAT_RAW, filters=_FILTERS)
    return _HEAD.pack(magic, version, len(stream)) + stream


def unpacked(magic: bytes, version: int, data: bytes) -> tuple[Any, Iterator[list[int]]]:
    """The reverse: head and columns. Raises ValueError for other files."""
    found, its_version, size = _HEAD.unpack(data[: _HEAD.size].ljust(_HEAD.size))
    if found != magic or its_version != version or size != len(data) - _HEAD.size:
        raise ValueError("not a recording of this version")
    try:
        body = lzma.decompress(data[_HEAD.size :], lzma.FORMAT_RAW, filters=_FILTERS)
    except lzma.LZMAError as error:
        raise ValueError(f"not a recording of this version: {error}") from error
    parts = _parts(body)
    return json.loads(next(parts)), map(_numbers, parts)


def zigzag(number: int) -> int:
    """0, 1, 2, 3, 4 of 0, -1, 1, -2, 2."""
    return 2 * number if number >= 0 else -2 * number - 1


def unzigzag(number: int) -> int:
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


def _varints(numbers: Iterable[int]) -> bytes:
    found = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def _numbers(data: bytes) -> list[int]:
    found = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(number)
            number = shift = 0
    return found


def _parts(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        (size,) = struct.unpack_from("<I", body, at)
        yield body[at + 4 : at + 4 + size]
        at += 4 + size


__all__ = ["packed", "unpacked", "unzigzag", "zigzag"]
