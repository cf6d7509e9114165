# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The names of a working set's blocks, read as far as they are of use.

A cache that had another boot of the same image knows most of the blocks. One that had other images
knows only those of a common base, which a machine touches first. All names of `speech` are a
megabyte. So they are read in pieces, each as long as all before it together, until a piece has
hardly a name that the cache knows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from chunkstore import split_refs
from replica import Frame, names_extent
from satchel.ids import CHUNK_REF_SIZE, ZERO_REF
from surrogate.fetching import ChunksUnavailable
from wire import Priority

logger = logging.getLogger(__name__)

FIRST_NAMES = 315
"""Of the first piece: four blocks."""

LEAST_KNOWN = 1 / 16
"""A piece of which the cache knows less than this part is the last one: a name has 52 bytes, and a
block in a frame has about 1,300."""


class BlockNames:
    """Of one blob. Thread-safe."""

    def __init__(
        self,
        frames: Sequence[Frame],
        read: Callable[[int, int, Priority], bytes],
        has: Callable[[bytes], Sequence[bool]],
    ) -> None:
        """read: so many bytes of the blob from an offset on; it may raise ChunksUnavailable, after
        which no more is read. has: which of these names the cache knows."""
        self._frames = frames
        self._offset, self._length = names_extent(frames)
        self._read, self._has = read, has
        self._reading = threading.Lock()
        self._read_on = self._length > 0
        self._names = b""

    def ahead(self, number: int) -> bytes:
        """The names of a frame's blocks, once the piece that they are in is here; nothing where it
        is not going to be."""
        _, end = self._extent(number)
        with self._reading:
            while self._read_on and len(self._names) < end:
                at = len(self._names)
                size = max(at, FIRST_NAMES * CHUNK_REF_SIZE)
                piece = self._piece(at, min(size, self._length - at), Priority.PREFETCH)
                self._names += piece
                self._read_on &= self._of_use(piece)
        return self._here(number)

    def at_once(self, number: int) -> bytes:
        """The same for a miss, which waits for no other frame's names."""
        begin, end = self._extent(number)
        if not self._read_on or len(self._names) >= end:
            return self._here(number)
        return self._piece(begin, end - begin, Priority.DEMAND)

    def _extent(self, number: int) -> tuple[int, int]:
        """Where a frame's names begin and end among all names; both are 0 where there are none."""
        frame = self._frames[number]
        if frame.names is None:
            return 0, 0
        begin = frame.names - self._offset
        return begin, begin + frame.count * CHUNK_REF_SIZE

    def _here(self, number: int) -> bytes:
        begin, end = self._extent(number)
        return self._names[begin:end] if end <= len(self._names) else b""

    def _piece(self, at: int, size: int, priority: Priority) -> bytes:
        try:
            names = self._read(self._offset + at, size, priority)
        except ChunksUnavailable as error:
            logger.info("a working set is used without its names: %s", error)
            self._read_on = False
            return b""
        return names

    def _of_use(self, names: bytes) -> bool:
        asked = b"".join(ref for ref in split_refs(names) if ref != ZERO_REF)
        known = sum(self._has(asked)) * CHUNK_REF_SIZE
        return known >= LEAST_KNOWN * len(asked)
