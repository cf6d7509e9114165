# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import hashlib

from satchel.ids import BLOCK_SIZE, CHUNK_ID_SIZE, CHUNK_REF_SIZE, ZERO_REF, ChunkRef, chunk_id


def test_a_reference_is_the_name_then_the_truth() -> None:
    block = b"x" * BLOCK_SIZE
    name, truth = hashlib.sha1(block).digest(), hashlib.sha256(block).digest()
    assert len(name) == CHUNK_ID_SIZE
    assert len(name + truth) == CHUNK_REF_SIZE
    assert chunk_id(ChunkRef(name + truth)) == name


def test_the_reference_of_the_zero_block_is_no_hash() -> None:
    assert len(ZERO_REF) == CHUNK_REF_SIZE
    assert hashlib.sha1(bytes(BLOCK_SIZE)).digest() != chunk_id(ZERO_REF)
