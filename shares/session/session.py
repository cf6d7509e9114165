# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A session: open files with positions, and writes that home has perhaps not yet.

State and what changes it:

    files     number -> id, flags, position, path      open, close; each operation moves a position
    pending   writes after `arrived`, in order         write adds, `sync` of home empties
    last      the number of the operation done last    each operation, by one

With a store all of it is on disk before the application is told, so a program that is killed finds
it again (OFS, Section 4.1, sticky services). Pending writes are done once more when a session is
begun again: each is at an offset of its own, so twice is as good as once. What another node has
written to the same bytes since, they overwrite.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from satchel.errors import IntegrityError
from shares.node import Changes, Node, open_handle
from shares.node.opened.handles import number as handle_of
from shares.protocol import FileId
from shares.session.records import (
    VERSION,
    Answer,
    Arrived,
    Closed,
    Done,
    File,
    Head,
    Kind,
    Operation,
    Record,
    Written,
)
from shares.session.store import Store

PENDING_BYTES = 1 << 20
PENDING_WRITES = 128
"""So much is pending at most; then home is waited for. A handoff sends it, and does it again."""

AT_ONCE = 16
"""Calls of a session that is begun again which wait for home together."""

_MAKING = os.O_CREAT | os.O_EXCL | os.O_TRUNC


class SessionDamaged(IntegrityError):
    """A session's file is not what was written there."""


