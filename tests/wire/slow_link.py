# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A TCP link of our own on loopback, with delay, that can be frozen or cut: a fault injector."""

import contextlib
import queue
import socket
import threading
import time

WINDOW = 1024
"""Pieces of at most 64 KiB under way in each direction before the sender is held up."""


class SlowLink:
    """Carries connections to its `port` on to the port `target`, each way `delay` seconds later."""

    def __init__(self, target: int, *, delay: float = 0.0) -> None:
        self._target = target
        self._delay = delay
        self._ends: list[socket.socket] = []
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self.under_way = 0
        """Bytes that one end has sent, and the other has not got yet."""
        self.carried = 0
        """Bytes that were sent, both ways."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """Nothing passes any more; no end is told."""
        self._flows.clear()

    def thaw(self) -> None:
        """All that waits passes."""
        self._flows.set()

    def close(self) -> None:
        """Cut every connection and accept no more."""
        self._flows.set()
        for end in [self._listener, *self._ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> "SlowLink":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(WINDOW)
                    for end, run in ((source, self._take), (sink, self._give)):
                        threading.Thread(target=run, args=(end, pieces), daemon=True).start()

    def _take(self, source: socket.socket, pieces: "queue.Queue[tuple[float, bytes]]") -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                self._count(len(piece))
                pieces.put((time.monotonic() + self._delay, piece))
        pieces.put((time.monotonic() + self._delay, b""))

    def _give(self, sink: socket.socket, pieces: "queue.Queue[tuple[float, bytes]]") -> None:
        with contextlib.suppress(OSError):
            while True:
                due, piece = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                self._flows.wait()
                if not piece:
                    sink.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(piece)
                self._count(-len(piece))

    def _count(self, size: int) -> None:
        with self._lock:
            self.under_way += size
            self.carried += max(0, size)
