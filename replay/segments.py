# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One file of an operation log: a header, then records. The page is docs/formats/log.md.

offset size
 0     8   magic, "SATCHLOG"
 8     4   version, 5; 4 had no epoch and no seal of the header, and is read too; 3 had no seals,
           2 was renamed when it was made, 1 had no room at its end
12     4   flags; bit 0 (BASE): everything before `first` was cut, older segments are leftovers
           bit 1 (VOID): the segment does not count, it is being made or was cut away
           bit 2 (VOUCHER): its writer knew of no doubtful operation before it
16     8   number of the first operation, which is also the file's name
24    32   seal of the record before the first; zeros where the log begins (replay/chain.py)
56     4   epoch of the key that seals; 0: none
60     4   CRC-32 (zlib) of bytes 0 to 59
64    36   seal of bytes 0 to 63 as of a record, and its CRC-32; not in version 4
100        records (replay/operations.py), each followed by its seal (32) and the CRC-32 of that (4)
           zeros: room for more records, until the end of the file; there may be none

The room is there from the beginning, so that an append changes a file's content and nothing else:
FAT has no journal, and a file that gets another cluster may come apart when the power goes. Nor is
a file renamed there, as that changes two places of a folder: a segment is made void under its final
name, and it counts by a write of its header, which is within one sector. One that goes is made void
first, so that what its clusters are used for next never looks like a segment.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO, RawIOBase
from pathlib import Path

from replay.chain import TRAILER_SIZE, UNSEALED, KeyRing, decode_trailer, encode_trailer, seal
from replay.operations import (
    MAX_PAYLOAD,
    RECORD_HEADER_SIZE,
    RECORD_MAGIC,
    Operation,
    RecordHeader,
    RecordInvalid,
)
from replay.secrecy import opens
from satchel.errors import (
    NO_ROOM,
    AccessError,
    CapacityError,
    IntegrityError,
    UnavailableError,
    UnsupportedError,
)
from satchel.files import open_regular
from satchel.ids import OperationNumber

SEGMENT_MAGIC = b"SATCHLOG"
SEGMENT_VERSION = 5
SEGMENT_HEADER_SIZE = 64 + TRAILER_SIZE
"""Bytes before the first record, with the seal of the header."""

PLAIN_HEADER_SIZE = 64
"""Of version 4, whose segments have the key of the first epoch."""

_PLAIN = 4
BASE = 1
VOID = 2
VOUCHER = 4

SEGMENT_LIMIT = SEGMENT_HEADER_SIZE + RECORD_HEADER_SIZE + MAX_PAYLOAD + TRAILER_SIZE
"""No segment has more bytes: the one with the largest record."""

_FIELDS = struct.Struct("<8sIIQ32sI")
_CRC = struct.Struct("<I")
_NAME = re.compile(r"(.+)-([0-9]{8,20})\.log")
_MAX_CANDIDATES = 1000
_RECORD_MAGIC_BYTES = RECORD_MAGIC.to_bytes(4, "little")

MediaError = AccessError | CapacityError | UnavailableError


class LogCorrupt(IntegrityError):
    """A log is damaged, with valid records after the damage.

    segment: name of the file; offset: where in it, bytes; last: the last operation before it
    """

    def __init__(self, segment: Path, offset: int, why: str, last: int) -> None:
        super().__init__(
            f"an operation log in {segment.parent} is damaged in {segment.name} at byte {offset}",
            why=why,
            fix=f"operations up to {last} are good; the home server has those that are stable",
        )
        self.segment = segment.name
        self.offset = offset
        self.last = OperationNumber(last)


class LogUnsupported(UnsupportedError):
    """A newer program wrote the log."""


class LogFull(CapacityError):
    """The medium has no room for an operation. The log is unchanged; free space and try again."""


class LogReadOnly(AccessError):
    """The medium or the log's files cannot be written."""


class LogGone(UnavailableError):
    """The medium no longer answers: pulled out, unmounted, or broken."""


