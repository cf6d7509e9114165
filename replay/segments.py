# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One file of an operation log: a header, then records. The page is docs/formats/log.md.

offset size
 0     8   magic, "SATCHLOG"
 8     4   version, 2; 1 had no room at its end
12     4   flags; bit 0 (BASE): everything before `first` was cut, older segments are leftovers
16     8   number of the first operation, which is also the file's name
24     4   0
28     4   CRC-32 (zlib) of bytes 0 to 27
32         records; see replay/operations.py
           zeros: room for more records, until the end of the file; there may be none

The room is there from the beginning, so that an append changes a file's content and nothing else:
FAT has no journal, and a file that gets another cluster may come apart when the power goes.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path

from replay.operations import (
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    Operation,
    RecordHeader,
    RecordInvalid,
)
from satchel.errors import (
    NO_ROOM,
    AccessError,
    CapacityError,
    IntegrityError,
    UnavailableError,
    UnsupportedError,
)
from satchel.ids import OperationNumber

SEGMENT_MAGIC = b"SATCHLOG"
SEGMENT_VERSION = 2
SEGMENT_HEADER_SIZE = 32
BASE = 1
SUFFIX = ".log"
TEMPORARY_SUFFIX = ".tmp"

_FIELDS = struct.Struct("<8sIIQI")
_CRC = struct.Struct("<I")
_MAX_CANDIDATES = 1000
_RECORD_MAGIC_BYTES = RECORD_MAGIC.to_bytes(4, "little")

MediaError = AccessError | CapacityError | UnavailableError


class LogCorrupt(IntegrityError):
    """A log holds something else than was written, with valid records after it.

    segment: name of the file; offset: where in it, bytes; last: the last operation before it
    """

    def __init__(self, segment: Path, offset: int, why: str, last: int) -> None:
        super().__init__(
            f"operation log {segment.parent} is damaged in {segment.name} at byte {offset}",
            why=why,
            fix=f"operations up to {last} are good; the home server has those that are stable",
        )
        self.segment = segment.name
        self.offset = offset
        self.last = OperationNumber(last)


class LogUnsupported(UnsupportedError):
    """A newer program wrote the log."""


class LogFull(CapacityError):
    """No room on the media for an operation. The log is as it was; free some and try again."""


class LogReadOnly(AccessError):
    """The media, or the log's files, cannot be written to."""


class LogGone(UnavailableError):
    """The media does not answer any more: pulled out, unmounted, or broken."""


def media_error(what: str, error: OSError) -> MediaError:
    """The error that says whose fault an OSError on media is."""
    why = error.strerror or str(error)
    if error.errno in NO_ROOM:
        return LogFull(what, why=why, fix="free space on the media, or cut the log")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return LogReadOnly(what, why=why, fix="mount the media writable")
    return LogGone(what, why=why, fix="put the media back and open the log again")


@contextmanager
def on_media(what: str) -> Iterator[None]:
    """Turns an OSError into the error that says whose fault it is."""
    try:
        yield
    except OSError as error:
        raise media_error(what, error) from error


@dataclass(eq=False)
class Segment:
    """What is known of one file: where each of its operations starts, whether it was cut away.

    Not thread-safe; the log's lock guards it.
    """

    path: Path
    first: OperationNumber
    base: bool = False
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    end: int = SEGMENT_HEADER_SIZE
    cut: bool = False

    @property
    def last(self) -> OperationNumber:
        """The number of its last operation; `first - 1` if it has none."""
        return OperationNumber(self.first + len(self.offsets) - 1)

    def full(self, record_size: int, limit: int) -> bool:
        """Whether a record belongs into the next segment. One that is larger than a segment has one
        of its own."""
        return len(self.offsets) > 0 and self.end + record_size > limit

    def add(self, record_size: int) -> None:
        """A record was appended."""
        self.offsets.append(self.end)
        self.end += record_size

    def extent(self, number: OperationNumber) -> tuple[int, int]:
        """Offset and size of the record of an operation that it has."""
        index = number - self.first
        start = self.offsets[index]
        stop = self.offsets[index + 1] if index + 1 < len(self.offsets) else self.end
        return start, stop - start


@dataclass(frozen=True)
class Fault:
    """Where a segment stops making sense. torn: nothing valid follows, as a crash leaves it."""

    offset: int
    why: str
    torn: bool


def segment_name(first: int) -> str:
    """The file name of the segment that starts with that operation."""
    return f"{first:08d}{SUFFIX}"


def encode_header(first: int, flags: int) -> bytes:
    """The 32 bytes that a segment starts with."""
    fields = _FIELDS.pack(SEGMENT_MAGIC, SEGMENT_VERSION, flags, first, 0)
    return fields + _CRC.pack(zlib.crc32(fields))