class Session:
    """Of one application, at one node. Thread-safe: operations are done one after the other.

    name: the application's word for it; found: whether there was one of that name
    """

    def __init__(
        self, node: Node, name: str, path: Path | None = None, records: Iterable[Record] = ()
    ) -> None:
        """path: where it is kept; None: nowhere, it moves but does not outlive the process.
        records: of a session that comes from another node.

        Raises SessionDamaged, ConflictError where another process has it, OSError where home is
        not reached."""
        self.name, self._node = name, node
        self._mutex = threading.RLock()
        self._files: dict[int, File] = {}
        self._pending: list[Written] = []
        self.last = self.arrived = 0
        self._store: Store | None = None
        try:
            self._store = Store(path) if path is not None else None
            kept = list(self._store.records if self._store else [])
            self.found = bool(kept) or bool(records)
            self._load([*kept, *records])
        except IntegrityError as error:
            raise SessionDamaged(
                f"cannot go on with the session {path or name}",
                why=str(error),
                fix="move its file away to begin a new one",
            ) from error
        self._go_on()
        if self._store is not None:
            self._store.replace(self.records())

    def _load(self, records: list[Record]) -> None:
        if records and not (isinstance(records[0], Head) and records[0].version == VERSION):
            raise IntegrityError("it begins with no head of this version")
        for record in records:
            match record:
                case File():
                    self._files[record.number] = record
                case Closed():
                    self._files.pop(record.number, None)
                case Written():
                    self._pending.append(record)
                    self._move(record.number, record.offset + len(record.data))
                case Done():
                    self.last = max(self.last, record.operation)
                    self._move(record.number, record.position)
                case Arrived():
                    self.arrived = max(self.arrived, record.operation)
        self._pending = [each for each in self._pending if each.operation > self.arrived]

    def _go_on(self) -> None:
        """Do again what home has perhaps not. A file that is no more is a closed one. All files,
        and all pieces that were written, at once: each waits for home."""
        files = list(self._files.values())
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = list(threads.map(self._reopen, files))
            for record, there in zip(files, found, strict=True):
                if not there:
                    del self._files[record.number]
            pieces = [each for each in latest(self._pending) if each[0] in self._files]
            for _ in threads.map(self._write_again, pieces):
                pass
        self.last = max([self.last, *(write.operation for write in self._pending)])

    def _reopen(self, file: File) -> bool:
        try:
            self._node.open(FileId(file.file), file.flags & ~(_MAKING | os.O_APPEND))
        except OSError as error:
            if error.errno not in {errno.ESTALE, errno.ENOENT}:
                raise
            return False
        return True

    def _write_again(self, piece: tuple[int, int, bytes]) -> None:
        number, offset, data = piece
        self._node.write(_handle(self._files[number]), offset, data)

    def records(self) -> list[Record]:
        """The session, for its file or for another node."""
        with self._mutex:
            done = [Done(self.last, 0, 0)] if self.last else []
            head = Head(VERSION, self.name.encode())
            arrived = [Arrived(self.arrived)] if self.arrived else []
            return [head, *self._files.values(), *self._pending, *done, *arrived]

    # What applications do.

    def open(self, path: str | bytes, flags: int) -> int:
        """As open(2), below the share's root. A number for the other calls. Raises OSError."""
        with self._mutex:
            number = min(set(range(3, len(self._files) + 4)) - set(self._files))
            self._answered(Kind.OPEN, number, flags, os.fsencode(path))
            return number

    def close(self, number: int) -> None:
        self._answered(Kind.CLOSE, number)

    def read(self, number: int, size: int) -> bytes:
        """At its position, which moves."""
        return self._answered(Kind.READ, number, size).data

    def write(self, number: int, data: bytes) -> int:
        """At its position, which moves; with O_APPEND at the end of the file. Two nodes that append
        to one file at once may write to the same place."""
        return self._answered(Kind.WRITE, number, data=data).value

    def seek(self, number: int, position: int) -> None:
        self._answered(Kind.SEEK, number, position)

    def truncate(self, number: int, size: int) -> None:
        self._answered(Kind.TRUNCATE, number, size)

    def sync(self, number: int) -> None:
        """As fsync(2). Home has all that the session has written, durably."""
        self._answered(Kind.SYNC, number)

    def position(self, number: int) -> int:
        with self._mutex:
            return self._require(number).position

    def files(self) -> dict[int, str]:
        """Paths of the files that are open, as they were opened."""
        with self._mutex:
            return {number: os.fsdecode(file.path) for number, file in self._files.items()}

    def leave(self) -> None:
        """The process ends, or the session moves; on disk it stays. Home has what was written."""
        with self._mutex:
            self._bring()
            self.detach()

    def give_back(self) -> None:
        """Home has what was written; it counts as pending all the same."""
        with self._mutex:
            numbers = {each.number for each in self._pending} & set(self._files)
        for number in numbers:
            with suppress(OSError):
                self._node.give_up(FileId(self._files[number].file))

    def detach(self) -> None:
        """The same, but home is told nothing: what it has not is pending."""
        with self._mutex:
            for file in self._files.values():
                with suppress(OSError):
                    self._node.release(_handle(file), 0)
            if self._store is not None:
                self._store.close()
                self._store = None

    def end(self) -> None:
        """The application needs the session no more. Raises OSError where home is not reached."""
        with self._mutex:
            self._bring()
            store, self._store = self._store, None
            if store is not None:
                store.close(remove=True)
            self.detach()
            self._files.clear()

    # Operations.

    def _answered(self, kind: Kind, number: int, value: int = 0, data: bytes = b"") -> Answer:
        with self._mutex:
            operation = Operation(self.last + 1, kind, number, value, data)
            answer = self.do(operation)
        if answer.error:
            raise OSError(answer.error, os.strerror(answer.error))
        return answer

    def do(self, operation: Operation) -> Answer:
        """The next operation. One that fails counts as well."""
        with self._mutex:
            if operation.operation != self.last + 1:
                raise IntegrityError(
                    "an operation of a session is not the next one",
                    why=f"it is {operation.operation}, and {self.last} was the last",
                )
            error, value, data = 0, 0, b""
            try:
                value, data = self._act(operation)
            except OSError as failed:
                error = failed.errno or errno.EIO
            self.last = operation.operation
            file = self._files.get(operation.number)
            position = file.position if file is not None else 0
            self._note(Done(self.last, operation.number, position))
            return Answer(self.last, error, value, position, self.arrived, data)

    def _act(self, operation: Operation) -> tuple[int, bytes]:
        number, value = operation.number, operation.value
        match Kind(operation.kind):
            case Kind.OPEN:
                return self._open(number, operation.data, value), b""
            case Kind.CLOSE:
                file = self._require(number)
                self._bring_file(file)
                del self._files[number]
                self._note(Closed(number))
                self._node.release(_handle(file), 0)
            case Kind.READ:
                file = self._require(number)
                data = self._node.read(_handle(file), file.position, value)
                self._move(number, file.position + len(data))
                return len(data), data
            case Kind.WRITE:
                return self._write(operation), b""
            case Kind.SEEK:
                self._require(number)
                self._move(number, value)
            case Kind.TRUNCATE:
                file = self._require(number)
                self._node.change(FileId(file.file), Changes(size=value), _handle(file))
                self._bring()  # else pending writes behind the cut would be done again
            case Kind.SYNC:
                file = self._require(number)
                self._bring()
                self._node.sync(_handle(file), False)
        return 0, b""

    def _open(self, number: int, path: bytes, flags: int) -> int:
        if number in self._files:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        file, _ = open_handle(self._node, path, flags)
        record = File(number, file, flags & ~_MAKING, 0, path)
        self._files[number] = record
        self._note(record)
        return file

    def _write(self, operation: Operation) -> int:
        file, data = self._require(operation.number), operation.data
        if file.flags & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        offset = file.position
        if file.flags & os.O_APPEND:
            offset = self._node.attributes(FileId(file.file), None).size
        written = Written(operation.operation, operation.number, offset, data)
        self._note(written)
        self._pending.append(written)
        try:
            self._node.write(_handle(file), offset, data)
        except OSError:
            self._pending.pop()
            raise
        self._move(operation.number, offset + len(data))
        size = sum(len(each.data) for each in self._pending)
        if size > PENDING_BYTES or len(self._pending) > PENDING_WRITES:
            self._bring()
        return len(data)

    def _bring(self) -> None:
        """Home has, on return, all that was written."""
        numbers = {each.number for each in self._pending}
        for number in numbers & set(self._files):
            self._node.give_up(FileId(self._files[number].file))
        if self._pending:
            self.arrived = self._pending[-1].operation
            self._pending.clear()
            self._note(Arrived(self.arrived))
        if self._store is not None and self._store.long:
            self._store.replace(self.records())

    def _bring_file(self, file: File) -> None:
        if any(each.number == file.number for each in self._pending):
            self._bring()

    def _require(self, number: int) -> File:
        if number not in self._files:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._files[number]

    def _move(self, number: int, position: int) -> None:
        file = self._files.get(number)
        if file is not None:
            self._files[number] = replace(file, position=position)

    def _note(self, record: Record) -> None:
        if self._store is not None:
            self._store.append(record)


def latest(writes: Iterable[Written]) -> list[tuple[int, int, bytes]]:
    """Number of the file, offset and data of what these writes leave, in pieces that neither touch
    nor overlap."""
    found: dict[int, list[tuple[int, bytearray]]] = {}
    for write in writes:
        first, data = write.offset, bytearray(write.data)
        apart = []
        for offset, before in found.get(write.number, []):
            end = first + len(data)
            if offset > end or offset + len(before) < first:
                apart.append((offset, before))
                continue
            tail = before[max(0, end - offset) :]
            head = before[: max(0, first - offset)]
            first, data = min(first, offset), head + data + tail
        found[write.number] = [*apart, (first, data)]
    return [(number, at, bytes(data)) for number, pieces in found.items() for at, data in pieces]


def _handle(file: File) -> int:
    return handle_of(FileId(file.file), file.flags & ~os.O_APPEND)
