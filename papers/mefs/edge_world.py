# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home, surrogates and a client in one process, with relays of Unix sockets for the links between.

A relay delays what goes through it by half a round trip, and lets so many bytes a second go. What a
guest asks of its shares is asked here as its kernel asks it, in FUSE messages: there is no machine,
so figures have what files cost and nothing of what a guest computes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from guestshares import (
    CallHost,
    CallKeeper,
    CallRecord,
    EdgeKeeper,
    Keeper,
    MemberHost,
    kernel,
    line,
)
from homeserver import edge
from homeserver.shares import ShareRegistry, Shares
from satchel.ids import ReplicaId
from satchel.paths import edge_sockets
from shares.home import ShareRecord
from shares.node import Buffer, Member
from surrogate import guests
from wire import Caller

SHARE, SERVICE = "papers", "files"
ROOT = 1
HOME_TRIP, EDGE_TRIP = 0.035, 0.005
"""Seconds from the client to home and back, and to a surrogate."""

RATE, EDGE_RATE = 20e6 / 8, 100e6 / 8
"""Bytes a second of these: a home's uplink, and Wi-Fi."""

LEASE = 10.0
PATIENCE_SECONDS = 60.0
_INIT = struct.pack("<IIII", 7, 38, 1 << 17, 0) + bytes(48)
_PIECE = 1 << 16