def write_segment(path: Path, first: int, flags: int, records: bytes = b"", *, size: int) -> None:
    """Makes a segment of at least `size` bytes that is there whole or not at all, durably; on a
    full medium, one without room. OSError if it cannot."""
    temporary = path.with_suffix(TEMPORARY_SUFFIX)
    content = encode_header(first, flags) + records
    try:
        with temporary.open("wb", buffering=0) as file:
            try:
                _write_all(file, content.ljust(size, b"\0"))
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                file.seek(0)
                file.truncate()
                _write_all(file, content)
            sync_folder(path.parent)  # on FAT: the clusters, before a name has them
            os.fsync(file.fileno())
            temporary.replace(path)
            # On FAT the new name has no size before the file is written back once more, and syncing
            # the folder does not do that.
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def clear(path: Path, start: int) -> None:
    """Makes room of what follows a segment's byte `start`, durably. OSError if it cannot."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(start)
        file.write(bytes(size - start))
        file.flush()
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Removes a file durably; it need not be there. A power cut leaves no name whose clusters are
    free, which FAT cannot bear: a file that is open keeps them. OSError if it cannot."""
    with suppress(FileNotFoundError), path.open("rb"):
        path.unlink()
        sync_folder(path.parent)


def _write_all(file: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable. A file system that cannot do it is left alone."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(fd)


def scan(path: Path) -> tuple[Segment, Fault | None]:
    """Reads a whole segment and checks every record.

    The media is not trusted: any bytes give a segment and perhaps a fault. OSError if it cannot be
    read, LogUnsupported if it has another version, LogCorrupt if its name is another segment's.
    """
    segment = Segment(path, OperationNumber(int(path.stem)))
    data = path.read_bytes()
    why = _check_header(data[:SEGMENT_HEADER_SIZE], segment)
    if why:
        return segment, Fault(0, why, torn=not _record_follows(data, 0, segment.first))
    used = len(data.rstrip(b"\0"))
    while segment.end < used:
        try:
            segment.add(_check_record(data, segment.end, segment.last + 1))
        except RecordInvalid as error:
            torn = not _record_follows(data, segment.end, segment.last + 1)
            return segment, Fault(segment.end, error.why or error.what, torn)
    return segment, None


def _check_header(header: bytes, segment: Segment) -> str:
    if len(header) < SEGMENT_HEADER_SIZE:
        return "the segment's header is cut short"
    magic, version, flags, first, _ = _FIELDS.unpack_from(header)
    (crc,) = _CRC.unpack_from(header, _FIELDS.size)
    if magic != SEGMENT_MAGIC or crc != zlib.crc32(header[: _FIELDS.size]):
        return "the segment's header is damaged"
    if version != SEGMENT_VERSION:
        raise LogUnsupported(
            f"cannot read operation log {segment.path}",
            why=f"it has version {version}, this program reads {SEGMENT_VERSION}",
        )
    if first != segment.first:
        raise LogCorrupt(segment.path, 0, f"it starts with operation {first}", segment.last)
    segment.base = bool(flags & BASE)
    return ""


def _check_record(data: bytes, offset: int, number: int) -> int:
    """The size of the record at an offset, which must have that number. RecordInvalid if not."""
    operation = _operation_at(data, offset)
    if operation.number != number:
        raise RecordInvalid(
            "cannot read operation record", why=f"it is operation {operation.number}, not {number}"
        )
    return RECORD_HEADER_SIZE + len(operation.payload)


def _operation_at(data: bytes, offset: int) -> Operation:
    start = offset + RECORD_HEADER_SIZE
    header = RecordHeader.decode(data[offset:start])
    return header.operation(data[start : start + header.length])


def _record_follows(data: bytes, offset: int, number: int) -> bool:
    """Whether a valid record, of that number or a later one, stands anywhere after a fault.

    A record whose header is intact is skipped as a whole: its payload may carry anything. More
    intact headers without an intact payload than a crash can leave count as a valid record.
    """
    position = offset
    try:
        header = RecordHeader.decode(data[offset : offset + RECORD_HEADER_SIZE])
        position = offset + header.record_size if header.number == number else offset
    except RecordInvalid:
        pass
    candidates = 0
    while candidates <= _MAX_CANDIDATES:
        position = data.find(_RECORD_MAGIC_BYTES, position)
        if position < 0:
            return False
        start = position + RECORD_HEADER_SIZE
        try:
            header = RecordHeader.decode(data[position:start])
            candidates += 1
            header.operation(data[start : start + header.length])
            if header.number >= number:
                return True
        except RecordInvalid:
            pass
        position += 1
    return True
