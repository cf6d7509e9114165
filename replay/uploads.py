# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A long request in pieces, each of them an operation of its own with this payload:

    offset size
     0     8   magic, FF "SATPCE" 0A, with which no request of an adapter begins
     8     1   flags: 1 the first piece, 2 the last one, 4 nothing more comes and it is broken off
     9     7   0
    16     n   bytes of the request

The guest's agent has one connection to the service for all pieces (replay/agent/executor.h). Any
other operation between them ends it, on each replica at the same number. So a client that dies in
the middle leaves nothing that has to be put right. An agent that does not know of pieces gives
the service the payload as it is, which is no request: it refuses each piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntFlag

from replay.operations import Operation

PIECE_MAGIC = b"\xffSATPCE\n"

PIECE_HEAD_SIZE = 16

UPLOAD_PIECE_BYTES = 1 << 20
"""Of the body of a long request, what one operation has at most."""


class PieceFlag(IntFlag):
    """What a piece is of its request."""

    BEGINS = 1
    ENDS = 2
    BROKEN_OFF = 4


BROKEN_OFF = PIECE_MAGIC + bytes((PieceFlag.BROKEN_OFF,)) + bytes(7)
"""The payload behind pieces whose rest does not come."""


def first_piece(head: bytes) -> bytes:
    """The payload of the first operation of a request with that head."""
    return _piece(PieceFlag.BEGINS, head)


def upload_pieces(body: Iterable[bytes]) -> Iterator[bytes]:
    """The payloads of the operations behind the first one, from the body in blocks of any length.
    At most one piece and a block are held. Raises what `body` does."""
    held = bytearray()
    for block in body:
        held += block
        while len(held) > UPLOAD_PIECE_BYTES:
            yield _piece(PieceFlag(0), bytes(held[:UPLOAD_PIECE_BYTES]))
            del held[:UPLOAD_PIECE_BYTES]
    yield _piece(PieceFlag.ENDS, bytes(held))


def piece_flags(operation: Operation) -> PieceFlag | None:
    """What the operation is of a long request; None where it is a request of its own."""
    payload = operation.payload
    if len(payload) < PIECE_HEAD_SIZE or not payload.startswith(PIECE_MAGIC):
        return None
    return PieceFlag(payload[len(PIECE_MAGIC)] & 7)


def _piece(flags: PieceFlag, data: bytes) -> bytes:
    return PIECE_MAGIC + bytes((flags,)) + bytes(7) + data
