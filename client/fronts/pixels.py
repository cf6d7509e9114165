# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Pixels as a desktop has them (blue, green, red, a byte of no meaning) into those of a viewer."""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass

from satchel.errors import UnsupportedError

_FORMAT = struct.Struct(">BBBBHHHBBBxxx")
_CODES = {8: "B", 16: "H", 32: "I"}
_MAP_MAXIMA, _MAP_SHIFTS = (7, 7, 3), (0, 3, 6)

COLOUR_MAP = b"".join(
    struct.pack(
        ">3H", (place & 7) * 65535 // 7, (place >> 3 & 7) * 65535 // 7, (place >> 6) * 21845
    )
    for place in range(256)
)
"""For viewers that want one: red, green and blue of each of its 256 places, in 16 bits each."""


@dataclass(frozen=True)
class PixelFormat:
    """RFB's PIXEL_FORMAT (RFC 6143, 7.4). maxima, shifts: of red, green, blue. mapped: pixels are
    places in COLOUR_MAP, which is so ordered that maxima and shifts lead there."""

    bits: int
    big_endian: bool
    maxima: tuple[int, int, int]
    shifts: tuple[int, int, int]
    mapped: bool = False

    @classmethod
    def decode(cls, data: bytes) -> PixelFormat:
        """From its 16 bytes. Raises UnsupportedError for what is no format of RFC 6143."""
        bits, _, big, true, *rest = _FORMAT.unpack(data)
        maxima, shifts = tuple(rest[:3]), tuple(rest[3:])
        if not true:
            maxima, shifts = _MAP_MAXIMA, _MAP_SHIFTS
        reach = [maximum << shift for maximum, shift in zip(maxima, shifts, strict=True)]
        if bits not in _CODES or sum(reach) >> bits:
            raise UnsupportedError("a viewer wants pixels that are not made here", why=data.hex())
        return cls(bits, bool(big), maxima, shifts, not true)

    def encode(self) -> bytes:
        """Its 16 bytes."""
        depth = sum(maximum.bit_length() for maximum in self.maxima)
        true = not self.mapped
        return _FORMAT.pack(self.bits, depth, self.big_endian, true, *self.maxima, *self.shifts)

    def convert(self, pixels: bytes) -> bytes:
        """Pixels of a desktop in this format."""
        if self == NATIVE:
            return pixels
        if (
            self.bits == 32
            and self.maxima == (255, 255, 255)
            and not any(s % 8 for s in self.shifts)
        ):
            return self._moved(pixels)
        known: dict[int, int] = {}
        native = array("I", pixels)
        if sys.byteorder == "big":
            native.byteswap()
        made = array(_CODES[self.bits])
        for pixel in native:
            if pixel not in known:
                known[pixel] = self._one(pixel)
            made.append(known[pixel])
        if self.big_endian != (sys.byteorder == "big"):
            made.byteswap()
        return made.tobytes()

    def _moved(self, pixels: bytes) -> bytes:
        """The same three bytes in another order. noVNC 1.3 takes the fourth one, which means
        nothing, for how opaque a pixel is, so it says entirely."""
        made = bytearray(b"\xff") * len(pixels)
        for source, shift in zip((2, 1, 0), self.shifts, strict=True):
            at = 3 - shift // 8 if self.big_endian else shift // 8
            made[at::4] = pixels[source::4]
        return bytes(made)

    def _one(self, pixel: int) -> int:
        colours = (pixel >> 16 & 255, pixel >> 8 & 255, pixel & 255)
        parts = zip(colours, self.maxima, self.shifts, strict=True)
        return sum((colour * maximum + 127) // 255 << shift for colour, maximum, shift in parts)


NATIVE = PixelFormat(32, False, (255, 255, 255), (16, 8, 0))
"""What a desktop has."""
