# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Identities are types: a chunk id is never passed where a checkpoint id is meant."""

from __future__ import annotations

from typing import NewType

BLOCK_SIZE = 4096
"""Bytes in a block, and in the chunk that is its content."""

CHUNK_ID_SIZE = 20
"""Bytes of a SHA-1."""

CHUNK_REF_SIZE = 52
"""Bytes of a chunk reference: SHA-1 (the name) then SHA-256 (the truth)."""

ChunkId = NewType("ChunkId", bytes)
"""The SHA-1 of 4096 bytes: 20 bytes. The name of a chunk."""

ChunkRef = NewType("ChunkRef", bytes)
"""SHA-1 then SHA-256 of the same 4096 bytes: 52 bytes. What tables and indexes keep."""

ZERO_REF = ChunkRef(bytes(CHUNK_REF_SIZE))
"""Stands for the all-zero block, which is never stored."""

CheckpointId = NewType("CheckpointId", str)
"""The first 16 hex digits of the SHA-256 of the checkpoint's canonical manifest."""

ReplicaId = NewType("ReplicaId", str)
"""Names one replica on one host: `SERVICE-XXXXXXXX`."""

OperationNumber = NewType("OperationNumber", int)
"""1, 2, 3 ... as the client numbers the operations of a service. 0: nothing executed yet."""


def chunk_id(ref: ChunkRef) -> ChunkId:
    """The name part of a reference."""
    return ChunkId(ref[:CHUNK_ID_SIZE])