class Relay:
    """Carries connections at one socket to another. carried: bytes, both ways."""

    def __init__(self, here: Path, there: Path, trip: float, rate: float = RATE) -> None:
        self._there, self._delay, self._rate = there, trip / 2, rate
        self.carried = 0
        self._ends: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(here))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                far.connect(str(self._there))
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    for work, about in ((self._take, source), (self._give, sink)):
                        threading.Thread(target=work, args=(about, pieces), daemon=True).start()

    def _take(self, source: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        free = 0.0
        data = b" "
        while data:
            try:
                data = source.recv(_PIECE)
            except OSError:
                data = b""
            self.carried += len(data)
            free = max(free, time.monotonic()) + len(data) / self._rate
            pieces.put((free + self._delay, data))

    @staticmethod
    def _give(sink: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)


class Guest:
    """The kernel of a guest and `files` in it, with what that asks for a GET and a PUT."""

    def __init__(self, keeper: Keeper, number: int = 2) -> None:
        self.keeper = keeper
        self._end, self._session = socket.socketpair()
        self.calls = CallHost(lambda: keeper).serve(self._session)
        self._numbers = itertools.count(number, 2)
        self._stream = line.Pieces(self._end)
        self._lock = threading.Lock()
        self.ask(kernel.Opcode.INIT, _INIT)

    def close(self) -> None:
        self._end.shutdown(socket.SHUT_RDWR)
        self.calls.close()
        self._end.close()
        self._session.close()

    def ask(self, opcode: int, body: bytes, file: int = ROOT, operation: int = 0) -> bytes:
        """The body of the reply. Raises OSError."""
        length, number = kernel.IN_HEADER.size + len(body), next(self._numbers)
        message = kernel.IN_HEADER.pack(length, opcode, number, file, 0, 0, 1, 0) + body
        self._end.sendall(line.RECORD.pack(length, 2, 0, operation) + message)
        length, error, _ = kernel.OUT_HEADER.unpack(self._stream.take(kernel.OUT_HEADER.size))
        reply = self._stream.take(length - kernel.OUT_HEADER.size)
        if error:
            raise OSError(-error, os.strerror(-error))
        return reply

    def put(self, name: str, data: bytes, operation: int) -> None:
        with self._lock:
            try:
                file = self._lookup(name, operation)
                handle = self._open(file, operation, os.O_WRONLY | os.O_TRUNC)
            except FileNotFoundError:
                body = struct.pack("<IIII", os.O_WRONLY, 0o644, 0o22, 0) + name.encode() + b"\0"
                reply = self.ask(kernel.Opcode.CREATE, body, ROOT, operation)
                handle = int(struct.unpack_from("<Q", reply, len(reply) - 16)[0])
                file = self._lookup(name, operation)
            about = (handle, 0, len(data), 2, 8, os.O_WRONLY, 0)
            self.ask(kernel.Opcode.WRITE, struct.pack("<QQIIQII", *about) + data, file, operation)
            self._close(file, handle, operation)
            self.calls.finished(operation)

    def get(self, name: str, size: int, operation: int) -> bytes:
        with self._lock:
            file = self._lookup(name, operation)
            handle = self._open(file, operation, os.O_RDONLY)
            self.ask(kernel.Opcode.GETATTR, struct.pack("<IIQ", 0, 0, 0), file, operation)
            body = struct.pack("<QQIIQII", handle, 0, size, 2, 8, os.O_RDONLY, 0)
            data = self.ask(kernel.Opcode.READ, body, file, operation)
            self._close(file, handle, operation)
            self.calls.finished(operation)
            return data

    def _lookup(self, name: str, operation: int) -> int:
        reply = self.ask(kernel.Opcode.LOOKUP, name.encode() + b"\0", ROOT, operation)
        return int(struct.unpack_from("<Q", reply)[0])

    def _open(self, file: int, operation: int, flags: int) -> int:
        reply = self.ask(kernel.Opcode.OPEN, struct.pack("<II", flags, 0), file, operation)
        return int(struct.unpack_from("<Q", reply)[0])

    def _close(self, file: int, handle: int, operation: int) -> None:
        self.ask(kernel.Opcode.FLUSH, struct.pack("<QIIQ", handle, 0, 0, 8), file, operation)
        self.ask(kernel.Opcode.RELEASE, struct.pack("<QIIQ", handle, 0, 0, 8), file)


class World:
    """A home with a share, whose operations are logged when they are begun."""

    def __init__(self, folder: Path, log: str = "async") -> None:
        self.folder, self.root = folder, folder / "root"
        self.root.mkdir()
        self.logged = 0
        self._stack = contextlib.ExitStack()
        self.shares = Shares(ShareRegistry(folder / "shelf"), folder / "s", LEASE)
        self._stack.callback(self.shares.close)
        self.shares.add(ShareRecord(SHARE, str(self.root), log=log))
        host = MemberHost(self.member, folder / "nodes")
        record = CallRecord(folder / "calls")
        self.keeper = CallKeeper(SERVICE, record, host.serve, lambda: self.logged)
        self._stack.callback(self.keeper.close)
        shelf = edge.GrantRegistry(folder / "grants")
        self.doors = edge.EdgeDoors(
            folder, shelf, self.shares, lambda _: self.keeper, lambda _: SHARE
        )
        self._stack.callback(self.doors.close)
        self.relays: dict[str, list[Relay]] = {}

    def close(self) -> None:
        self._stack.close()
        for relay in itertools.chain.from_iterable(self.relays.values()):
            relay.close()

    def member(self, copies: Path) -> Member:
        return Member(lambda ends: Caller(self.folder / "s", ends), SHARE, SERVICE, Buffer(copies))

    def log(self, operation: int) -> None:
        self.logged = max(self.logged, operation)
        self.keeper.logged()

    def at_home(self) -> Guest:
        return Guest(self.keeper.at_home())

    def at_edge(self, name: str, trip: float = HOME_TRIP + EDGE_TRIP) -> Guest:
        """A guest at a surrogate from where home is so far, through the client."""
        self.doors.grant(edge.ShareGrant(SHARE, SERVICE, name, writable=True))
        ends = []
        for there in edge_sockets(SERVICE, name):
            here = self.folder / f"at-{name}-{there[:10]}"
            self.relays.setdefault(name, []).append(Relay(here, self.folder / there, trip))
            ends.append(here)
        keeper = guests.edge_keeper(
            ends[1],
            ends[0],
            ReplicaId(f"files-{name}"),
            share=SHARE,
            service=SERVICE,
            folder=self.folder / f"nodes-{name}",
        )
        return Guest(keeper, 1_000_002)

    def lead(self, guest: Guest, operation: int) -> int:
        """Have it ask until it leads; the operation after that."""
        edge = guest.keeper
        assert isinstance(edge, EdgeKeeper)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while edge.state.value != "leads" and time.monotonic() < deadline:
            self.log(operation)
            with contextlib.suppress(FileNotFoundError):
                guest.ask(kernel.Opcode.LOOKUP, b"nothing\0", ROOT, operation)
            guest.calls.finished(operation)
            operation += 1
        return operation + 1


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    folder.mkdir(parents=True)
    made = World(folder)
    try:
        yield made
    finally:
        made.close()
