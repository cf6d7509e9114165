# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations and responses, and the record that an operation is on media and on the wire.

    offset size
     0     4   magic, "SATO"
     4     4   length of the payload
     8     8   number
    16     8   time, nanoseconds since 1970, UTC
    24     8   seed
    32     4   CRC-32 (zlib) of the payload
    36     4   CRC-32 of bytes 0 to 35
    40     n   payload

All integers are little-endian and unsigned. The header has a CRC of its own so that a damaged
length is told from a record whose end is missing. The page is docs/formats/log.md.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, field

from satchel.errors import IntegrityError, StateError, UsageError
from satchel.ids import OperationNumber

RECORD_MAGIC = int.from_bytes(b"SATO", "little")
RECORD_HEADER_SIZE = 40
MAX_PAYLOAD = 64 << 20
"""Bytes of the largest request, and of the largest response."""

_FIELDS = struct.Struct("<IIQQQI")
_CRC = struct.Struct("<I")
_LIMIT_64 = 1 << 64


class RecordInvalid(IntegrityError):
    """The bytes are not one operation record."""


@dataclass(frozen=True)
class Operation:
    """One request to a service: what every replica executes alike.

    number:  1, 2, 3 ... as the client numbers the operations of the service
    time_ns: the moment that the guest's clock shows while it executes, nanoseconds since 1970, UTC
    seed:    64 bits of randomness for the service, the same in every replica
    payload: the raw request as the service gets it; see `replay.adapters`
    """

    number: OperationNumber
    time_ns: int
    seed: int
    payload: bytes

    def __post_init__(self) -> None:
        if not 0 < self.number < _LIMIT_64:
            raise UsageError(
                f"operation number {self.number} cannot be meant", why="they go from 1"
            )
        if not (0 <= self.time_ns < _LIMIT_64 and 0 <= self.seed < _LIMIT_64):
            raise UsageError(f"operation {self.number}: time and seed are unsigned 64-bit numbers")
        if len(self.payload) > MAX_PAYLOAD:
            raise UsageError(
                f"operation {self.number} has {len(self.payload)} bytes",
                why=f"a request may have {MAX_PAYLOAD}",
            )

    @property
    def record_size(self) -> int:
        """Bytes of the record."""
        return RECORD_HEADER_SIZE + len(self.payload)

    @property
    def digest(self) -> bytes:
        """The first 8 bytes of the SHA-256 of the record."""
        return hashlib.sha256(self.encode()).digest()[:8]

    def encode(self) -> bytes:
        """The record."""
        crc = zlib.crc32(self.payload)
        fields = (RECORD_MAGIC, len(self.payload), self.number, self.time_ns, self.seed, crc)
        header = _FIELDS.pack(*fields)
        return b"".join((header, _CRC.pack(zlib.crc32(header)), self.payload))

    @classmethod
    def decode(cls, record: bytes) -> Operation:
        """The operation in exactly these bytes, from anybody. RecordInvalid if it is not one."""
        header = RecordHeader.decode(record[:RECORD_HEADER_SIZE])
        if header.record_size != len(record):
            raise RecordInvalid(
                "cannot read operation record", why=f"{len(record)} bytes, not {header.record_size}"
            )
        return header.operation(record[RECORD_HEADER_SIZE:])


@dataclass(frozen=True)
class RecordHeader:
    """The first 40 bytes of a record, found intact."""

    length: int
    number: OperationNumber
    time_ns: int
    seed: int
    payload_crc: int

    @property
    def record_size(self) -> int:
        """Bytes of the whole record."""
        return RECORD_HEADER_SIZE + self.length

    @classmethod
    def decode(cls, header: bytes) -> RecordHeader:
        """RecordInvalid if it is short, damaged, or says what no writer says."""
        if len(header) != RECORD_HEADER_SIZE:
            raise RecordInvalid("cannot read operation record", why="its header is cut short")
        magic, length, number, time_ns, seed, payload_crc = _FIELDS.unpack_from(header)
        (header_crc,) = _CRC.unpack_from(header, _FIELDS.size)
        if magic != RECORD_MAGIC or header_crc != zlib.crc32(header[: _FIELDS.size]):
            raise RecordInvalid("cannot read operation record", why="its header is damaged")
        if number == 0 or length > MAX_PAYLOAD:
            raise RecordInvalid("cannot read operation record", why="its header makes no sense")
        return cls(length, OperationNumber(number), time_ns, seed, payload_crc)

    def operation(self, payload: bytes) -> Operation:
        """The operation with that payload. RecordInvalid if the payload is damaged."""
        if len(payload) != self.length or zlib.crc32(payload) != self.payload_crc:
            raise RecordInvalid(f"operation {self.number}: its payload is damaged")
        return Operation(self.number, self.time_ns, self.seed, payload)


@dataclass(frozen=True)
class Response:
    """What a service answered to an operation: raw from the agent, normalised after an adapter."""

    number: OperationNumber
    payload: bytes
    signature: bytes = field(default=b"", compare=False)
    """Of the host's statement that this is the answer (wire.Statement); empty without one."""
    said: bytes = b""
    """Of a long answer, which is had in pieces and not here: its digest. Else empty."""

    @property
    def long(self) -> bool:
        """Whether the payload is not here."""
        return bool(self.said)

    @property
    def compared(self) -> bytes:
        """What tells two answers apart: the payload, or its digest where it is not here."""
        return self.said or self.payload

    @property
    def digest(self) -> bytes:
        """SHA-256 of the payload, 32 bytes; replicas compare it on normalised responses only."""
        return self.said or hashlib.sha256(self.payload).digest()


@dataclass(frozen=True)
class LongAnswerStart:
    """A service has begun its answer to an operation. It is long, or goes on for a while: what
    there is of it is had in pieces meanwhile."""

    number: OperationNumber


@dataclass(frozen=True)
class AnswerPreview:
    """What a service says that its answer to an operation is going to be. It may change its mind,
    so nothing follows from it and it is compared with nothing: it is for eyes only."""

    number: OperationNumber
    payload: bytes


class OperationGap(StateError):
    """Operations between the last executed (or logged) one and this one are missing."""

    def __init__(self, what: str, *, number: int, last: int) -> None:
        super().__init__(
            f"{what}: operation {number} follows {last}",
            why="operations are numbered without gaps",
            fix=f"start with operation {last + 1}",
        )
        self.number = number
        self.last = last
