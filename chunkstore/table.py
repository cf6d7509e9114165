# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What names the content of a volume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chunkstore.errors import StoreUsage
from satchel.ids import BLOCK_SIZE, CHUNK_ID_SIZE, CHUNK_REF_SIZE, ChunkRef

MAX_VOLUME_SIZE = 1 << 52
"""Bytes that a volume may have."""


@dataclass(frozen=True)
class TableRoot:
    """The root of a table: equal roots, equal content.

    ref: the root page, or ZERO_REF if all of the volume is zero
    size: bytes of the volume; need not be a multiple of 4096, the last block is padded with zeros
    """

    ref: ChunkRef
    size: int

    def __post_init__(self) -> None:
        if len(self.ref) != CHUNK_REF_SIZE:
            raise StoreUsage("a table root's reference must be 52 bytes", why=f"{len(self.ref)}")
        if not 0 <= self.size <= MAX_VOLUME_SIZE:
            raise StoreUsage("a volume has 0 to 2^52 bytes", why=f"{self.size}")

    @property
    def blocks(self) -> int:
        """How many blocks the volume has."""
        return -(-self.size // BLOCK_SIZE)

    def to_json(self) -> dict[str, Any]:
        """{"size": bytes, "sha1": hex, "sha256": hex}"""
        return {
            "size": self.size,
            "sha1": self.ref[:CHUNK_ID_SIZE].hex(),
            "sha256": self.ref[CHUNK_ID_SIZE:].hex(),
        }

    @classmethod
    def from_json(cls, data: object) -> TableRoot:
        """The reverse of to_json, safe on anything. Raises StoreUsage."""
        if not isinstance(data, Mapping) or set(data) != {"size", "sha1", "sha256"}:
            raise StoreUsage("not a table root", why="it must have size, sha1 and sha256")
        size, sha1, sha256 = data["size"], data["sha1"], data["sha256"]
        if not isinstance(size, int) or isinstance(size, bool):
            raise StoreUsage("not a table root", why="size must be an integer")
        if not isinstance(sha1, str) or not isinstance(sha256, str):
            raise StoreUsage("not a table root", why="sha1 and sha256 must be strings")
        if len(sha1) != 40 or len(sha256) != 64:
            raise StoreUsage("not a table root", why="a hash has a wrong length")
        try:
            ref = ChunkRef(bytes.fromhex(sha1 + sha256))
        except ValueError as error:
            raise StoreUsage("not a table root", why=str(error)) from error
        if len(ref) != CHUNK_REF_SIZE:
            raise StoreUsage("not a table root", why="a hash has a wrong length")
        return cls(ref, size)
