# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations in a log that only who has the log's secret can read.

Such an operation is in the log as another one: with its number, time and seed 0, and this payload.

    offset size
     0    12   nonce, drawn for this record
    12     n   AES-256-GCM under the secret, with the number (u64) as additional data, of: the
               length of the operation's record (u32), the record, zeros
    12+n  16   tag

The zeros pad what is sealed to a multiple of 256, and of a sixteenth of its largest power of two:
for example, 5000 bytes to 5120. Who reads the medium learns how many operations there are, when
they came if he looks twice, and about how long each is. The page is docs/formats/sealed.md.
"""

from __future__ import annotations

import secrets
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from replay.operations import MAX_PAYLOAD, Operation, RecordInvalid

NONCE_SIZE = 12
TAG_SIZE = 16
STEP = 256

_LENGTH = struct.Struct("<I")
_NUMBER = struct.Struct("<Q")
_MOST = MAX_PAYLOAD - NONCE_SIZE - TAG_SIZE


def conceal(secret: bytes, operation: Operation) -> Operation:
    """The operation that is logged in the place of this one. Raises UsageError for a payload of
    nearly MAX_PAYLOAD, which has no room for what is added."""
    record = operation.encode()
    plain = _LENGTH.pack(len(record)) + record
    step = max(STEP, 1 << (len(plain).bit_length() - 5))
    plain = plain.ljust(min(-(-len(plain) // step) * step, _MOST), b"\0")
    nonce = secrets.token_bytes(NONCE_SIZE)
    sealed = AESGCM(secret).encrypt(nonce, plain, _NUMBER.pack(operation.number))
    return Operation(operation.number, 0, 0, nonce + sealed)


def reveal(secret: bytes, kept: Operation) -> Operation:
    """What `conceal` was given. RecordInvalid where it was not under this secret."""
    nonce, sealed = kept.payload[:NONCE_SIZE], kept.payload[NONCE_SIZE:]
    try:
        plain = AESGCM(secret).decrypt(nonce, sealed, _NUMBER.pack(kept.number))
        (length,) = _LENGTH.unpack_from(plain)
    except (InvalidTag, ValueError, struct.error) as error:
        raise RecordInvalid(
            f"operation {kept.number}: it does not open",
            why="it was not written with the medium's key",
        ) from error
    operation = Operation.decode(plain[_LENGTH.size : _LENGTH.size + length])
    if operation.number != kept.number:
        raise RecordInvalid(f"operation {kept.number}: it is operation {operation.number}")
    return operation


def opens(secret: bytes, kept: Operation) -> bool:
    """Whether somebody with the secret concealed it."""
    try:
        reveal(secret, kept)
    except RecordInvalid:
        return False
    return True
