# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The daemon's end of the miss protocol. Its other end is volumes/plugin/miss_client.cc, the
bytes are in volumes/plugin/miss_protocol.h, the page is docs/formats/block-map.md.

One thread accepts, one thread serves each connection: a plugin thread that waits for a block has
a thread here that works for it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from satchel.errors import SatchelError, UsageError
from satchel.ids import BLOCK_SIZE
from volumes.volume import ReadAbandoned, Resolver, Volume

logger = logging.getLogger(__name__)

REQUEST_MAGIC = 0x51544153
REPLY_MAGIC = 0x50544153
CONTENT_MAGIC = 0x43544153
MISS_LIMIT = 256
"""Blocks in one request."""

_REQUEST = struct.Struct("<IIQII")
_REPLY = struct.Struct("<II")


class BadRequest(UsageError):
    """The bytes are not a miss request. The connection is closed."""


@dataclass(frozen=True)
class MissRequest:
    """The plugin wants `count` blocks from block `first` on of the volume of that index."""

    volume: int
    first: int
    count: int

    def encode(self) -> bytes:
        return _REQUEST.pack(REQUEST_MAGIC, self.volume, self.first, self.count, 0)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises BadRequest."""
        if len(data) != _REQUEST.size:
            raise BadRequest("bad miss request", why=f"it has {len(data)} bytes")
        magic, volume, first, count, reserved = _REQUEST.unpack(data)
        if magic != REQUEST_MAGIC or reserved != 0:
            raise BadRequest("bad miss request", why=f"it begins with {data[:4].hex()}")
        if not 1 <= count <= MISS_LIMIT:
            raise BadRequest("bad miss request", why=f"it asks for {count} blocks")
        return cls(volume, first, count)


@dataclass(frozen=True)
class MissCounts:
    """What has been asked of a miss server since it started."""

    requests: int
    blocks: int
    failed: int


class MissServer:
    """Answers the misses of one plugin. Thread-safe."""

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        volumes: Sequence[Volume],
        resolver: Resolver,
    ) -> None:
        self._listener = listener
        self._path = path
        self._volumes = tuple(volumes)
        self._resolver = resolver
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._closed = False
        self._counts = MissCounts(0, 0, 0)
        self._acceptor = threading.Thread(target=self._accept, name="misses", daemon=True)

    @classmethod
    def start(cls, path: Path, volumes: Sequence[Volume], resolver: Resolver) -> Self:
        """Listen at `path`, taking over a socket that an earlier daemon left there.

        `volumes` in the order of the plugin's volume= settings.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(128)
        except BaseException:
            listener.close()
            raise
        server = cls(listener, path, volumes, resolver)
        server._acceptor.start()
        return server

    @property
    def counts(self) -> MissCounts:
        with self._lock:
            return self._counts

    def close(self) -> None:
        """Stop listening, end every connection and remove the socket.

        A resolver that is under way goes on in its thread; its answer reaches nobody.
        """
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        for connection in (self._listener, *connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._connections.add(connection)
            threading.Thread(
                target=self._serve, args=(connection,), name="miss", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while data := _receive(connection):
                connection.sendall(self._answer(MissRequest.decode(data)))
        except BadRequest as error:
            logger.warning("%s: %s", self._path, error)
        except OSError:
            pass  # the plugin has gone, or close() was called
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answer(self, request: MissRequest) -> bytes:
        """Resolve one request: the reply."""
        status, content = errno.EINVAL, None
        if request.volume < len(self._volumes):
            volume = self._volumes[request.volume]
            if request.first + request.count <= volume.blocks:
                status, content = self._resolve(volume, request)
        with self._lock:
            counts = self._counts
            self._counts = MissCounts(
                counts.requests + 1, counts.blocks + request.count, counts.failed + (status != 0)
            )
        if content is None:
            return _REPLY.pack(REPLY_MAGIC, status)
        return _REPLY.pack(CONTENT_MAGIC, 0) + content

    def _resolve(self, volume: Volume, request: MissRequest) -> tuple[int, bytes | None]:
        """0 or an errno for the guest, and the content that is not kept."""
        last = request.first + request.count - 1
        try:
            content = self._resolver(volume, request.first, request.count)
            assert content is None or len(content) == request.count * BLOCK_SIZE
        except SatchelError as error:
            level = logging.DEBUG if isinstance(error, ReadAbandoned) else logging.ERROR
            blocks = (volume.name, request.first, last)
            logger.log(level, "volume %s, blocks %d to %d: %s", *blocks, error)
            return errno.EIO, None
        except Exception:
            logger.exception("volume %s, blocks %d to %d", volume.name, request.first, last)
            return errno.EIO, None
        return 0, content


def _receive(connection: socket.socket) -> bytes:
    """One request's bytes; fewer, or none, when the plugin has closed the connection."""
    data = b""
    while len(data) < _REQUEST.size:
        piece = connection.recv(_REQUEST.size - len(data))
        if not piece:
            break
        data += piece
    return data