def media_error(what: str, error: OSError) -> MediaError:
    """The error that says whose fault an OSError on media is."""
    why = error.strerror or str(error)
    if error.errno in NO_ROOM:
        return LogFull(what, why=why, fix="free space on the medium, or cut the log")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return LogReadOnly(what, why=why, fix="mount the medium writable")
    return LogGone(what, why=why, fix="put the medium back and open the log again")


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

    before, seal: of the record before its first one, and of its last one
    epoch: of the key that seals; sealed: its header has the seal of that key; voucher: see VOUCHER
    doubtful: the operations whose seals are not by that key, or that the log's secret does not open
    Not thread-safe; the log's lock guards it.
    """

    path: Path
    first: OperationNumber
    base: bool = False
    before: bytes = UNSEALED
    seal: bytes = UNSEALED
    doubtful: list[OperationNumber] = field(default_factory=list)
    void: bool = False
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    end: int = SEGMENT_HEADER_SIZE
    cut: bool = False
    epoch: int = 0
    sealed: bool = False
    voucher: bool = False

    @property
    def last(self) -> OperationNumber:
        """The number of its last operation; `first - 1` if it has none."""
        return OperationNumber(self.first + len(self.offsets) - 1)

    def full(self, record_size: int, limit: int) -> bool:
        """Whether a record belongs into the next segment. One that is larger than a segment has one
        of its own."""
        return len(self.offsets) > 0 and self.end + record_size + TRAILER_SIZE > limit

    def add(self, record_size: int, sealed: bytes) -> None:
        """A record was appended, with its seal."""
        self.offsets.append(self.end)
        self.end += record_size + TRAILER_SIZE
        self.seal = sealed

    def sealed_by(self, sealing: SegmentKey, flags: int) -> None:
        """Its header, of this version, was written with that seal. It has no operations."""
        self.epoch, self.sealed = sealing.epoch, sealing.key is not None
        self.voucher, self.end = bool(flags & VOUCHER), SEGMENT_HEADER_SIZE

    def extent(self, number: OperationNumber) -> tuple[int, int]:
        """Offset and size of the record of an operation that it has, without the seal."""
        index = number - self.first
        start = self.offsets[index]
        stop = self.offsets[index + 1] if index + 1 < len(self.offsets) else self.end
        return start, stop - TRAILER_SIZE - start


@dataclass(frozen=True)
class Fault:
    """Where a segment stops making sense. size: bytes from there on, without room; torn: nothing
    valid follows, as a crash leaves it."""

    offset: int
    size: int
    why: str
    torn: bool


def segment_path(log: Path, first: int) -> Path:
    """The file of the segment of a log that starts with that operation."""
    return log.with_name(f"{log.name}-{first:08d}.log")


def segment_paths(log: Path) -> list[Path]:
    """The files that are named as segments of a log are, in order. OSError."""
    found = ((path, _NAME.fullmatch(path.name)) for path in log.parent.iterdir())
    return sorted((path for path, named in found if named and named[1] == log.name), key=_first)


def logs_in(folder: Path) -> list[Path]:
    """The logs that have segments in a folder, as `Log.open` takes them. OSError."""
    named = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted({folder / found[1] for found in named if found})


def _first(path: Path) -> int:
    named = _NAME.fullmatch(path.name)
    return int(named[2]) if named else 0


@dataclass(frozen=True)
class SegmentKey:
    """The key of a segment, None if it is unknown, and its epoch."""

    epoch: int = 0
    key: bytes | None = None

    @classmethod
    def by(cls, keys: KeyRing | None, epoch: int | None = None) -> SegmentKey:
        """Return the key of an epoch; by default the current key of the ring."""
        if epoch is None:
            epoch = keys.current.epoch if keys else 0
        return cls(epoch, keys.key(epoch) if keys else None)


def encode_header(
    first: int, flags: int, before: bytes = UNSEALED, sealing: SegmentKey = SegmentKey()
) -> bytes:
    """The bytes that a segment starts with. before: the seal of the record before the first."""
    fields = _FIELDS.pack(SEGMENT_MAGIC, SEGMENT_VERSION, flags, first, before, sealing.epoch)
    header = fields + _CRC.pack(zlib.crc32(fields))
    return header + encode_trailer(seal(sealing.key, before, header))


def write_segment(
    path: Path,
    first: int,
    flags: int,
    before: bytes,
    records: bytes = b"",
    *,
    size: int,
    sealing: SegmentKey,
) -> None:
    """Makes a segment of at least `size` bytes that is there whole or not at all, durably; on a
    full medium, one without room. `records` with their seals, `before` as in `encode_header`.
    OSError if it cannot."""
    remove(path)
    content = encode_header(first, flags | VOID, before, sealing) + records
    try:
        with path.open("xb", buffering=0) as file:
            try:
                _write_all(file, content.ljust(size, b"\0"))
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                file.seek(0)
                file.truncate()
                _write_all(file, content)
            sync_folder(path.parent)  # on FAT: the clusters, before the name has them
            os.fsync(file.fileno())
            os.pwrite(file.fileno(), encode_header(first, flags, before, sealing), 0)
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def fresh_segment(log: Path, after: OperationNumber, size: int, sealing: SegmentKey) -> Segment:
    """Makes an empty segment of `size` bytes that a log starts with."""
    first = OperationNumber(after + 1)
    path = segment_path(log, first)
    write_segment(path, first, BASE, UNSEALED, size=size, sealing=sealing)
    segment = Segment(path, first, base=True)
    segment.sealed_by(sealing, BASE)
    return segment


def clear(path: Path, start: int) -> None:
    """Makes room of what follows a segment's byte `start`, durably. OSError if it cannot."""
    with _opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(start)
        _write_all(file, bytes(size - start))
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Removes a segment durably; it need not be there. OSError if it cannot.

    A power cut leaves no name whose clusters are free, which FAT cannot bear: a file that is open
    keeps them."""
    with suppress(FileNotFoundError), _opened(path) as file:
        if os.fstat(file.fileno()).st_size >= SEGMENT_HEADER_SIZE:
            os.pwrite(file.fileno(), encode_header(_first(path), VOID), 0)
            os.fsync(file.fileno())
        path.unlink()
        sync_folder(path.parent)


def remove_log(log: Path) -> None:
    """Removes a log that nobody writes to, durably, the newest segment last; it need not be there.
    OSError if it cannot."""
    if not log.parent.exists():
        return
    for path in segment_paths(log):
        remove(path)
    lock = log.with_name(f"{log.name}.lock")
    if lock.exists():
        lock.unlink()
        sync_folder(lock.parent)


def _opened(path: Path) -> FileIO:
    return FileIO(open_regular(path, os.O_RDWR), "r+b")


def _write_all(file: RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]


def make_log_folder(folder: Path) -> None:
    """The folder and those above it are durable on return, also where one that was killed has made
    them: without a journal, a file system may lose the name of a folder with what is in it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    above = dict.fromkeys([*(path.parent for path in missing), *list(folder.parents)[:2]])
    for path in above:
        sync_folder(path)


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


