# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What block -1 of a file holds: size and times, as 40 bytes and zeros after them.

offset  size
0       8     version of the format: 1 or 2, little-endian as all of them
8       8     size in bytes
16      8     accessed, in nanoseconds since 1970, signed
24      8     modified
32      8     changed

Nanoseconds reach from 1677 to 2262. If a time is not among them the version is 2, and the times are
microseconds. The bits of the version from 16 on are then the nanoseconds above the microsecond, 10
bits for each time in the same order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from satchel.errors import IntegrityError
from shares.node.operations import Attributes

BLOCK = 4096
NANOSECONDS, MICROSECONDS = 1, 2
PARTS = (16, 26, 36)
"""The first bit of the nanoseconds of each time, in version 2."""

LAYOUT = struct.Struct("<QQqqq")
LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Extent:
    """Size in bytes, times in nanoseconds since 1970."""

    size: int
    accessed: int
    modified: int
    changed: int

    @classmethod
    def of(cls, attributes: Attributes) -> Extent:
        """That part of them."""
        return cls(attributes.size, attributes.accessed, attributes.modified, attributes.changed)

    @classmethod
    def unpack(cls, block: bytes) -> Extent:
        """Raises IntegrityError for what is none."""
        if len(block) < LAYOUT.size:
            raise IntegrityError("a block -1 is too short", why=f"it has {len(block)} bytes")
        version, size, *times = LAYOUT.unpack_from(block)
        form = version & 0xFFFF
        parts = [version >> bit & 0x3FF for bit in PARTS]
        bare = version == form if form == NANOSECONDS else version >> 46 == 0 and max(parts) < 1000
        if form not in (NANOSECONDS, MICROSECONDS) or not bare or size > LARGEST:
            why = f"version {version}, size {size}"
            raise IntegrityError("a block -1 has no size and times", why=why)
        if form == MICROSECONDS:
            times = [time * 1000 + part for time, part in zip(times, parts, strict=True)]
        return cls(size, *times)

    def pack(self) -> bytes:
        """A whole block."""
        version, times = NANOSECONDS, (self.accessed, self.modified, self.changed)
        if any(time != clamped(time) for time in times):
            version = MICROSECONDS
            for bit, time in zip(PARTS, times, strict=True):
                version |= time % 1000 << bit
            times = tuple(clamped(time // 1000) for time in times)  # type: ignore[assignment]
        return LAYOUT.pack(version, self.size, *times).ljust(BLOCK, b"\0")

    def onto(self, attributes: Attributes) -> Attributes:
        """Those attributes with this size and these times."""
        return replace(
            attributes,
            size=self.size,
            accessed=self.accessed,
            modified=self.modified,
            changed=self.changed,
        )


def clamped(number: int) -> int:
    """The nearest number that 64 bits and a sign hold."""
    return max(-LARGEST - 1, min(number, LARGEST))
