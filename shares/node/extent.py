# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What block -1 of a file holds: size and times, as 40 bytes and zeros after them.

offset  size
0       8     version of the format: 1, little-endian as all of them
8       8     size in bytes
16      8     accessed, in nanoseconds since 1970, signed
24      8     modified
32      8     changed
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from satchel.errors import IntegrityError
from shares.node.operations import Attributes

BLOCK = 4096
VERSION = 1
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
        version, size, accessed, modified, changed = LAYOUT.unpack_from(block)
        if version != VERSION or size > LARGEST:
            why = f"version {version}, size {size}"
            raise IntegrityError("a block -1 has no size and times", why=why)
        return cls(size, accessed, modified, changed)

    def pack(self) -> bytes:
        """A whole block."""
        fields = (VERSION, self.size, self.accessed, self.modified, self.changed)
        return LAYOUT.pack(*fields).ljust(BLOCK, b"\0")

    def onto(self, attributes: Attributes) -> Attributes:
        """Those attributes with this size and these times."""
        return replace(
            attributes,
            size=self.size,
            accessed=self.accessed,
            modified=self.modified,
            changed=self.changed,
        )
