# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The door to a machine's streams: a Unix socket of the host, behind which is the guest's port.

Bytes are passed on as they are: what they mean is between the client and the guest's agent
(replay/agent/streams.h). Only the marks, by which a guest tells one host from the next, are the
door's. One client is inside at a time; the next one takes its place.

QEMU goes on with a port while its machine is paused: for bytes that come or leave it writes to
the guest's memory. So nothing is passed while a machine is frozen, or memory would not go with the
state of its devices.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from satchel.errors import SatchelError, UnavailableError
from satchel.readiness import readable

logger = logging.getLogger(__name__)

MARK_BYTES = 16
PIECE = 1 << 16
MARK_SECONDS = 30.0
"""How long a guest may take to send its mark."""


class StreamsUnreached(UnavailableError):
    """The port of a guest's streams does not answer."""


class StreamDoor:
    """See the module. `close` ends it."""

    def __init__(self, path: Path, port: Path, attach: Callable[[bytes], None]) -> None:
        """Listen at `path`, which is made. port: the host's end of the guest's port, for one
        connection at a time; attach: tells the guest's agent the mark of a new host. Raises
        OSError."""
        self.path = path
        self._port = port
        self._attach = attach
        self._lock = threading.Lock()
        self._inside: tuple[socket.socket, ...] = ()
        self._worker: threading.Thread | None = None
        self._closing = False
        self._passing = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        self._listener.bind(bytes(path))
        path.chmod(0o600)
        self._listener.listen(4)
        self._thread = threading.Thread(target=self._accept, name="streams' door", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Within, no byte goes to the guest or comes from it."""
        with self._passing:
            yield

    def close(self) -> None:
        """Let nobody in any more, and whoever is inside out. Harmless the second time."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self._cut()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._cut()
            with self._lock:
                self._inside = (client,)
            self._worker = threading.Thread(
                target=self._let_in, args=(client,), name="streams", daemon=True
            )
            self._worker.start()

    def _cut(self) -> None:
        with self._lock:
            inside, self._inside = self._inside, ()
        for end in inside:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if self._worker:
            self._worker.join()
            self._worker = None

    def _let_in(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as guest:
            try:
                rest = self._greet(client, guest)
                if rest is None:
                    return
                outwards = threading.Thread(
                    target=self._carry_out, args=(guest, client, rest), daemon=True
                )
                outwards.start()
                self._carry_in(client, guest)
                outwards.join()
            except (OSError, SatchelError) as error:
                logger.info("streams at %s: %s", self.path, error)

    def _greet(self, client: socket.socket, guest: socket.socket) -> bytes | None:
        """What the guest has said behind its mark so far; None where we are to leave."""
        with self._lock:
            if client not in self._inside:
                return None
            self._inside = (client, guest)
        guest.settimeout(MARK_SECONDS)
        guest.connect(bytes(self._port))
        mark = secrets.token_bytes(MARK_BYTES)
        self._attach(mark)
        guest.sendall(mark)
        seen = b""
        while (at := seen.find(mark)) < 0:
            piece = guest.recv(PIECE)
            if not piece:
                raise StreamsUnreached(f"no streams at {self._port}", why="the guest closed them")
            seen = seen[-(MARK_BYTES - 1) :] + piece
        guest.settimeout(None)
        return seen[at + MARK_BYTES :]

    def _carry_out(self, guest: socket.socket, client: socket.socket, first: bytes) -> None:
        """Until either ends; then both do. first: what has come already"""
        with contextlib.suppress(OSError):
            client.sendall(first)
            while piece := self._leaves(guest):
                client.sendall(piece)
        _closed(guest, client)

    def _carry_in(self, client: socket.socket, guest: socket.socket) -> None:
        """Likewise."""
        with contextlib.suppress(OSError):
            while piece := client.recv(PIECE):
                self._enters(guest, memoryview(piece))
        _closed(guest, client)

    def _leaves(self, guest: socket.socket) -> bytes:
        readable([guest])
        with self._passing:
            return guest.recv(PIECE)

    def _enters(self, guest: socket.socket, piece: memoryview) -> None:
        poll = select.poll()
        poll.register(guest, select.POLLOUT)
        while piece:
            poll.poll()
            with self._passing, contextlib.suppress(BlockingIOError):
                piece = piece[guest.send(piece, socket.MSG_DONTWAIT) :]


def _closed(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def still(door: StreamDoor | None) -> Iterator[None]:
    """The same of a machine that may have no door."""
    with door.still() if door else contextlib.nullcontext():
        yield
