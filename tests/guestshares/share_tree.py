# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A tree in memory that answers a kernel's FUSE messages, one session or several after each other.

It is the least that a kernel needs, in the words of linux/fuse.h, so that a relay is tested without
the library that it will serve. A handle is the file's number: a session knows nothing of the one
before it. Each request is counted, so a test can see what was asked twice.
"""

import errno
import itertools
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable

FOLDER, FILE = 0o040777, 0o100666
_POSIX_LOCKS, _TRUNCATE_AT_OPEN, _BIG_WRITES, _FLOCK = 1 << 1, 1 << 3, 1 << 5, 1 << 10
_DIRECT_IO = 1
_UNLOCK = 2
LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE, CREATE, SETLKW = 1, 3, 4, 14, 15, 16, 35, 33


class ShareTree:
    """Files in one folder, and locks of whole files. `held` holds up answers while it is cleared;
    hold: opcodes that wait for that."""

    def __init__(self) -> None:
        self.files: dict[int, bytearray] = {}
        self.names: dict[bytes, int] = {}
        self.locks: dict[int, int] = {}
        self.asked: Counter[int] = Counter()
        self.hold: set[int] = set()
        self.waiting = threading.Event()
        self.held = threading.Event()
        self.held.set()
        self.flags = _POSIX_LOCKS | _TRUNCATE_AT_OPEN | _BIG_WRITES | _FLOCK
        self._numbers = itertools.count(2)
        self._changed = threading.Condition()

    def serve(self, session: socket.socket) -> threading.Thread:
        """Answer that session until it ends, each request in a thread of its own."""
        thread = threading.Thread(target=self._serve, args=(session,), daemon=True)
        thread.start()
        return thread

    def _serve(self, session: socket.socket) -> None:
        sending = threading.Lock()
        with session, session.makefile("rb") as stream:
            while len(header := stream.read(40)) == 40:
                length, opcode, unique, file, *_ = struct.unpack("<IIQQIIII", header)
                body = stream.read(length - 40)
                work = (session, sending, opcode, unique, file, body)
                threading.Thread(target=self._reply, args=work, daemon=True).start()

    def _reply(
        self,
        session: socket.socket,
        sending: threading.Lock,
        opcode: int,
        unique: int,
        file: int,
        body: bytes,
    ) -> None:
        self.asked[opcode] += 1
        if opcode in self.hold:
            self.waiting.set()
            self.held.wait(30)
        try:
            answer, code = self._answer(opcode, file, body), 0
        except OSError as error:
            answer, code = b"", error.errno or errno.EIO
        if answer is not None:
            with sending:
                try:
                    session.sendall(struct.pack("<IiQ", 16 + len(answer), -code, unique) + answer)
                except OSError:
                    return

    def _answer(self, opcode: int, file: int, body: bytes) -> bytes | None:
        if opcode in (2, 36, 42):
            return None
        if opcode in (18, 25, 29):
            return b""
        answers: dict[int, Callable[[int, bytes], bytes]] = {
            26: self._init,
            LOOKUP: self._lookup,
            GETATTR: lambda file, body: struct.pack("<QII", 0, 0, 0) + self._attributes(file),
            SETATTR: self._change,
            OPEN: self._open,
            27: self._open,
            28: self._entries,
            READ: self._read,
            WRITE: self._write,
            CREATE: self._create,
            32: self._lock,
            SETLKW: self._lock,
            17: lambda file, body: bytes(80),
        }
        if opcode not in answers:
            raise OSError(errno.ENOSYS, "not in this tree")
        return answers[opcode](file, body)

    def _init(self, file: int, body: bytes) -> bytes:
        answer = struct.pack("<IIIIHHIIHH", 7, 38, 131072, self.flags, 12, 9, 131072, 1, 0, 0)
        return answer + bytes(64 - len(answer))

    def _attributes(self, file: int) -> bytes:
        mode = FOLDER if file == 1 else FILE
        size = len(self.files.get(file, b""))
        return struct.pack("<6Q10I", file, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _entry(self, file: int) -> bytes:
        return struct.pack("<QQQQII", file, 0, 0, 0, 0, 0) + self._attributes(file)

    def _lookup(self, parent: int, body: bytes) -> bytes:
        name = body.rstrip(b"\0")
        if name not in self.names:
            raise OSError(errno.ENOENT, "no such name")
        return self._entry(self.names[name])

    def _open(self, file: int, body: bytes) -> bytes:
        return struct.pack("<QII", file, _DIRECT_IO, 0)

    def _create(self, parent: int, body: bytes) -> bytes:
        name = body[16:].rstrip(b"\0")
        file = self.names.setdefault(name, next(self._numbers))
        self.files[file] = bytearray()
        return self._entry(file) + self._open(file, b"")

    def _change(self, file: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & 1 << 3:
            self.files[file] = self.files[file][:size].ljust(size, b"\0")
        return struct.pack("<QII", 0, 0, 0) + self._attributes(file)

    def _entries(self, file: int, body: bytes) -> bytes:
        offset = struct.unpack_from("<QQ", body)[1]
        listing = b""
        for number, (name, entry) in enumerate(sorted(self.names.items()), start=1):
            record = struct.pack("<QQII", entry, number, len(name), 8) + name
            listing += b"" if number <= offset else record + bytes(-len(record) % 8)
        return listing

    def _read(self, file: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return bytes(self.files[handle][offset : offset + size])

    def _write(self, file: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        content = self.files[handle]
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + size] = body[40:]
        return struct.pack("<II", size, 0)

    def _lock(self, file: int, body: bytes) -> bytes:
        handle, owner, _, _, kind, _ = struct.unpack_from("<QQQQII", body)
        with self._changed:
            if kind == _UNLOCK:
                if self.locks.get(handle) == owner:
                    del self.locks[handle]
                self._changed.notify_all()
                return b""
            self._changed.wait_for(lambda: self.locks.get(handle, owner) == owner, 30)
            self.locks[handle] = owner
        return b""
