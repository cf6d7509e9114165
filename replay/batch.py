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
from collections.abc import Iterable, Iterator

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
    return list(responses_in([data]))


def responses_in(pieces: Iterable[bytes]) -> Iterator[Response]:
    """The responses in a peer's batch that comes in pieces, each as soon as it is whole. Raises
    RecordInvalid."""
    held = bytearray()
    for piece in pieces:
        held += piece
        start = 0
        while (response := _response_at(held, start)) is not None:
            yield response
            start += _RESPONSE.size + len(response.payload)
        del held[:start]
    if held:
        raise RecordInvalid("cannot read response record", why="it is cut short")


def _response_at(data: bytearray, start: int) -> Response | None:
    """None where it is not whole yet."""
    if len(data) - start < _RESPONSE.size:
        return None
    magic, length, number, crc = _RESPONSE.unpack_from(data, start)
    if magic != RESPONSE_MAGIC or length > MAX_PAYLOAD:
        raise RecordInvalid("cannot read response record", why="its header makes no sense")
    begin = start + _RESPONSE.size
    if len(data) - begin < length:
        return None
    payload = bytes(data[begin : begin + length])
    if zlib.crc32(payload) != crc:
        raise RecordInvalid(f"response {number}: its payload is damaged")
    return Response(OperationNumber(number), payload)
