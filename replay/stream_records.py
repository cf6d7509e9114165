# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What host and guest say to each other about streams: mirrors replay/agent/streams.h, which
defines it."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from satchel.errors import IntegrityError

HEADER = struct.Struct("<IBBHIIQ")
ENTRY = struct.Struct("<IIQQ")
LIMIT = struct.Struct("<Q")
PAYLOAD_LIMIT = 256 << 10
CONVERSATION_BYTES = 16
STREAMS_LIMIT = 4096
FIRST_LIMIT = 16 << 10
"""What of a stream may be sent before a limit was heard of."""

IS_RESET = 1


class StreamRecordInvalid(IntegrityError):
    """The bytes on the streams' port are not a record."""


EGRESS_PORT = 0
"""Of an OPEN: for the next program of the guest's that wants to go out."""


class StreamRecord(enum.IntEnum):
    """What a record says; streams.h has what its position means."""

    HELLO = 1
    OPEN = 2
    DATA = 3
    END = 4
    RESET = 5
    WINDOW = 6
    DONE = 7


@dataclass(frozen=True)
class StreamEntry:
    """Of a hello: where one stream is."""

    reset: bool
    acknowledged: int
    limit: int


def encode(
    kind: StreamRecord, stream: int = 0, position: int = 0, payload: bytes = b"", port: int = 0
) -> bytes:
    """The bytes of a record."""
    return HEADER.pack(len(payload), kind, 0, port, stream, 0, position) + payload


def encode_window(stream: int, acknowledged: int, limit: int) -> bytes:
    """The bytes of a record that says how far a stream has come, and may come."""
    return encode(StreamRecord.WINDOW, stream, acknowledged, LIMIT.pack(limit))


def encode_hello(conversation: bytes, entries: Iterable[tuple[int, StreamEntry]]) -> bytes:
    """The bytes of the first record of a side."""
    rows = (
        ENTRY.pack(stream, IS_RESET if e.reset else 0, e.acknowledged, e.limit)
        for stream, e in entries
    )
    return encode(StreamRecord.HELLO, payload=conversation + b"".join(rows))


def decode_hello(payload: bytes) -> tuple[bytes, dict[int, StreamEntry]]:
    """The conversation of a hello, and its entries by stream. Raises StreamRecordInvalid."""
    rest = len(payload) - CONVERSATION_BYTES
    if rest < 0 or rest % ENTRY.size or rest > STREAMS_LIMIT * ENTRY.size:
        raise StreamRecordInvalid("not a hello of streams", why=f"it has {len(payload)} bytes")
    rows = ENTRY.iter_unpack(payload[CONVERSATION_BYTES:])
    entries = {row[0]: StreamEntry(bool(row[1] & IS_RESET), row[2], row[3]) for row in rows}
    return payload[:CONVERSATION_BYTES], entries


class RecordReader:
    """Finds records in a stream of bytes from anybody."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[StreamRecord, int, int, bytes]]:
        """Takes the bytes that follow those of earlier calls; gives kind, stream, position and
        payload of the records that are whole by then. Raises StreamRecordInvalid."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= HEADER.size:
                length, kind, _, _, stream, _, position = HEADER.unpack_from(buffer, start)
                if length > PAYLOAD_LIMIT or not StreamRecord.HELLO <= kind <= StreamRecord.DONE:
                    why = f"a record of kind {kind} and {length} bytes"
                    raise StreamRecordInvalid("malformed record of a guest's streams", why=why)
                end = start + HEADER.size + length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[start + HEADER.size : end])
                start = end
                yield StreamRecord(kind), stream, position, payload
        finally:
            del buffer[:start]
