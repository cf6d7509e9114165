# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What was written to blocks that another node owns, until home has the blocks themselves (MEFS,
Scotece et al., Section IV.B). docs/formats/share.md.

    header    magic "SATSHLOG", version (4), zero (4)
    record    CRC-32 of the rest (4), length of the data (4), kind (1), file (8), block (8, signed),
              place (4), data
    kind 1    `data` was written at `place` in the block
    kind 2    of `place` blocks from `block` on, of all blocks for 0, what comes before is over
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from satchel.record_file import Fields, RecordFile, RecordFormat
from shares.protocol import BLOCK, FileId

logger = logging.getLogger(__name__)

FORMAT = RecordFormat("write log", b"SATSHLOG", 1, struct.Struct("<BQqI"), BLOCK)

WRITTEN, OVER = 1, 2

ALL = 1 << 31
"""More blocks than there are behind any."""

COMPACT_BYTES = 16 << 20
"""A log of this size, half of which is over, is written anew."""


@dataclass(frozen=True)
class LoggedWrite:
    """`data` at `offset` in a block; at: monotonic time."""

    offset: int
    data: bytes
    at: float


@dataclass(frozen=True)
class Lag:
    """What home would have to replay: records, bytes, and since when in seconds."""

    records: int
    bytes: int
    seconds: float


_Record = tuple[Fields, bytes]


class WriteLog:
    """The write log of one share, as durable as RecordFile says. Thread-safe.

    What is over is over here at once. Where that cannot be said in the file, because the disk is
    full, it is said before whatever is appended next.
    """

    def __init__(self, path: Path) -> None:
        """Open or make it. Raises OSError, UnsupportedError for a version that is not known."""
        self._lock = threading.Lock()
        self._live: dict[tuple[FileId, int], list[LoggedWrite]] = {}
        self._bytes = 0
        self._unsaid: list[_Record] = []
        self._file = RecordFile.open_or_replace(path, FORMAT, self._take)

    def close(self) -> None:
        with self._lock:
            with suppress(OSError):
                self._extend([])
            self._file.close()

    def append(self, file: FileId, block: int, offset: int, data: bytes) -> None:
        """Raises OSError; nothing is appended then."""
        with self._lock:
            self._extend([((WRITTEN, file, block, offset), data)])
            self._note(file, block, LoggedWrite(offset, data, time.monotonic()))

    def over(self, file: FileId, first: int, count: int) -> None:
        """Home has these blocks (0: all of the file), durably: what the log says of them is over.
        Costs nothing where it says nothing."""
        with self._lock:
            keys = self._keys(file, first, count)
            if keys:
                self._drop(keys)
                self._say([((OVER, file, first, count), b"")])

    def cut(self, file: FileId, size: int) -> None:
        """Home has made the file that long: what was written behind it is over, and what was
        written across it ends there."""
        first, rest = divmod(size, BLOCK)
        with self._lock:
            keys = self._keys(file, first, ALL)
            if not keys:
                return
            across = self._live.get((file, first), ())
            kept = [replace(p, data=p.data[: rest - p.offset]) for p in across if p.offset < rest]
            self._drop(keys)
            for part in kept:
                self._note(file, first, part)
            written = [((WRITTEN, file, first, part.offset), part.data) for part in kept]
            self._say([((OVER, file, first, ALL), b""), *written])

    def has(self, file: FileId, block: int) -> bool:
        with self._lock:
            return (file, block) in self._live

    def blocks(self, file: FileId) -> list[int]:
        """Of which blocks there is something."""
        with self._lock:
            return sorted(block for key, block in self._live if key == file)

    def files(self) -> list[FileId]:
        with self._lock:
            return sorted({file for file, _ in self._live})

    def written(self, file: FileId, block: int) -> list[LoggedWrite]:
        """In the order in which it was."""
        with self._lock:
            return list(self._live.get((file, block), ()))

    def sync(self) -> None:
        """Returns when all that was appended is durable."""
        with self._lock:
            file = self._file.duplicate()
        try:
            os.fdatasync(file)
        finally:
            os.close(file)

    def lag(self) -> Lag:
        with self._lock:
            parts = [part for written in self._live.values() for part in written]
            oldest = min((part.at for part in parts), default=time.monotonic())
            return Lag(len(parts), self._bytes, time.monotonic() - oldest)

    def _take(self, fields: tuple[int, int, int, int], _: int, data: bytes) -> bool:
        kind, file, block, place = fields
        if kind not in (WRITTEN, OVER) or (kind == WRITTEN and place + len(data) > BLOCK):
            return False
        if kind == WRITTEN:
            self._note(FileId(file), block, LoggedWrite(place, data, time.monotonic()))
        else:
            self._drop(self._keys(FileId(file), block, place))
        return True

    def _note(self, file: FileId, block: int, part: LoggedWrite) -> None:
        kept = self._live.setdefault((file, block), [])
        if part.offset == 0 and len(part.data) == BLOCK:  # all of the block: the rest is over
            self._bytes -= sum(len(old.data) for old in kept)
            kept.clear()
        kept.append(part)
        self._bytes += len(part.data)

    def _keys(self, file: FileId, first: int, count: int) -> list[tuple[FileId, int]]:
        if 0 < count <= len(self._live):
            wanted = ((file, block) for block in range(first, first + count))
            return [key for key in wanted if key in self._live]
        return [
            (key, block)
            for key, block in self._live
            if key == file and (not count or first <= block < first + count)
        ]

    def _drop(self, keys: list[tuple[FileId, int]]) -> None:
        for key in keys:
            self._bytes -= sum(len(part.data) for part in self._live.pop(key))

    def _extend(self, records: Iterable[_Record]) -> None:
        self._file.extend([*self._unsaid, *records])
        self._unsaid.clear()

    def _say(self, records: list[_Record]) -> None:
        """What counts here already; in the file now, or later."""
        try:
            self._extend(records)
        except OSError as error:
            if not self._unsaid:
                logger.error("%s: %s", self._file.path, error)
            self._unsaid += records
        self._compact()

    def _compact(self) -> None:
        size = self._file.end
        if not self._live and (self._unsaid or size > 1 << 16):
            self._file.clear()  # takes no room
            self._unsaid.clear()
        elif not self._unsaid and size > COMPACT_BYTES and self._bytes < size // 2:
            try:
                self._file.rewrite(self._records())
            except OSError as error:
                logger.error("%s: %s", self._file.path, error)

    def _records(self) -> Iterator[_Record]:
        for (file, block), parts in self._live.items():
            for part in parts:
                yield (WRITTEN, file, block, part.offset), part.data
