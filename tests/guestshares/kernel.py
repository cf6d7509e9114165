# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A guest's kernel in a few words: what it asks of its shares, as its line passes that on."""

import itertools
import os
import queue
import socket
import struct
import threading
from pathlib import Path

from guestshares import CallHost, Keeper
from guestshares.kernel import IN_HEADER, OUT_HEADER, Opcode
from guestshares.line import RECORD, Pieces

INIT = struct.pack("<IIII", 7, 38, 1 << 17, 0) + bytes(48)
REQUEST = 2
ROOT = 1


class Kernel:
    """A guest that is served by a keeper. Several may be replicas of one: they ask the same in
    other numbers, from other addresses.

    number: of its requests; owner: where the owners of its locks are
    """

    def __init__(self, keeper: Keeper, counts: Path | None = None, number: int = 2) -> None:
        self.keeper = keeper
        self.end, self._session = socket.socketpair()
        self.end.settimeout(60)
        self.calls = CallHost(lambda: keeper).serve(self._session, counts)
        self.owner = number * 4096
        self._numbers = itertools.count(number, 2)
        self._lock = threading.Lock()
        self._replies: dict[int, queue.SimpleQueue[tuple[int, bytes]]] = {}
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()
        assert self.ask(Opcode.INIT, INIT)[0] == 0

    def close(self) -> None:
        self.end.shutdown(socket.SHUT_RDWR)
        self.calls.close()
        self._thread.join()
        self.end.close()
        self._session.close()

    def ask(
        self, opcode: int, body: bytes, file: int = ROOT, operation: int = 0
    ) -> "tuple[int, bytes]":
        """errno and body of the reply."""
        return self.wait(self.begin(opcode, body, file, operation))

    def begin(self, opcode: int, body: bytes, file: int = ROOT, operation: int = 0) -> int:
        """Ask, and do not wait; the number of the request."""
        with self._lock:
            number = next(self._numbers)
            self._replies[number] = queue.SimpleQueue()
        self.send(opcode, body, file, operation, number)
        return number

    def send(self, opcode: int, body: bytes, file: int, operation: int, number: int) -> None:
        """A request as it is, with the process that asks."""
        length = IN_HEADER.size + len(body)
        message = IN_HEADER.pack(length, opcode, number, file, 33, 33, number % 1000, 0) + body
        self.end.sendall(RECORD.pack(length, REQUEST, 0, operation) + message)

    def go_on_from(self, number: int) -> None:
        """The next request has this number: it is the kernel of another object of this class."""
        self._numbers = itertools.count(number, 2)

    def interrupt(self, number: int) -> None:
        """Who asked is not going to wait."""
        self.send(Opcode.INTERRUPT, struct.pack("<Q", number), 0, 0, number | 1)

    def wait(self, number: int, seconds: float = 20) -> tuple[int, bytes]:
        return self._replies[number].get(timeout=seconds)

    def waits(self, number: int) -> bool:
        return self._replies[number].empty()

    def _receive(self) -> None:
        stream = Pieces(self.end)
        try:
            while True:
                length, error, number = OUT_HEADER.unpack(stream.take(OUT_HEADER.size))
                self._replies[number].put((-error, stream.take(length - OUT_HEADER.size)))
        except (OSError, EOFError):
            pass

    # What programs do. Each raises OSError.

    def create(self, name: str, operation: int, flags: int = os.O_RDWR | os.O_APPEND) -> int:
        """The handle of a new file in the root."""
        body = struct.pack("<IIII", flags, 0o644, 0o22, 0) + name.encode() + b"\0"
        reply = self._good(*self.ask(Opcode.CREATE, body, ROOT, operation))
        return int(struct.unpack_from("<Q", reply, len(reply) - 16)[0])

    def lookup(self, name: str, operation: int) -> int:
        """The number of a file in the root."""
        reply = self.ask(Opcode.LOOKUP, name.encode() + b"\0", ROOT, operation)
        return int(struct.unpack_from("<Q", self._good(*reply))[0])

    def open(self, file: int, operation: int, flags: int = os.O_RDONLY) -> int:
        reply = self.ask(Opcode.OPEN, struct.pack("<II", flags, 0), file, operation)
        return int(struct.unpack_from("<Q", self._good(*reply))[0])

    def append(self, file: int, handle: int, data: bytes, operation: int) -> None:
        self._good(*self.ask(Opcode.WRITE, self.appending(handle, data), file, operation))

    def appending(self, handle: int, data: bytes) -> bytes:
        """The body of a write; where the end is, this kernel believes otherwise than others."""
        about = (handle, self.owner % 4096, len(data), 2, self.owner, os.O_RDWR | os.O_APPEND, 0)
        return struct.pack("<QQIIQII", *about) + data

    def read(self, file: int, handle: int, operation: int) -> bytes:
        body = struct.pack("<QQIIQII", handle, 0, 4096, 2, self.owner, os.O_RDONLY, 0)
        return self._good(*self.ask(Opcode.READ, body, file, operation))

    def allocate(
        self, file: int, handle: int, mode: int, offset: int, length: int, operation: int
    ) -> None:
        """As fallocate(2)."""
        body = struct.pack("<QQQII", handle, offset, length, mode, 0)
        self._good(*self.ask(Opcode.FALLOCATE, body, file, operation))

    def release(self, file: int, handle: int) -> None:
        body = struct.pack("<QIIQ", handle, os.O_RDONLY, 0, self.owner)
        self._good(*self.ask(Opcode.RELEASE, body, file))

    def locking(self, handle: int, kind: int) -> bytes:
        """The body of a lock of a whole file."""
        process = self.owner % 1000
        about = (handle, self.owner, 0, (1 << 63) - 1, kind, process, 0, 0)
        return struct.pack("<QQQQIIII", *about)

    @staticmethod
    def _good(error: int, body: bytes) -> bytes:
        if error:
            raise OSError(error, os.strerror(error))
        return body
