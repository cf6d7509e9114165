# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Reads whose answers home compares with a surrogate's, as they come before a batch of operations.

    offset size
     0     4   magic, "SATR"
     4     4   how many reads
     8     8   bytes that follow before the operations
    16         for each read: 8 bytes, the last operation before it (0: any state), and its record
               padding: random bytes, so that the size does not show which reads these are

All integers are little-endian and unsigned. The page is docs/formats/answers.md.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass

from replay.operations import RECORD_HEADER_SIZE, Operation, RecordHeader, RecordInvalid
from satchel.ids import OperationNumber

SAMPLES_MAGIC = b"SATR"

SAMPLES_LIMIT = 512
"""Reads that one batch may have."""

_HEAD = struct.Struct("<4sIQ")
_STATE = struct.Struct("<Q")


@dataclass(frozen=True)
class Sample:
    """A read, and the last operation that home executes before it; 0 for a stateless service."""

    state: OperationNumber
    operation: Operation


@dataclass(frozen=True)
class Samples:
    """Reads that home compares. padding: bytes that are added."""

    reads: tuple[Sample, ...] = ()
    padding: int = 0

    def encode(self) -> bytes:
        """Return the bytes before the operations' records."""
        reads = [_STATE.pack(read.state) + read.operation.encode() for read in self.reads]
        body = b"".join(reads) + secrets.token_bytes(self.padding)
        return _HEAD.pack(SAMPLES_MAGIC, len(reads), len(body)) + body


@dataclass(frozen=True)
class ReadDigest:
    """SHA-256 of the normalised answer to a sample; empty if the replica is past its state."""

    number: OperationNumber
    digest: bytes


def split_samples(data: bytes) -> tuple[list[Sample], bytes]:
    """Return the samples before a peer's operations, and the records of these. Raises
    RecordInvalid."""
    if not data.startswith(SAMPLES_MAGIC):
        return [], data
    if len(data) < _HEAD.size:
        raise RecordInvalid("cannot read samples", why="their header is cut short")
    _, count, size = _HEAD.unpack_from(data)
    if count > SAMPLES_LIMIT or size > len(data) - _HEAD.size:
        raise RecordInvalid("cannot read samples", why="their header makes no sense")
    body, samples, start = data[_HEAD.size : _HEAD.size + size], [], 0
    for _ in range(count):
        begin = start + _STATE.size
        header = RecordHeader.decode(body[begin : begin + RECORD_HEADER_SIZE])
        end = begin + header.record_size
        operation = header.operation(body[begin + RECORD_HEADER_SIZE : end])
        (state,) = _STATE.unpack_from(body, start)
        samples.append(Sample(OperationNumber(state), operation))
        start = end
    return samples, data[_HEAD.size + size :]
