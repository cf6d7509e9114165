# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The record of calls of one service: which of them were done, and what was answered.

NAME-NNNNNNNN   segments; docs/formats/call-record.md

header    magic "SATCALLS", version (4), zero (4)
record    CRC-32 of the rest (4), length of the reply (4), kind (1), operation (8), count (4),
          digest (32), reply
kind 1    a call was done
kind 2    home's replica has finished the operation; count, digest and reply are zero or empty
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from replay.share_requests import MESSAGE_LIMIT
from satchel.errors import IntegrityError, UnsupportedError
from satchel.files import sync_folder, write_durably

log = logging.getLogger(__name__)

VERSION = 1
MAGIC = b"SATCALLS"
HEADER = struct.Struct("<8sII")
RECORD = struct.Struct("<IIBQI32s")

DONE, FINISHED = 1, 2

SEGMENT_BYTES = 16 << 20
"""A segment of this size gets nothing more."""

REPLY_LIMIT = MESSAGE_LIMIT

_NUMBERED = re.compile(r"-([0-9]{8})")
_NO_DIGEST = bytes(32)


class CallRecordDamaged(IntegrityError):
    """A segment does not begin like one, or a reply is not there any more."""


@dataclass(frozen=True)
class CallName:
    """What a call is known by at every replica. count: how often the same was asked before in that
    operation; digest: replay.share_names."""

    operation: int
    count: int
    digest: bytes


@dataclass
class _Segment:
    """One file. last: the highest operation that it says anything of."""

    number: int
    path: Path
    fd: int
    end: int
    last: int = 0


@dataclass(frozen=True)
class _Place:
    segment: _Segment
    offset: int
    length: int


@dataclass
class _Operation:
    calls: dict[tuple[int, bytes], _Place] = field(default_factory=dict)


