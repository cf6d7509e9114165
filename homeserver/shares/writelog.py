# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What was written to blocks that another node owns, until home has the blocks themselves (MEFS,
Scotece et al., Section IV.B). docs/formats/share-log.md.

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
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overlay.coherence import BLOCK, FileId
from satchel.errors import UnsupportedError
from satchel.files import sync_folder, write_durably

log = logging.getLogger(__name__)

VERSION = 1
MAGIC = b"SATSHLOG"
HEADER = struct.Struct("<8sII")
RECORD = struct.Struct("<IIBQqI")

WRITTEN, OVER = 1, 2

COMPACT_BYTES = 16 << 20
"""A log of this size, half of which is over, is written anew."""


@dataclass(frozen=True)
class Written:
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


class WriteLog:
    """The write log of one share. Thread-safe.

    What is appended is read again after the end of the process; after a power cut, if `sync` had
    returned. Of a log that is torn or damaged, what comes before that counts; the damaged file is
    kept beside it.
    """

    def __init__(self, path: Path) -> None:
        """Open or make it. Raises OSError, UnsupportedError for a version that is not known."""
        self._path = path
        self._lock = threading.Lock()
        self._live: dict[tuple[FileId, int], list[Written]] = {}
        self._bytes = 0
        if not path.exists():
            write_durably(path, HEADER.pack(MAGIC, VERSION, 0))
        data = path.read_bytes()
        self._end = self._recover(data)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        if self._end < len(data):
            os.ftruncate(self._file, self._end)

    def close(self) -> None:
        with self._lock:
            os.fsync(self._file)
            os.close(self._file)

    def append(self, file: FileId, block: int, offset: int, data: bytes) -> None:
        """Raises OSError; nothing is appended then."""
        with self._lock:
            self._write(_record(WRITTEN, file, block, offset, data))
            self._note(file, block, Written(offset, data, time.monotonic()))

    def over(self, file: FileId, first: int, count: int) -> None:
        """Home has these blocks (0: all of the file), durably: what the log says of them is over.
        Costs nothing where it says nothing."""
        with self._lock:
            keys = self._keys(file, first, count)
            if keys:
                self._write(_record(OVER, file, first, count, b""))
                self._drop(keys)
                self._compact()

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

    def written(self, file: FileId, block: int) -> list[Written]:
        """In the order in which it was."""
        with self._lock:
            return list(self._live.get((file, block), ()))

    def sync(self) -> None:
        """Returns when all that was appended is durable."""
        with self._lock:
            file = os.dup(self._file)
        try:
            os.fdatasync(file)
        finally:
            os.close(file)

    def lag(self) -> Lag:
        with self._lock:
            parts = [part for written in self._live.values() for part in written]
            oldest = min((part.at for part in parts), default=time.monotonic())
            return Lag(len(parts), self._bytes, time.monotonic() - oldest)

    def _recover(self, data: bytes) -> int:
        """Take up what the file says; where that ends."""
        if len(data) < HEADER.size or not data.startswith(MAGIC):
            self._keep_aside("it does not begin like one")
            write_durably(self._path, HEADER.pack(MAGIC, VERSION, 0))
            return HEADER.size
        _, version, _ = HEADER.unpack_from(data)
        if version != VERSION:
            raise UnsupportedError(
                f"cannot read the write log {self._path} of version {version}",
                why=f"this program knows version {VERSION}",
                fix="use the Satchel that wrote it",
            )
        end = HEADER.size
        for kind, file, block, place, part, after in _records(data):
            if kind == WRITTEN:
                self._note(file, block, Written(place, part, time.monotonic()))
            else:
                self._drop(self._keys(file, block, place))
            end = after
        if end < len(data):
            self._keep_aside(f"it is torn or damaged at byte {end}")
        return end

    def _keep_aside(self, why: str) -> None:
        aside = self._path.with_name(self._path.name + ".damaged")
        aside.write_bytes(self._path.read_bytes())
        log.warning("write log %s: %s; it is kept as %s", self._path, why, aside.name)

    def _note(self, file: FileId, block: int, part: Written) -> None:
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

    def _write(self, record: bytes) -> None:
        try:
            written = os.pwrite(self._file, record, self._end)
            if written < len(record):
                raise OSError(28, os.strerror(28))
        except OSError:
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(record)

    def _compact(self) -> None:
        if not self._live and self._end > 1 << 16:
            os.ftruncate(self._file, HEADER.size)
            self._end = HEADER.size
        elif self._end > COMPACT_BYTES and self._bytes < self._end // 2:
            records = [
                _record(WRITTEN, file, block, part.offset, part.data)
                for (file, block), parts in self._live.items()
                for part in parts
            ]
            data = HEADER.pack(MAGIC, VERSION, 0) + b"".join(records)
            write_durably(self._path, data)
            os.close(self._file)
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            self._end = len(data)
            sync_folder(self._path.parent)


def _record(kind: int, file: FileId, block: int, place: int, data: bytes) -> bytes:
    rest = RECORD.pack(0, len(data), kind, file, block, place)[4:] + data
    return struct.pack("<I", zlib.crc32(rest)) + rest


def _records(data: bytes) -> Iterator[tuple[int, FileId, int, int, bytes, int]]:
    """Kind, file, block, place, data, and where the record ends; up to the first that is none."""
    at = HEADER.size
    while at + RECORD.size <= len(data):
        crc, length, kind, file, block, place = RECORD.unpack_from(data, at)
        end = at + RECORD.size + length
        if length > BLOCK or end > len(data) or zlib.crc32(data[at + 4 : end]) != crc:
            return
        if kind not in (WRITTEN, OVER) or (kind == WRITTEN and place + length > BLOCK):
            return
        yield kind, FileId(file), block, place, data[at + RECORD.size : end], end
        at = end
