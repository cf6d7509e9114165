# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations and responses as they cross a network: records, one after the other.

An operation's record is that of the log. A response's record:

    offset size
     0     4   magic, "SATA"
     4     4   length of the payload
     8     8   number of the operation that it answers
    16     4   CRC-32 (zlib) of the payload
    20     n   payload
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from replay.operations import (
    MAX_PAYLOAD,
    RECORD_HEADER_SIZE,
    Operation,
    RecordHeader,
    RecordInvalid,
    Response,
)
from satchel.ids import OperationNumber

RESPONSE_MAGIC = int.from_bytes(b"SATA", "little")

_RESPONSE = struct.Struct("<IIQI")


def encode_operations(operations: Iterable[Operation]) -> bytes:
    """Records of the operations, in order."""
    return b"".join(operation.encode() for operation in operations)


def decode_operations(data: bytes) -> list[Operation]:
    """The operations in a peer's batch. Raises RecordInvalid."""
    operations = []
    start = 0
    while start < len(data):
        header = RecordHeader.decode(data[start : start + RECORD_HEADER_SIZE])
        payload = data[start + RECORD_HEADER_SIZE : start + header.record_size]
        operations.append(header.operation(payload))
        start += header.record_size
    return operations


def encode_responses(responses: Iterable[Response]) -> bytes:
    """Records of the responses, in order."""
    parts = []
    for response in responses:
        crc = zlib.crc32(response.payload)
        fields = (RESPONSE_MAGIC, len(response.payload), response.number, crc)
        parts += [_RESPONSE.pack(*fields), response.payload]
    return b"".join(parts)


def decode_responses(data: bytes) -> list[Response]:
    """The responses in a peer's batch. Raises RecordInvalid."""
    responses = []
    start = 0
    while start < len(data):
        if len(data) - start < _RESPONSE.size:
            raise RecordInvalid("cannot read response record", why="its header is cut short")
        magic, length, number, crc = _RESPONSE.unpack_from(data, start)
        begin = start + _RESPONSE.size
        payload = data[begin : begin + length]
        if magic != RESPONSE_MAGIC or length > MAX_PAYLOAD or len(payload) != length:
            raise RecordInvalid("cannot read response record", why="its header makes no sense")
        if zlib.crc32(payload) != crc:
            raise RecordInvalid(f"response {number}: its payload is damaged")
        responses.append(Response(OperationNumber(number), payload))
        start = begin + length
    return responses
