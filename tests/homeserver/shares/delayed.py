# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A Unix socket whose every byte is late: a link's delay without its rate, and without root."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from pathlib import Path

READ = 1 << 18


class DelayedSocket:
    """Hands on connections to another socket, until `close`. Thread-safe."""

    def __init__(self, path: Path, to: Path, delay: float) -> None:
        """delay: seconds, in each direction. Raises OSError."""
        self._to, self._delay = to, delay
        self._ends: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, name="delayed socket", daemon=True).start()

    def close(self) -> None:
        """Every connection is cut."""
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            there.connect(str(self._to))
            self._ends += [here, there]
            for source, target in ((here, there), (there, here)):
                late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                for run, end in ((self._read, source), (self._write, target)):
                    threading.Thread(target=run, args=(end, late), daemon=True).start()

    def _read(self, source: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(READ)
            except OSError:
                data = b""
            late.put((time.monotonic() + self._delay, data))

    @staticmethod
    def _write(target: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while True:
            due, data = late.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return


__all__ = ["DelayedSocket"]