def scan_segment(
    path: Path, keys: KeyRing | None = None, secret: bytes | None = None
) -> tuple[Segment, Fault | None]:
    """Reads a whole segment and checks every record, with keys their seals as well.

    Without keys, those are doubtful that the secret does not open: a seal is over what stands
    there, so a right one says that too.

    The medium is not trusted: any bytes give a segment and perhaps a fault. Of a void one no record
    counts. OSError if it cannot be read, LogUnsupported if it has another version, LogCorrupt if
    its name is another segment's, or it is no regular file or a larger one than any writer makes.
    """
    segment = Segment(path, OperationNumber(_first(path)))
    data = _content(path)
    used = len(data.rstrip(b"\0"))
    why = _check_header(data[:SEGMENT_HEADER_SIZE], segment)
    if why:
        torn = not _record_follows(data, 0, segment.first)
        return segment, Fault(0, used, why, torn)
    if segment.void:
        return segment, None
    key = keys.key(segment.epoch) if keys else None
    segment.sealed = key is not None and _header_sealed(data, segment, key)
    while segment.end < used:
        try:
            operation, sealed = _check_record(data, segment.end, segment.last + 1)
        except RecordInvalid as error:
            torn = not _record_follows(data, segment.end, segment.last + 1)
            return segment, Fault(segment.end, used - segment.end, error.why or error.what, torn)
        if keys is not None:
            record = data[segment.end : segment.end + operation.record_size]
            wanted = seal(key, segment.seal, record)
            known = key is not None and hmac.compare_digest(sealed, wanted)
        else:
            known = secret is None or opens(secret, operation)
        if not known:
            segment.doubtful.append(operation.number)
        segment.add(operation.record_size, sealed)
    return segment, None


