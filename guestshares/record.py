# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The record of calls of one service: which of them were done, and what was answered.

NAME-NNNNNNNN   segments; docs/formats/call-messages.md

header    magic "SATCALLS", version (4), zero (4)
record    CRC-32 of the rest (4), length of the reply (4), kind (1), operation (8), count (4),
          digest (32), reply
kind 1    a call was done
kind 2    home's replica has finished the operation; count, digest and reply are zero or empty
"""

from __future__ import annotations

import re
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

from guestshares.counts import CallName
from guestshares.kernel import MESSAGE_LIMIT
from satchel.files import sync_folder
from satchel.record_file import RecordFile, RecordFormat

FORMAT = RecordFormat("record of calls", b"SATCALLS", 1, struct.Struct("<BQI32s"), MESSAGE_LIMIT)

DONE, FINISHED = 1, 2

SEGMENT_BYTES = 16 << 20
"""A segment of this size gets nothing more."""

_NUMBERED = re.compile(r"-([0-9]{8})")
_NO_DIGEST = bytes(32)


class _Segment:
    """One file, and what it has. last: the highest operation that it says anything of."""

    def __init__(self, number: int, path: Path) -> None:
        """Open or make it. Raises what RecordFile does."""
        self.number = number
        self.last = 0
        self.finished = 0
        self.done: list[tuple[CallName, _Place]] = []
        self.file = RecordFile(path, FORMAT, self._take)

    def _take(self, fields: tuple[int, int, int, bytes], place: int, reply: bytes) -> bool:
        kind, operation, count, digest = fields
        if kind not in (DONE, FINISHED):
            return False
        if kind == DONE:
            name = CallName(operation, count, digest)
            self.done.append((name, _Place(self, place, len(reply))))
        else:
            self.finished = max(self.finished, operation)
        self.last = max(self.last, operation)
        return True


@dataclass(frozen=True)
class _Place:
    """Of a reply: in which segment, and where."""

    segment: _Segment
    offset: int
    length: int


class CallRecord:
    """See the module. Thread-safe. As durable as RecordFile says, and so is what was added before
    something with `durable`.

    finished: the last operation that home's replica has finished
    """

    def __init__(self, path: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open the segments PATH-*, or begin the first. Raises OSError, UnsupportedError for a
        version that is not known, NoRecordFile."""
        self._path = path
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._operations: dict[int, dict[tuple[int, bytes], _Place]] = {}
        self._segments: list[_Segment] = []
        self.finished = 0
        try:
            for number in self._numbers():
                self._segments.append(self._open(number))
            if not self._segments:
                self._segments.append(self._open(1))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """All is durable on return. Harmless the second time."""
        with self._lock:
            for segment in self._segments:
                segment.file.close()
            self._segments.clear()
            self._operations.clear()

    def of(self, operation: int, longest: int) -> list[CallName]:
        """The calls of an operation whose replies are not longer than that."""
        with self._lock:
            found = self._operations.get(operation, {})
            return [
                CallName(operation, count, digest)
                for (count, digest), place in found.items()
                if place.length <= longest
            ]

    def find(self, name: CallName) -> bytes | None:
        """The reply to that call, if it was done. Raises OSError, RecordChanged."""
        with self._lock:
            place = self._operations.get(name.operation, {}).get((name.count, name.digest))
            return place.segment.file.read(place.offset, place.length) if place else None

    def add(self, name: CallName, reply: bytes, *, durable: bool) -> None:
        """Note that a call was done, once. Raises OSError; nothing is added then."""
        with self._lock:
            place = self._write(DONE, name, reply)
            self._note(name, place)
            if durable:
                place.segment.file.sync()

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
                if self._segments[-1].file.empty:
                    going.pop()
                else:
                    self._write(FINISHED, CallName(self.finished, 0, _NO_DIGEST), b"", fresh=True)
            for segment in going:
                self._segments.remove(segment)
                segment.file.close()
                segment.file.path.unlink(missing_ok=True)
            if going:
                sync_folder(self._path.parent)

    def size(self) -> tuple[int, int]:
        """Calls that can be found, and bytes of the segments."""
        with self._lock:
            calls = sum(len(operation) for operation in self._operations.values())
            return calls, sum(segment.file.end for segment in self._segments)

    def _note(self, name: CallName, place: _Place) -> None:
        self._operations.setdefault(name.operation, {})[name.count, name.digest] = place

    def _write(self, kind: int, name: CallName, reply: bytes, *, fresh: bool = False) -> _Place:
        """With the lock held."""
        segment = self._segments[-1]
        if fresh or segment.file.end >= self._segment_bytes:
            segment.file.sync()
            segment = self._open(segment.number + 1)
            self._segments.append(segment)
        offset = segment.file.append((kind, name.operation, name.count, name.digest), reply)
        segment.last = max(segment.last, name.operation)
        return _Place(segment, offset, len(reply))

    def _numbers(self) -> list[int]:
        name = self._path.name
        found = (path.name for path in self._path.parent.glob(f"{name}-*"))
        matches = (_NUMBERED.fullmatch(each.removeprefix(name)) for each in found)
        return sorted(int(match[1]) for match in matches if match)

    def _open(self, number: int) -> _Segment:
        segment = _Segment(number, self._path.with_name(f"{self._path.name}-{number:08}"))
        for name, place in segment.done:
            self._note(name, place)
        segment.done.clear()
        self.finished = max(self.finished, segment.finished)
        return segment