class CallRecord:
    """See the module. Thread-safe.

    What is added is read again after the end of the process; after a power cut, if `sync` had
    returned or a later `add` was made with `durable`. Of a segment that is torn or damaged what
    comes before that counts.
    finished: the last operation that home's replica has finished
    """

    def __init__(self, path: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open the segments PATH-*, or begin the first. Raises OSError, UnsupportedError for a
        version that is not known, CallRecordDamaged."""
        self._path = path
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._operations: dict[int, _Operation] = {}
        self._segments: list[_Segment] = []
        self.finished = 0
        try:
            for number in self._numbers():
                self._segments.append(self._open(number))
            if not self._segments:
                self._segments.append(self._begin(1))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """All is durable on return. Harmless the second time."""
        with self._lock:
            for segment in self._segments:
                os.fdatasync(segment.fd)
                os.close(segment.fd)
            self._segments.clear()
            self._operations.clear()

    def of(self, operation: int, longest: int) -> list[CallName]:
        """The calls of an operation whose replies are not longer than that."""
        with self._lock:
            found = self._operations.get(operation, _Operation())
            return [
                CallName(operation, count, digest)
                for (count, digest), place in found.calls.items()
                if place.length <= longest
            ]

    def find(self, name: CallName) -> bytes | None:
        """The reply to that call, if it was done. Raises CallRecordDamaged."""
        with self._lock:
            operation = self._operations.get(name.operation)
            place = operation.calls.get((name.count, name.digest)) if operation else None
            if place is None:
                return None
            data = os.pread(place.segment.fd, RECORD.size + place.length, place.offset)
            if len(data) < RECORD.size + place.length or _crc(data) != data[:4]:
                raise CallRecordDamaged(
                    f"{place.segment.path} has changed", why=f"at {place.offset}"
                )
            return data[RECORD.size :]

    def add(self, name: CallName, reply: bytes, *, durable: bool) -> None:
        """Note that a call was done, once. Raises OSError; nothing is added then."""
        if len(reply) > REPLY_LIMIT:
            raise OSError(errno.EMSGSIZE, f"a reply has {len(reply)} bytes")
        with self._lock:
            place = self._write(DONE, name, reply)
            self._operation(name.operation).calls[name.count, name.digest] = place
            if durable:
                os.fdatasync(place.segment.fd)

    def finish(self, operation: int) -> None:
        """Home's replica has made all calls of that operation and of those before. Raises
        OSError."""
        with self._lock:
            if operation > self.finished:
                self._write(FINISHED, CallName(operation, 0, _NO_DIGEST), b"")
                self.finished = operation

    def cut(self, operation: int) -> None:
        """Forget what operations up to that one did; nobody replays them any more."""
        with self._lock:
            for number in [number for number in self._operations if number <= operation]:
                del self._operations[number]
            going = [segment for segment in self._segments if segment.last <= operation]
            if self._segments and self._segments[-1] in going:
                if self._segments[-1].end == HEADER.size:
                    going.pop()
                else:
                    self._write(FINISHED, CallName(self.finished, 0, _NO_DIGEST), b"", fresh=True)
            for segment in going:
                self._segments.remove(segment)
                os.close(segment.fd)
                segment.path.unlink(missing_ok=True)
            if going:
                sync_folder(self._path.parent)

    def sync(self) -> None:
        """Returns when all that was added is durable."""
        with self._lock:
            os.fdatasync(self._segments[-1].fd)

    def size(self) -> tuple[int, int]:
        """Calls that can be found, and bytes of the segments."""
        with self._lock:
            calls = sum(len(operation.calls) for operation in self._operations.values())
            return calls, sum(segment.end for segment in self._segments)

    def _operation(self, number: int) -> _Operation:
        return self._operations.setdefault(number, _Operation())

    def _write(self, kind: int, name: CallName, reply: bytes, *, fresh: bool = False) -> _Place:
        """With the lock held."""
        segment = self._segments[-1]
        if fresh or segment.end >= self._segment_bytes:
            os.fdatasync(segment.fd)
            segment = self._begin(segment.number + 1)
            self._segments.append(segment)
        record = _record(kind, name, reply)
        try:
            if os.pwrite(segment.fd, record, segment.end) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(segment.fd, segment.end)
            raise
        place = _Place(segment, segment.end, len(reply))
        segment.end += len(record)
        segment.last = max(segment.last, name.operation)
        return place

    def _numbers(self) -> list[int]:
        name = self._path.name
        found = (path.name for path in self._path.parent.glob(f"{name}-*"))
        matches = (_NUMBERED.fullmatch(each.removeprefix(name)) for each in found)
        return sorted(int(match[1]) for match in matches if match)

    def _place(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}-{number:08}")

    def _begin(self, number: int) -> _Segment:
        path = self._place(number)
        write_durably(path, HEADER.pack(MAGIC, VERSION, 0))
        return _Segment(number, path, os.open(path, os.O_RDWR | os.O_CLOEXEC), HEADER.size)

    def _open(self, number: int) -> _Segment:
        path = self._place(number)
        data = path.read_bytes()
        if len(data) < HEADER.size or not data.startswith(MAGIC):
            raise CallRecordDamaged(
                f"{path} is no record of calls", why="it does not begin like one"
            )
        _, version, _ = HEADER.unpack_from(data)
        if version != VERSION:
            raise UnsupportedError(
                f"cannot read the record of calls {path} of version {version}",
                why=f"this program knows version {VERSION}",
                fix="use the Satchel that wrote it",
            )
        segment = _Segment(number, path, os.open(path, os.O_RDWR | os.O_CLOEXEC), HEADER.size)
        for kind, name, offset, length in records(data):
            if kind == DONE:
                place = _Place(segment, offset, length)
                self._operation(name.operation).calls[name.count, name.digest] = place
            else:
                self.finished = max(self.finished, name.operation)
            segment.last = max(segment.last, name.operation)
            segment.end = offset + RECORD.size + length
        if segment.end < len(data):
            log.warning("%s: torn or damaged at byte %d of %d", path, segment.end, len(data))
            aside = path.with_name(path.name + ".damaged")
            with contextlib.suppress(OSError):
                aside.write_bytes(data)
            os.ftruncate(segment.fd, segment.end)
        return segment


def _record(kind: int, name: CallName, reply: bytes) -> bytes:
    head = RECORD.pack(0, len(reply), kind, name.operation, name.count, name.digest)
    return _crc(head + reply) + head[4:] + reply


def _crc(record: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(record[4:]))


def records(data: bytes) -> Iterator[tuple[int, CallName, int, int]]:
    """Of a segment: kind, name, where the record is, length of its reply; up to the first that is
    none."""
    at = HEADER.size
    while at + RECORD.size <= len(data):
        _, length, kind, operation, count, digest = RECORD.unpack_from(data, at)
        end = at + RECORD.size + length
        if length > REPLY_LIMIT or end > len(data) or _crc(data[at:end]) != data[at : at + 4]:
            return
        if kind not in (DONE, FINISHED):
            return
        yield kind, CallName(operation, count, digest), at, length
        at = end