def _content(path: Path) -> bytes:
    """What is in a segment, however much its file claims to have."""
    with FileIO(open_regular(path, os.O_RDONLY), "rb") as file:
        if os.fstat(file.fileno()).st_size > SEGMENT_LIMIT:
            why = f"it has more than the {SEGMENT_LIMIT} bytes of the largest segment"
            raise LogCorrupt(path, 0, why, max(_first(path) - 1, 0))
        return file.readall()


def _check_header(header: bytes, segment: Segment) -> str:
    # The headers of versions 1 to 3 had 32 bytes.
    earlier = header[28:32] == _CRC.pack(zlib.crc32(header[:28]))
    if len(header) < PLAIN_HEADER_SIZE and not earlier:
        return "the segment's header is cut short"
    whole = header.ljust(PLAIN_HEADER_SIZE, b"\0")
    magic, version, flags, first, before, epoch = _FIELDS.unpack_from(whole)
    (crc,) = _CRC.unpack_from(whole, _FIELDS.size)
    if magic != SEGMENT_MAGIC or not (earlier or crc == zlib.crc32(whole[: _FIELDS.size])):
        return "the segment's header is damaged"
    if earlier or version not in (_PLAIN, SEGMENT_VERSION):
        raise LogUnsupported(
            f"cannot read operation log {segment.path}",
            why=f"it has version {version}, this program reads {_PLAIN} and {SEGMENT_VERSION}",
        )
    trailer = decode_trailer(header[PLAIN_HEADER_SIZE:])
    if version == SEGMENT_VERSION and trailer is None:
        return "the seal of the segment's header is damaged"
    if first != segment.first:
        raise LogCorrupt(segment.path, 0, f"it starts with operation {first}", segment.last)
    segment.base, segment.void = bool(flags & BASE), bool(flags & VOID)
    segment.voucher = bool(flags & VOUCHER)
    segment.before = segment.seal = before
    segment.epoch = 1 if version == _PLAIN else epoch
    segment.end = PLAIN_HEADER_SIZE if version == _PLAIN else SEGMENT_HEADER_SIZE
    return ""


def _header_sealed(data: bytes, segment: Segment, key: bytes) -> bool:
    """Whether the key of its epoch has sealed the header. Headers of version 4 have no seal."""
    if segment.end == PLAIN_HEADER_SIZE:
        return False
    found = decode_trailer(data[PLAIN_HEADER_SIZE:SEGMENT_HEADER_SIZE])
    wanted = seal(key, segment.before, data[:PLAIN_HEADER_SIZE])
    return found is not None and hmac.compare_digest(found, wanted)


def _check_record(data: bytes, offset: int, number: int) -> tuple[Operation, bytes]:
    """The operation of the record at an offset, which must have that number, and its seal.
    RecordInvalid if not."""
    operation = _operation_at(data, offset)
    if operation.number != number:
        raise RecordInvalid(
            "cannot read operation record", why=f"it is operation {operation.number}, not {number}"
        )
    end = offset + operation.record_size
    sealed = decode_trailer(data[end : end + TRAILER_SIZE])
    if sealed is None:
        raise RecordInvalid("cannot read operation record", why="its seal is damaged")
    return operation, sealed


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
