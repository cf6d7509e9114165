# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The agent protocol, host side: mirrors replay/agent/frame.h, which defines it."""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from replay.operations import MAX_PAYLOAD

FRAME_MAGIC = int.from_bytes(b"SATF", "little")
FRAME_VERSION = 1
REPLY_BIT = 0x80
FRAME_HEADER_SIZE = 48

END = b"\xc0"
ESC = b"\xdb"
ESC_END = b"\xdb\xdc"
ESC_ESC = b"\xdb\xdd"

_HEADER = struct.Struct("<IBBHIIQQQII")
_CRC_OFFSET = 44
_MAX_STUFFED = 2 * (FRAME_HEADER_SIZE + MAX_PAYLOAD)


class FrameType(enum.IntEnum):
    """What a request asks for."""

    HELLO = 1
    EXECUTE = 2
    DIGEST = 3
    RUN = 4
    SYNC = 5
    READ = 6
    SHARES_ATTACH = 7
    SHARES_SETTLE = 8
    SHARES_GO_ON = 9
    PART = 10
    STREAMS_ATTACH = 11
    WAKEN = 12


WANTS_PARTS = 1
"""The status of a request to execute: what the service says is wanted as it comes, in PART."""


WANTS_STREAM = 2
"""Likewise: the response comes in PART only, and the reply says how long it was."""


class FrameStatus(enum.IntEnum):
    """What became of a request; frame.h says what each means."""

    OK = 0
    ALREADY_EXECUTED = 1
    GAP = 2
    CONFLICT = 3
    NOT_READY = 4
    TIMEOUT = 5
    TOO_LARGE = 6
    BROKEN = 7
    BUSY = 8
    BAD_REQUEST = 9
    FAILED = 10
    STREAMED = 11


@dataclass(frozen=True)
class AgentFrame:
    """One message; see frame.h for the fields. `type` has REPLY_BIT set in replies."""

    type: int
    id: int
    status: int = 0
    timeout_ms: int = 0
    number: int = 0
    time_ns: int = 0
    seed: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        """The bytes on the port, kEnd on both sides."""
        fields = (FRAME_MAGIC, FRAME_VERSION, self.type, self.status, self.id, self.timeout_ms)
        numbers = (self.number, self.time_ns, self.seed, len(self.payload))
        header = _HEADER.pack(*fields, *numbers, 0)[:_CRC_OFFSET]
        crc = zlib.crc32(self.payload, zlib.crc32(header))
        plain = b"".join((header, crc.to_bytes(4, "little"), self.payload))
        return b"".join((END, plain.replace(ESC, ESC_ESC).replace(END, ESC_END), END))


def _judge(stuffed: bytes) -> AgentFrame | None:
    plain = stuffed.replace(ESC_END, END).replace(ESC_ESC, ESC)
    if len(plain) < FRAME_HEADER_SIZE:
        return None
    magic, version, kind, *fields, length, crc = _HEADER.unpack_from(plain)
    status, ident, timeout_ms, number, time_ns, seed = fields
    payload = plain[FRAME_HEADER_SIZE:]
    if magic != FRAME_MAGIC or version != FRAME_VERSION or length != len(payload):
        return None
    if crc != zlib.crc32(payload, zlib.crc32(plain[:_CRC_OFFSET])):
        return None
    return AgentFrame(kind, ident, status, timeout_ms, number, time_ns, seed, payload)


class FrameReader:
    """Finds frames in a stream of bytes. Never fails: what is not a frame is skipped."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[AgentFrame]:
        """Takes the bytes that follow those of earlier calls; gives the frames that they end."""
        head, *rest = data.split(END)
        self._keep(head)
        for piece in rest:
            frame = _judge(b"".join(self._pieces)) if self._size <= _MAX_STUFFED else None
            self._pieces, self._size = [], 0
            self._keep(piece)
            if frame is not None:
                yield frame

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > _MAX_STUFFED:
            self._pieces = []
        elif piece:
            self._pieces.append(piece)
