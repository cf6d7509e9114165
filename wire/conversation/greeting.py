# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a conversation gets its connections: one side calls, the other listens at a Unix socket.

Each begins with a hello; what it says is the users' affair. It has to say which conversation goes
on, and how many of its frames were taken.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from satchel.errors import SatchelError, UnavailableError
from wire.conversation.duplex import HEADER, RECEIVE, Duplex, FrameKind, Reply
from wire.errors import LocalProtocolError, PeerUnreachable, RemoteProtocolError
from wire.ports.listening import listen_unix, peer_process

log = logging.getLogger(__name__)

HELLO_LIMIT = 4096
HELLO_SECONDS = 10.0

RETRY_SECONDS = 0.5
"""Between the attempts to connect again."""

AGAIN_SECONDS = 0.02
"""After the end of a connection that stood, until the first attempt."""


class ConversationOwner(Protocol):
    """Who holds a conversation that this side begins."""

    def greet(self, received: int) -> bytes:
        """The hello. received: frames that were taken in this conversation so far."""
        ...

    def welcomed(self, hello: bytes) -> int:
        """What the other side says to it: how many frames it has taken in this conversation.
        Raises SatchelError where it does not go on: the conversation is over then."""
        ...

    def arrived(self, payload: bytes, reply: Reply | None) -> None:
        """As `Arrived` says."""
        ...

    def ended(self, why: str) -> None:
        """The conversation is over. Called once, on a thread of its own or of the reader."""
        ...


class Caller:
    """Holds a conversation with who listens at a Unix socket, and connects again when that
    breaks."""

    def __init__(self, path: Path, ends: ConversationOwner, name: str = "") -> None:
        """Begin at once; `Duplex.ask` waits until there is a connection."""
        self._path = path
        self._ends = ends
        self.duplex = Duplex(name or path.name, ends.arrived)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"call {path.name}", daemon=True)
        self._thread.start()

    def close(self, why: str = "it was closed here") -> None:
        """End the conversation; returns when the thread has ended, unless it is this one."""
        self._closing.set()
        self.duplex.end(why)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        said = ""
        while self.duplex.ended is None:
            pause = RETRY_SECONDS
            try:
                self._converse()
                said, pause = "", AGAIN_SECONDS
            except UnavailableError as error:
                if str(error) != said:
                    log.info("%s: %s", self.duplex.name, error)
                said = str(error)
            except SatchelError as error:
                self.duplex.end(str(error))
            if self.duplex.ended is None:
                self._closing.wait(pause)
        self._ends.ended(self.duplex.ended)

    def _converse(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(HELLO_SECONDS)
            connection.connect(str(self._path))
            connection.sendall(_hello(self._ends.greet(self.duplex.received)))
            hello, before = _receive_hello(connection)
            connection.settimeout(None)
        except OSError as error:
            connection.close()
            what = f"nobody answers at {self._path}"
            raise PeerUnreachable(what, why=error.strerror or str(error)) from error
        except BaseException:
            connection.close()
            raise
        try:
            taken = self._ends.welcomed(hello)
        except BaseException:
            connection.close()
            raise
        self.duplex.attach(connection, taken, before)


Welcome = Callable[[bytes], "tuple[bytes, Duplex | None, int]"]
"""From a hello to the one in return; with it the conversation, unless it is refused, and how many
of its frames the other side has taken."""


class ConversationListener:
    """Takes connections at a Unix socket of mode 0600, each for a conversation."""

    def __init__(self, path: Path, welcome: Welcome) -> None:
        """Raises what `listen_unix` does."""
        self.path = path
        self._welcome = welcome
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = listen_unix(path)
        self._inode = path.lstat().st_ino
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name=f"at {path.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more, and cut what greets. Conversations are their holders' to end."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._closing:
                    return
                log.warning("%s: %s", self.path, error)
                time.sleep(RETRY_SECONDS)
                continue
            with self._lock:
                self._connections.add(connection)
            threading.Thread(
                target=self._converse, args=(connection,), name=f"at {self.path.name}", daemon=True
            ).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(HELLO_SECONDS)
            hello, before = _receive_hello(connection)
            answer, duplex, taken = self._welcome(hello)
            if duplex:
                duplex.caller = peer_process(connection)
            connection.sendall(_hello(answer))
            connection.settimeout(None)
            if duplex:
                duplex.attach(connection, taken, before)
        except (OSError, SatchelError) as error:
            log.info("%s: %s", self.path, error)
        finally:
            connection.close()
            with self._lock:
                self._connections.discard(connection)


def _hello(payload: bytes) -> bytes:
    if len(payload) > HELLO_LIMIT:
        raise LocalProtocolError("a hello is too long", why=str(len(payload)))
    return HEADER.pack(len(payload), FrameKind.HELLO, 0, 0) + payload


def _receive_hello(connection: socket.socket) -> tuple[bytes, bytes]:
    """The hello, and what came after it. Raises OSError, PeerUnreachable, RemoteProtocolError."""
    buffer = b""
    wanted = HEADER.size
    deadline = time.monotonic() + HELLO_SECONDS
    while len(buffer) < wanted:
        part = connection.recv(RECEIVE)
        if not part or time.monotonic() > deadline:
            raise PeerUnreachable("the peer did not greet", why="it closed the connection")
        buffer += part
        if len(buffer) >= HEADER.size:
            length, kind, _, _ = HEADER.unpack_from(buffer)
            if kind != FrameKind.HELLO or length > HELLO_LIMIT:
                raise RemoteProtocolError("the peer did not greet", why="it sent something else")
            wanted = HEADER.size + length
    return buffer[HEADER.size : wanted], buffer[wanted:]
