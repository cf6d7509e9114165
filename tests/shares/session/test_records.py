# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions as bytes."""

from __future__ import annotations

import pytest

from satchel.errors import IntegrityError
from shares.session.records import (
    BufferedWrite,
    OpenFileRecord,
    OperationKind,
    OperationReply,
    Record,
    SessionHeader,
    SessionOperation,
    pack,
    pack_all,
    unpack,
)

RECORDS: list[Record] = [
    SessionHeader(1, b"editor"),
    OpenFileRecord(3, 7, 2, 11, b"notes"),
    BufferedWrite(3, 5, b"dear"),
    SessionOperation(OperationKind.WRITE, 3, 0, b"x"),
    OperationReply(0, 1, 10, b""),
]
GOLDEN = bytes.fromhex(
    "09000000 6a50eb40 01 0100656469746f72"
    "1e000000 941151e7 02 030000000700000000000000020000000b000000000000006e6f746573"
)


def test_golden_bytes() -> None:
    assert pack_all(RECORDS[:2]) == GOLDEN


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_packed_is_unpacked(record: Record) -> None:
    assert list(unpack(pack(record))) == [record]


def test_every_byte_counts() -> None:
    data = pack_all(RECORDS)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with pytest.raises(IntegrityError):
            list(unpack(bytes(damaged)))
