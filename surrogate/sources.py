# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sources of chunks that a surrogate has: sockets that the client forwarded."""

from __future__ import annotations

from pathlib import Path

from wire import ChunkClient, HttpClient


class SocketSource:
    """A source behind a Unix socket: the client's media, or home through the client."""

    def __init__(self, name: str, socket: Path) -> None:
        self.name = name
        self._http = HttpClient(socket, peer=name)
        self._chunks = ChunkClient(self._http)

    def fetch(self, refs: bytes, silence: float) -> bytes:
        """Pack records of those chunks that the source has. Raises UnavailableError, also when
        nothing came for `silence` seconds."""
        return self._chunks.fetch(refs, timeout=silence)

    def close(self) -> None:
        """Close its connections, those in use as soon as they are not."""
        self._http.close()
