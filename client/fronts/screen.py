# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a desktop shows, kept on this device, from where viewers are served.

Two layers: what the screen was when it had settled, by the last answer, and over it what is said of
the operation under way, which may be another one than the answer says: an answer takes it away.
"""

from __future__ import annotations

import hashlib

from replay.adapters import rfb

Area = tuple[int, int, int, int]
"""x, y, width, height; of a tile."""


class Screen:
    """Not thread-safe."""

    def __init__(self, width: int, height: int) -> None:
        """A black one, which shows nothing yet."""
        self.width = width
        self.height = height
        self.areas: list[Area] = list(rfb.tiles(self.width, self.height))
        self.cursor: rfb.Rectangle | None = None
        self._pixels = bytearray(self.width * self.height * rfb.PIXEL)
        self._digests = [b""] * len(self.areas)
        self._number = {area: number for number, area in enumerate(self.areas)}
        self._over: dict[Area, bytes] = {}

    def foresee(self, update: rfb.ScreenUpdate) -> set[Area]:
        """Show over the settled screen what an answer is going to bring, and what another one was,
        no more. The tiles that look otherwise now; none where it does not go with this screen."""
        if (update.width, update.height) != (self.width, self.height) or update.failed:
            return set()
        parts = [part for part in update.rectangles if part.encoding == rfb.RAW]
        over = {(part.x, part.y, part.width, part.height): part.data for part in parts}
        if not over.keys() <= self._number.keys():
            return set()
        before, self._over = self._over, over
        either = before.keys() | over.keys()
        return {area for area in either if before.get(area) != over.get(area)}

    def apply(self, update: rfb.ScreenUpdate) -> bool:
        """Show what an answer brings. Whether that is what the replica shows; if not, the next
        operation must ask for the whole screen. Nothing is foreseen any more."""
        self._over = {}
        if (update.width, update.height) != (self.width, self.height):
            return False
        for part in update.rectangles:
            if part.encoding == rfb.CURSOR:
                self.cursor = part
                continue
            number = self._number.get((part.x, part.y, part.width, part.height))
            if number is None:
                return False
            self._digests[number] = hashlib.sha256(part.data).digest()
            size = part.width * rfb.PIXEL
            for row, start in enumerate(self._rows(self.areas[number])):
                self._pixels[start : start + size] = part.data[row * size : (row + 1) * size]
        return self.digest() == update.digest

    def tiles(self, update: rfb.ScreenUpdate) -> set[Area]:
        """Which of this screen's tiles an answer brings, or takes back as they were foreseen; not
        those that were foreseen as it brings them."""
        brought = {(p.x, p.y, p.width, p.height): p.data for p in update.rectangles}
        good = {area for area, data in self._over.items() if brought.get(area) == data}
        return (brought.keys() & self._number.keys() | self._over.keys()) - good

    def digest(self) -> bytes:
        """See `rfb.screen_digest`."""
        return rfb.screen_digest(self._digests)

    def content(self, area: Area) -> bytes:
        """The pixels of a tile as it is shown, row by row."""
        if area in self._over:
            return self._over[area]
        size = area[2] * rfb.PIXEL
        return b"".join([self._pixels[start : start + size] for start in self._rows(area)])

    def _rows(self, area: Area) -> range:
        x, y, _, height = area
        stride = self.width * rfb.PIXEL
        return range(y * stride + x * rfb.PIXEL, (y + height) * stride, stride)
