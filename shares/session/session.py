# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The open files of one application at one node, and its writes that home may lack.

When a session arrives at a node, the node opens its files and repeats these writes. Each write has
an offset of its own, so twice is as good as once. The same bytes written by another node since then
are overwritten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from shares.node import Changes, Node, open_handle
from shares.node.opened.handles import number as handle_of
from shares.protocol import FileId
from shares.session.records import (
    VERSION,
    BufferedWrite,
    OpenFileRecord,
    OperationKind,
    OperationReply,
    Record,
    SessionHeader,
    SessionOperation,
)

UNSENT_BYTES = 1 << 20
UNSENT_WRITES = 128
"""A session waits for home when it has more. A handoff carries so much, and repeats it."""

AT_ONCE = 16
"""Calls of an arriving session that wait for home together."""

_MAKING = os.O_CREAT | os.O_EXCL | os.O_TRUNC


class FileSession:
    """The open files of one application. Not thread-safe, except `give_back`."""

    def __init__(self, node: Node, name: str, records: Iterable[Record] = ()) -> None:
        """records: of a session that comes from another node. A file that no longer exists counts
        as closed. Raise OSError if home is not reached; then no file is open."""
        self.name, self._node = name, node
        self._files: dict[int, OpenFileRecord] = {}
        self._unsent = [record for record in records if isinstance(record, BufferedWrite)]
        try:
            with ThreadPoolExecutor(AT_ONCE) as threads:
                files = (record for record in records if isinstance(record, OpenFileRecord))
                list(threads.map(self._reopen, files))
                self._unsent = [each for each in self._unsent if each.number in self._files]
                list(threads.map(self._write_again, latest(self._unsent)))
        except OSError:
            self.detach()
            raise

    def _reopen(self, file: OpenFileRecord) -> None:
        try:
            self._node.open(FileId(file.file), file.flags & ~(_MAKING | os.O_APPEND))
        except OSError as error:
            if error.errno not in {errno.ESTALE, errno.ENOENT}:
                raise
            return
        self._files[file.number] = file

    def _write_again(self, piece: tuple[int, int, bytes]) -> None:
        number, offset, data = piece
        self._node.write(_handle(self._files[number]), offset, data)

    def records(self) -> list[Record]:
        """Return the session for another node."""
        return [SessionHeader(VERSION, self.name.encode()), *self._files.values(), *self._unsent]

    def do(self, operation: SessionOperation) -> OperationReply:
        """Do an operation. If it fails, its errno is in the answer."""
        error, value, data = 0, 0, b""
        try:
            value, data = self._act(operation)
        except OSError as failed:
            error = failed.errno or errno.EIO
        file = self._files.get(operation.number)
        return OperationReply(error, value, file.position if file else 0, data)

    def give_back(self) -> None:
        """Send home the writes that it may lack. The session still counts them as unsent. Another
        thread may do this while no operation is done."""
        numbers = {each.number for each in self._unsent} & set(self._files)
        for number in numbers:
            with suppress(OSError):
                self._node.give_up(FileId(self._files[number].file))

    def detach(self) -> None:
        """Close the files here, and tell home nothing."""
        for file in self._files.values():
            with suppress(OSError):
                self._node.release(_handle(file), 0)

    def _act(self, operation: SessionOperation) -> tuple[int, bytes]:
        number, value = operation.number, operation.value
        if operation.kind == OperationKind.OPEN:
            self._open(number, operation.data, value)
            return 0, b""
        file = self._require(number)
        match OperationKind(operation.kind):
            case OperationKind.CLOSE:
                self._send()
                del self._files[number]
                self._node.release(_handle(file), 0)
            case OperationKind.READ:
                data = self._node.read(_handle(file), file.position, value)
                self._move(file, file.position + len(data))
                return len(data), data
            case OperationKind.WRITE:
                return self._write(file, operation.data), b""
            case OperationKind.SEEK:
                self._move(file, value)
            case OperationKind.TRUNCATE:
                self._node.change(FileId(file.file), Changes(size=value), _handle(file))
                self._send()  # else the next node would repeat writes beyond the new size
            case OperationKind.SYNC:
                self._send()
                self._node.sync(_handle(file), False)
        return 0, b""

    def _open(self, number: int, path: bytes, flags: int) -> None:
        if number in self._files:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        file, _ = open_handle(self._node, path, flags)
        self._files[number] = OpenFileRecord(number, file, flags & ~_MAKING, 0, path)

    def _write(self, file: OpenFileRecord, data: bytes) -> int:
        if file.flags & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        offset = file.position
        if file.flags & os.O_APPEND:
            offset = self._node.attributes(FileId(file.file), None).size
        self._node.write(_handle(file), offset, data)
        self._unsent.append(BufferedWrite(file.number, offset, data))
        self._move(file, offset + len(data))
        size = sum(len(each.data) for each in self._unsent)
        if size > UNSENT_BYTES or len(self._unsent) > UNSENT_WRITES:
            self._send()
        return len(data)

    def _send(self) -> None:
        """Home has all writes of the session when this returns. Raise OSError if it is not
        reached."""
        for number in {each.number for each in self._unsent}:
            self._node.give_up(FileId(self._files[number].file))
        self._unsent.clear()

    def _require(self, number: int) -> OpenFileRecord:
        if number not in self._files:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._files[number]

    def _move(self, file: OpenFileRecord, position: int) -> None:
        self._files[file.number] = replace(file, position=position)


def latest(writes: Iterable[BufferedWrite]) -> list[tuple[int, int, bytes]]:
    """Return what these writes leave, in pieces that neither touch nor overlap: the file's number,
    offset and data."""
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


def _handle(file: OpenFileRecord) -> int:
    return handle_of(FileId(file.file), file.flags & ~os.O_APPEND)
