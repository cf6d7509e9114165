# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Content of blocks on its way: without the zeros at the end of each, compressed where that is
shorter. docs/formats/share-messages.md.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from chunkstore import compress, decompress
from shares.node.extent import BLOCK

AS_IT_IS, COMPRESSED = b"\0", b"\1"

WORTHWHILE = 256
"""Bytes of content in a message from which on it is tried to compress them."""


def pack(data: bytes) -> bytes:
    """data: blocks, one after the other; the last one may be shorter."""
    if not data:
        return b""
    pieces = [data[at : at + BLOCK].rstrip(b"\0") for at in range(0, len(data), BLOCK)]
    lengths = struct.pack(f"<{len(pieces)}H", *map(len, pieces))
    content = b"".join(pieces)
    frame = compress(content) if len(content) >= WORTHWHILE else None
    return lengths + (AS_IT_IS + content if frame is None else COMPRESSED + frame)


def unpack(packed: bytes, sizes: Sequence[int]) -> bytes:
    """The content of blocks of these sizes. Raises ValueError for what is none, before it takes
    more memory than they have, and IntegrityError where it cannot be decompressed."""
    if not sizes:
        if packed:
            raise ValueError("content of no block")
        return b""
    lengths = struct.unpack_from(f"<{len(sizes)}H", packed)
    if any(length > size for length, size in zip(lengths, sizes, strict=True)):
        raise ValueError("content is longer than its block")
    at, whole = 2 * len(lengths) + 1, sum(lengths)
    form, content = packed[at - 1 : at], packed[at:]
    if form == COMPRESSED:
        content = decompress(content, whole)
    if form not in {AS_IT_IS, COMPRESSED} or len(content) != whole:
        raise ValueError("content has another size or form")
    padded, at = [], 0
    for length, size in zip(lengths, sizes, strict=True):
        padded.append(content[at : at + length].ljust(size, b"\0"))
        at += length
    return b"".join(padded)
