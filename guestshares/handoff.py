# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The file session of a guest, which goes along when its machine moves (MEFS, Section IV.A).

It is said in the records of an application's session (`shares.session`): a head, and the files that
are open, or were a moment ago. Positions are in the guest's memory and locks are home's. What was
written and home has not goes ahead of it, call by call.

    old surrogate      home                           new surrogate
    prepare_handoff                                   expect_handoff: names, files to read
    send_handoff   ->  does what was not at home  ->  restore_handoff: opens the files, leads
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from guestshares.kernel import IN_HEADER, OUT_HEADER, KernelRequest, Opcode
from guestshares.messages import UnsentCall
from guestshares.requests import asked, written_through
from satchel.errors import IntegrityError
from shares.session import SESSION_VERSION, OpenFileRecord, SessionHeader, pack_all, unpack

REMEMBERED_SECONDS = 10.0
"""For which a file that is closed still belongs to the session: programs open it again."""

FILES = 64
"""Of a session, those that were used last."""

NAMES = 4096

AHEAD_BYTES = 64 << 10

DEPTH = 64
"""Folders above a file, at most."""

_ROOT = 1
_CREATE_IN = 16


class OpenedFiles:
    """What a guest has open, by what it asks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: OrderedDict[int, tuple[int, bytes]] = OrderedDict()  # parent, name
        self._files: OrderedDict[int, tuple[float, int]] = OrderedDict()  # when it was used, flags

    def note(self, request: KernelRequest, reply: bytes) -> None:
        """That was asked, and answered so."""
        if OUT_HEADER.unpack_from(reply)[1]:
            return
        body = request.message[IN_HEADER.size :]
        with self._lock:
            if len(reply) >= OUT_HEADER.size + 8:
                (file,) = struct.unpack_from("<Q", reply, OUT_HEADER.size)
            if request.opcode == Opcode.LOOKUP:
                self._name(file, request.file, body.rstrip(b"\0"))
            elif request.opcode == Opcode.CREATE:
                self._name(file, request.file, body[_CREATE_IN:].rstrip(b"\0"))
                self._use(file, *struct.unpack_from("<I", body))
            elif request.opcode == Opcode.OPEN:
                self._use(request.file, *struct.unpack_from("<I", body))

    def _name(self, file: int, parent: int, name: bytes) -> None:
        self._names[file] = parent, name
        self._names.move_to_end(file)
        if len(self._names) > NAMES:
            self._names.popitem(last=False)

    def _use(self, file: int, flags: int) -> None:
        """As one that is written, if it ever was."""
        _, before = self._files.pop(file, (0.0, os.O_RDONLY))
        self._files[file] = time.monotonic(), max(flags & os.O_ACCMODE, before)
        if len(self._files) > FILES:
            self._files.popitem(last=False)

    def session(self, name: str) -> bytes:
        """As records. name: whose it is."""
        least = time.monotonic() - REMEMBERED_SECONDS
        files: list[OpenFileRecord] = []
        with self._lock:
            for file, (used, flags) in self._files.items():
                path = self._path(file)
                if used >= least and path is not None:
                    files.append(OpenFileRecord(len(files) + 3, file, flags, 0, path))
        return pack_all([SessionHeader(SESSION_VERSION, name.encode()), *files])

    def _path(self, file: int) -> bytes | None:
        names: list[bytes] = []
        while file != _ROOT:
            if file not in self._names or len(names) > DEPTH:
                return None
            file, name = self._names[file]
            names.append(name)
        return b"/".join(reversed(names))


def files_of(session: bytes) -> list[OpenFileRecord]:
    """Raises IntegrityError where that is no session of a guest."""
    records = list(unpack(session))
    if (
        not records
        or not isinstance(records[0], SessionHeader)
        or records[0].version != SESSION_VERSION
    ):
        raise IntegrityError("malformed handoff", why="it begins with no head of this version")
    files = [record for record in records if isinstance(record, OpenFileRecord)]
    deep = any(file.path.count(b"/") > DEPTH for file in files)
    if len(files) + 1 != len(records) or len(files) > FILES or deep:
        raise IntegrityError("malformed handoff", why="it has more than a guest's open files")
    return files


class HandoffPrefetch:
    """Looks a session's files up at the node that goes on with it, opens them and reads how they
    begin, all at once.
    Nobody waits for it, and what fails is opened by who needs it."""

    def __init__(
        self,
        perform: Callable[[KernelRequest, Callable[[bytes], None]], object],
        opened: Callable[[int, int], None],
    ) -> None:
        """opened: is given each file and flags that it was opened with."""
        self._perform, self._opened = perform, opened

    def open(self, files: Iterable[OpenFileRecord], *, reading_only: bool) -> None:
        """reading_only: another node may still write the others; those are looked up."""
        for file in files:
            self._walk(_ROOT, file.path.split(b"/"))
            if not reading_only or file.flags & os.O_ACCMODE == os.O_RDONLY:
                self._open(file)

    def _walk(self, at: int, names: list[bytes]) -> None:
        if not names:
            return

        def found(reply: bytes) -> None:
            _, error, _ = OUT_HEADER.unpack_from(reply)
            if not error and len(reply) >= OUT_HEADER.size + 8:
                (child,) = struct.unpack_from("<Q", reply, OUT_HEADER.size)
                self._walk(child, names[1:])

        self._perform(asked(Opcode.LOOKUP, at, names[0] + b"\0"), found)

    def _open(self, file: OpenFileRecord) -> None:
        flags = file.flags & os.O_ACCMODE

        def done(reply: bytes) -> None:
            if not OUT_HEADER.unpack_from(reply)[1]:
                if flags != os.O_WRONLY:
                    about = (file.file << 8 | flags, 0, AHEAD_BYTES, 0, 0, flags, 0)
                    body = struct.pack("<QQIIQII", *about)
                    self._perform(asked(Opcode.READ, file.file, body), lambda reply: None)
                self._opened(file.file, flags)

        self._perform(asked(Opcode.OPEN, file.file, struct.pack("<II", flags, 0)), done)


class HandoffRestore:
    """Home does what a session that is handed over brings: the calls whose writing it has not, in
    their order, and makes them durable (MEFS, Section IV.B, Restore)."""

    def __init__(
        self,
        perform: Callable[[KernelRequest, Callable[[bytes], None]], object],
        goes_on: Callable[[], bool],
        restored: Callable[[list[UnsentCall]], None],
    ) -> None:
        """perform: as Performer's; restored: is given what is done and durable now. It ends before
        one that fails here, and when it does not go on: home's replica does the others again."""
        self._perform, self._goes_on, self._restored = perform, goes_on, restored
        self._done: list[UnsentCall] = []
        self._handles: dict[int, int] = {}  # that write; how often they were opened here

    def begin(self, unsent: Sequence[UnsentCall]) -> None:
        """Never waits."""
        self._next(unsent, 0)

    def _next(self, unsent: Sequence[UnsentCall], place: int) -> None:
        if place == len(unsent) or not self._goes_on():
            self._sync()
            return
        call = unsent[place]

        def answered(reply: bytes) -> None:
            expected = OUT_HEADER.unpack_from(call.reply)[1]
            if OUT_HEADER.unpack_from(reply)[1] != expected:
                self._sync()
                return
            if not expected:
                self._note(call.request)
            self._done.append(call)
            self._next(unsent, place + 1)

        self._perform(call.request, answered)

    def _note(self, request: KernelRequest) -> None:
        handle = written_through(request)
        if handle is None:
            handle = request.file << 8 | os.O_RDWR
        self._handles.setdefault(handle, 0)
        if request.opcode == Opcode.OPEN:
            self._handles[handle] += 1

    def _sync(self) -> None:
        if not self._handles:
            self._restored(self._done)
            return
        handle, opened = self._handles.popitem()

        def synced(reply: bytes) -> None:
            if OUT_HEADER.unpack_from(reply)[1]:
                self._done.clear()
            # Who leads next has it open from now on, alone: home's node is not to keep it.
            release = asked(Opcode.RELEASE, handle >> 8, struct.pack("<QIIQ", handle, 0, 0, 0))
            for _ in range(max(1, opened)):
                self._perform(release, lambda reply: None)
            self._sync()

        body = struct.pack("<QII", handle, 0, 0)
        self._perform(asked(Opcode.FSYNC, handle >> 8, body), synced)
