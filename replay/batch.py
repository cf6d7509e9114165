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

Who asks for early answers gets records of these, too, before that of the response: their magic is
"SATE". A response that is the early answer before it has the magic "SATL" and no payload; the CRC
is that of the early answer.

Who asks for long answers gets, before such a one is whole, a record without payload that says so:
its magic is "SATB". The record of a long response has the magic "SATZ", and its payload is the
SHA-256 of the response, which is had in pieces elsewhere.

After the responses comes a record for each sample: its magic is "SATD", and its payload is the
SHA-256 of the answer, or 32 zeros if the replica is past its state.

Who asks for signed answers gets a record before that of each response, of the same number: its
magic is "SATS", and its payload the signature of the host, 64 bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from replay.operations import (
    MAX_PAYLOAD,
    RECORD_HEADER_SIZE,
    AnswerPreview,
    LongAnswerStart,
    Operation,
    RecordHeader,
    RecordInvalid,
    Response,
)
from replay.samples import ReadDigest
from satchel.ids import OperationNumber

RESPONSE_MAGIC = int.from_bytes(b"SATA", "little")
EARLY_MAGIC = int.from_bytes(b"SATE", "little")
SIGNATURE_MAGIC = int.from_bytes(b"SATS", "little")
SAME_MAGIC = int.from_bytes(b"SATL", "little")
BEGUN_MAGIC = int.from_bytes(b"SATB", "little")
LONG_MAGIC = int.from_bytes(b"SATZ", "little")
DIGEST_MAGIC = int.from_bytes(b"SATD", "little")

MAGICS = (
    RESPONSE_MAGIC,
    EARLY_MAGIC,
    SAME_MAGIC,
    BEGUN_MAGIC,
    LONG_MAGIC,
    DIGEST_MAGIC,
    SIGNATURE_MAGIC,
)

Answered = Response | AnswerPreview | LongAnswerStart | ReadDigest

DIGEST_SIZE = 32

SIGNATURE_SIZE = 64

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
    return b"".join(encode_answers(responses))


def encode_answers(answers: Iterable[Answered]) -> Iterator[bytes]:
    """A record of each, one by one, in order."""
    before: AnswerPreview | None = None
    for answer in answers:
        preview, before = before, answer if isinstance(answer, AnswerPreview) else None
        if isinstance(answer, LongAnswerStart):
            yield _record(BEGUN_MAGIC, answer.number, b"", b"")
            continue
        if isinstance(answer, ReadDigest):
            digest = answer.digest or bytes(DIGEST_SIZE)
            yield _record(DIGEST_MAGIC, answer.number, digest, digest)
            continue
        magic, payload, checked = RESPONSE_MAGIC, answer.payload, answer.payload
        if isinstance(answer, AnswerPreview):
            magic = EARLY_MAGIC
        elif answer.long:
            magic, payload, checked = LONG_MAGIC, answer.said, answer.said
        elif preview == AnswerPreview(answer.number, answer.payload):
            magic, payload = SAME_MAGIC, b""
        signature = answer.signature if isinstance(answer, Response) else b""
        signed = _record(SIGNATURE_MAGIC, answer.number, signature, signature) if signature else b""
        yield signed + _record(magic, answer.number, payload, checked)


def responses_in(pieces: Iterable[bytes]) -> Iterator[Response]:
    """The responses in a peer's batch that comes in pieces, each as soon as it is whole. Raises
    RecordInvalid."""
    return (answer for answer in answers_in(pieces) if isinstance(answer, Response))


def answers_in(pieces: Iterable[bytes]) -> Iterator[Answered]:
    """The responses, and what is said before them, in a peer's batch that comes in pieces: each as
    soon as it is whole. Raises RecordInvalid."""
    held = bytearray()
    before: AnswerPreview | None = None
    signed: Response | None = None
    for piece in pieces:
        held += piece
        start = 0
        while (found := _record_at(held, start)) is not None:
            magic, number, payload, crc = found
            start += _RESPONSE.size + len(payload)
            answer = _answer(magic, number, payload, before)
            checked = before.payload if magic == SAME_MAGIC and before else payload
            if zlib.crc32(checked) != crc:
                raise RecordInvalid(f"response {number}: its payload is damaged")
            if magic == SIGNATURE_MAGIC:
                signed = _signature(number, payload, signed)
                continue
            if signed is not None:
                answer, signed = _signed(answer, signed.payload, signed.number), None
            before = answer if isinstance(answer, AnswerPreview) else None
            yield answer
        del held[:start]
    if held or signed:
        raise RecordInvalid("cannot read response record", why="it is cut short")


def encode_piece(piece: bytes, ends: bool) -> bytes:
    """A piece of a long answer as it crosses a network: one byte, 1 where the answer ends with it,
    and what it has."""
    return bytes((ends,)) + piece


def decode_piece(data: bytes) -> tuple[bytes, bool]:
    """A peer's piece, and whether the answer ends with it. Raises RecordInvalid."""
    if data[:1] not in (b"\0", b"\1"):
        raise RecordInvalid("cannot read a piece of an answer")
    return data[1:], data[0] == 1


def _record(magic: int, number: int, payload: bytes, checked: bytes) -> bytes:
    """checked: what the CRC is of"""
    return _RESPONSE.pack(magic, len(payload), number, zlib.crc32(checked)) + payload


def _signature(number: int, payload: bytes, before: Response | None) -> Response:
    if before is not None or len(payload) != SIGNATURE_SIZE:
        raise RecordInvalid(f"the signature of response {number} makes no sense")
    return Response(OperationNumber(number), payload)


def _signed(answer: Answered, signature: bytes, number: int) -> Response:
    if not isinstance(answer, Response) or answer.number != number:
        raise RecordInvalid(f"the signature of response {number} is not before it")
    return replace(answer, signature=signature)


def _answer(magic: int, number: int, payload: bytes, before: AnswerPreview | None) -> Answered:
    given = OperationNumber(number)
    if magic == EARLY_MAGIC:
        return AnswerPreview(given, payload)
    if magic == BEGUN_MAGIC and not payload:
        return LongAnswerStart(given)
    if magic == LONG_MAGIC and len(payload) == DIGEST_SIZE:
        return Response(given, b"", said=payload)
    if magic == DIGEST_MAGIC and len(payload) == DIGEST_SIZE:
        return ReadDigest(given, payload if any(payload) else b"")
    if magic in (BEGUN_MAGIC, LONG_MAGIC, DIGEST_MAGIC):
        raise RecordInvalid(f"what is said of response {number} makes no sense")
    if magic == SAME_MAGIC:
        if payload or before is None or before.number != number:
            raise RecordInvalid(f"response {number} is to be the early answer before it")
        payload = before.payload
    return Response(given, payload)


def _record_at(data: bytearray, start: int) -> tuple[int, int, bytes, int] | None:
    """Magic, number, payload and CRC; None where it is not whole yet."""
    if len(data) - start < _RESPONSE.size:
        return None
    magic, length, number, crc = _RESPONSE.unpack_from(data, start)
    if magic not in MAGICS or length > MAX_PAYLOAD:
        raise RecordInvalid("cannot read response record", why="its header makes no sense")
    begin = start + _RESPONSE.size
    if len(data) - begin < length:
        return None
    return magic, number, bytes(data[begin : begin + length]), crc
