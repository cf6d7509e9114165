# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
import random

import pytest

from replay import Operation, RecordInvalid, Response
from satchel.errors import UsageError
from satchel.ids import OperationNumber

OPERATION = Operation(OperationNumber(7), 1_700_000_000_123_456_789, 0xFEDCBA9876543210, b"hello")
GOLDEN = bytes.fromhex(
    "5341544f 05000000 0700000000000000 15cd853dfe9c9717 1032547698badcfe 86a61036 292e93b5"
    "68656c6c6f"
)


def test_record_golden_bytes() -> None:
    assert OPERATION.encode() == GOLDEN
    assert Operation.decode(GOLDEN) == OPERATION
    assert OPERATION.record_size == len(GOLDEN)


def test_empty_payload() -> None:
    operation = Operation(OperationNumber(1), 0, 0, b"")
    assert Operation.decode(operation.encode()) == operation


def test_every_flipped_byte_is_noticed() -> None:
    for at in range(len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[at] ^= 0x20
        with pytest.raises(RecordInvalid):
            Operation.decode(bytes(damaged))


def test_every_truncation_and_extension_is_noticed() -> None:
    for size in range(len(GOLDEN)):
        with pytest.raises(RecordInvalid):
            Operation.decode(GOLDEN[:size])
    with pytest.raises(RecordInvalid):
        Operation.decode(GOLDEN + b"\0")


def test_noise_is_refused() -> None:
    noise = random.Random(1)
    for _ in range(200):
        with pytest.raises(RecordInvalid):
            Operation.decode(noise.randbytes(noise.randrange(100)))


@pytest.mark.parametrize(
    ("number", "time_ns", "seed"), [(0, 0, 0), (-1, 0, 0), (1, -1, 0), (1, 0, 1 << 64)]
)
def test_numbers_that_do_not_fit_are_refused(number: int, time_ns: int, seed: int) -> None:
    with pytest.raises(UsageError):
        Operation(OperationNumber(number), time_ns, seed, b"")


def test_digest_is_sha256() -> None:
    assert Response(OperationNumber(1), b"abc").digest == hashlib.sha256(b"abc").digest()
