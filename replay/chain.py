# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a log were written by whoever has the log's key.

A CRC finds accidents. Whoever can write a medium can write records with good CRCs, so each record
in a segment is followed by a seal: an HMAC-SHA256 under the key.

    seal(n) = HMAC(key, seal(n - 1) + record(n))

So a record cannot be changed, moved, left out in the middle or appended without the key. The end of
a log can be cut off, and what was there on another day can be put back: a seal says who wrote, not
when. A log that is written without a key has zeros for seals.

The key changes, and each segment names the epoch of its key. A thief with an earlier key can still
write under it. So operations of an earlier epoch count only if a later key vouches for them: the
header of a segment has a seal over the seal of the record before it, which depends on all earlier
records. If a key was changed only because it was old, they count for a limited time without that.
"""

from __future__ import annotations

import hmac
import re
import secrets
import struct
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from satchel.errors import IntegrityError
from satchel.files import write_durably
from satchel.ids import OperationNumber
from satchel.timestamps import format_timestamp, timestamp_now

SEAL_SIZE = 32
KEY_SIZE = 32
KEYS_KEPT = 8
"""Keys of a ring: operations are on media until a later checkpoint, and not for years."""

FIRST_MOMENT = "1970-01-01T00:00:00.000000+00:00"
"""When a key of version 1 was made, which does not say it."""

RING_LIMIT = 4096
_RING_HEAD = "satchel log keys 2\n"
_MOMENT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00"
_ROW = re.compile(rf"([1-9][0-9]{{0,8}}) ({_MOMENT}) ({_MOMENT}|-) ([0-9a-f]{{64}})")

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
            why="they lack the seal of the service's current key: somebody else wrote them, or a "
            "client that had not met home yet, or not since the key was changed",
            fix=fix,
        )
        self.numbers = frozenset(numbers)


@dataclass(frozen=True)
class LogKey:
    """One key of a service's log. epoch: 1 for the first one, and one more for each later one.
    created, until: moments, as satchel.timestamps writes them. Operations sealed by the key alone
    count up to `until`; the current key has None."""

    epoch: int
    key: bytes = field(repr=False)
    created: str
    until: str | None = None


@dataclass(frozen=True)
class KeyRing:
    """The keys of a service's log, the current one last. docs/formats/home.md has the file."""

    keys: tuple[LogKey, ...]

    @classmethod
    def new(cls) -> KeyRing:
        """Return a ring with one random key."""
        return cls((LogKey(1, secrets.token_bytes(KEY_SIZE), timestamp_now()),))

    @property
    def current(self) -> LogKey:
        """The key that seals new operations."""
        return self.keys[-1]

    def key(self, epoch: int) -> bytes | None:
        """Return the key of an epoch; None if the ring has none."""
        return next((one.key for one in self.keys if one.epoch == epoch), None)

    def trusts(self, epoch: int) -> bool:
        """Whether operations that only the key of this epoch has sealed count now."""
        now = timestamp_now()
        return any(one.epoch == epoch and (not one.until or now < one.until) for one in self.keys)

    def changed(self, days: int = 0) -> KeyRing:
        """Return the ring with one more key. The earlier keys count for so many days still."""
        until = format_timestamp(datetime.now(UTC) + timedelta(days=days))
        old = [replace(one, until=min(one.until or until, until)) for one in self.keys]
        new = LogKey(self.current.epoch + 1, secrets.token_bytes(KEY_SIZE), timestamp_now())
        return KeyRing((*old[1 - KEYS_KEPT :], new))

    def to_bytes(self) -> bytes:
        """Return the content of its file."""
        rows = (f"{o.epoch} {o.created} {o.until or '-'} {o.key.hex()}\n" for o in self.keys)
        return (_RING_HEAD + "".join(rows)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyRing:
        """Parse a file, also one of version 1: the 32 bytes of the only key. Raises
        IntegrityError."""
        if len(data) == KEY_SIZE:
            return cls((LogKey(1, data, FIRST_MOMENT),))
        text = data[:RING_LIMIT].decode("ascii", "replace")
        rows = [_ROW.fullmatch(row) for row in text.removeprefix(_RING_HEAD).split("\n")[:-1]]
        found = tuple(
            LogKey(int(row[1]), bytes.fromhex(row[4]), row[2], None if row[3] == "-" else row[3])
            for row in rows
            if row
        )
        ring = cls(found)
        epochs = [one.epoch for one in found]
        if not found or ring.to_bytes() != data or epochs != sorted(set(epochs)):
            raise IntegrityError(
                "these are not the keys of a log",
                why=f"it has {len(data)} bytes, and is not what this version writes",
            )
        return ring


def kept_keys(path: Path) -> KeyRing:
    """Return the keys in that file. Make the file, with a new key, if it is missing. Raises
    OSError, IntegrityError for a file with another content."""
    try:
        return KeyRing.from_bytes(path.read_bytes())
    except FileNotFoundError:
        ring = KeyRing.new()
        write_durably(path, ring.to_bytes(), mode=0o600)
        return ring
    except IntegrityError as error:
        raise IntegrityError(
            f"cannot use the keys in {path}",
            why=error.why,
            fix=f"put it back from a copy, or `rm {path}`: logs on media then have to be accepted",
        ) from error


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
