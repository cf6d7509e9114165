# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that are compressed on their way, by the library that compresses chunks (zstd)."""

from __future__ import annotations

from chunkstore._native import _core
from chunkstore.store import Buffer
from satchel.errors import IntegrityError


def compress(content: Buffer, level: int = 1) -> bytes | None:
    """A frame that is shorter than the content; None where that does not compress."""
    return _core.compress(content, level)


def decompress(frame: Buffer, size: int) -> bytes:
    """What a frame is of. No more than `size` bytes are taken from it, whatever it claims. Raises
    IntegrityError for what is no frame of exactly so many."""
    try:
        return _core.decompress(frame, size)
    except ValueError as error:
        raise IntegrityError(
            "the compressed data cannot be decompressed", why=str(error)
        ) from error
