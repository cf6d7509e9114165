# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a log were written by whoever has the log's key.

A CRC finds accidents. Whoever can write a medium can write records with good CRCs, so each record
in a segment is followed by a seal: an HMAC-SHA256 under the key.

    seal(n) = HMAC(key, seal(n - 1) + record(n))

So a record cannot be changed, moved, left out in the middle or appended without the key. The end of
a log can be cut off, and what was there on another day can be put back: a seal says who wrote, not
when. A log that is written without a key has zeros for seals.
"""

from __future__ import annotations

import hmac
import secrets
import struct
import zlib
from collections.abc import Collection
from pathlib import Path

from satchel.errors import IntegrityError
from satchel.files import write_durably
from satchel.ids import OperationNumber

SEAL_SIZE = 32
KEY_SIZE = 32
TRAILER_SIZE = SEAL_SIZE + 4
"""What follows a record in a segment: the seal, and the CRC-32 of it, by which a seal that a power
cut tore is told from a wrong one."""

UNSEALED = bytes(SEAL_SIZE)
"""The seal of a record that was written without a key, and the one before a log's first record."""

_CRC = struct.Struct("<I")


class OperationsDoubtful(IntegrityError):
    """A log has operations without a valid seal of the service's key.

    numbers: theirs, at least one; where: of the log
    """

    def __init__(self, numbers: Collection[OperationNumber], where: Path, fix: str) -> None:
        first, count = min(numbers), len(numbers)
        super().__init__(
            f"{count} operations in the log {where} are not known to be yours, from {first} on",
            why="they lack the seal of the service's key: somebody else wrote them, or a client "
            "that had not met home yet",
            fix=fix,
        )
        self.numbers = frozenset(numbers)


def kept_key(path: Path) -> bytes:
    """The key in that file; the file is made, with a new key, where there is none. Raises OSError,
    IntegrityError for a file that has something else."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = secrets.token_bytes(KEY_SIZE)
        write_durably(path, key, mode=0o600)
    if len(key) != KEY_SIZE:
        raise IntegrityError(
            f"cannot use the key in {path}",
            why=f"it has {len(key)} bytes, not {KEY_SIZE}",
            fix=f"put it back from a copy, or `rm {path}`: logs on media then have to be accepted",
        )
    return key


def seal(key: bytes | None, before: bytes, record: bytes) -> bytes:
    """The seal of a record behind one whose seal is `before`."""
    return UNSEALED if key is None else hmac.digest(key, before + record, "sha256")


def encode_trailer(sealed: bytes) -> bytes:
    """The bytes that follow a record."""
    return sealed + _CRC.pack(zlib.crc32(sealed))


def decode_trailer(trailer: bytes) -> bytes | None:
    """The seal in exactly these bytes; None where they are cut short or damaged."""
    sealed = trailer[:SEAL_SIZE]
    whole = len(trailer) == TRAILER_SIZE and trailer[SEAL_SIZE:] == _CRC.pack(zlib.crc32(sealed))
    return sealed if whole else None
