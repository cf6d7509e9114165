# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A link that counts the round trips of whoever talks over it, whatever the talk is.

All that is on its way arrives together, and only when both sides have nothing more to say before
they hear something: one hop. Two hops are one round trip. So what is sent without waiting for an
answer costs nothing more, however slow this machine is.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

from wire import Peer

QUIET_SECONDS = 0.4
"""Without a word until both sides are taken to wait. Too little would make two hops of one."""

Address = Path | tuple[str, int]


class RoundTrips:
    """Carries connections from `place` to `target`. hops: that were made; said: when, monotonic,
    and how many bytes, of all that came from who connected"""

    def __init__(self, target: Address, here: Path | None = None) -> None:
        """here: a socket to listen at; else a port of loopback."""
        self._target = target
        self._listener = _listening(here)
        self.hops = 0
        self.said: list[tuple[float, int]] = []
        self.steps = True
        """Whether it counts; else all passes at once."""
        self._held: deque[tuple[socket.socket, bytes]] = deque()
        self._ends: list[socket.socket] = []
        self._forgotten: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._last = time.monotonic()
        self._closed = False
        for run in (self._accept, self._hop):
            threading.Thread(target=run, name="round trips", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """That were made through it."""
        return len(self._ends) // 2

    def forget(self) -> None:
        """As a router does that has forgotten the connections that there are: nothing of them
        passes any more, and no end is told. New ones pass."""
        with self._changed:
            self._forgotten = {*self._ends}

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for end in [self._listener, *self._ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> RoundTrips:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = _connected(self._target)
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    run = threading.Thread(target=self._take, args=(one, other, near), daemon=True)
                    run.start()

    def _take(self, source: socket.socket, sink: socket.socket, near: socket.socket) -> None:
        piece = b"-"
        while piece:
            try:
                piece = source.recv(1 << 16)
            except OSError:
                piece = b""
            with self._changed:
                self._last = time.monotonic()
                if piece and source is near:
                    self.said.append((self._last, len(piece)))
                if sink not in self._forgotten:
                    self._held.append((sink, piece))
                self._changed.notify_all()

    def _hop(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._ready():
                    self._changed.wait(0.02)
                if self._closed:
                    return
                held, self._held = self._held, deque()
                self.hops += any(piece for _, piece in held)
                self._last = time.monotonic()
            for sink, piece in held:
                with contextlib.suppress(OSError):
                    if piece:
                        sink.sendall(piece)
                    else:
                        sink.shutdown(socket.SHUT_WR)

    def _ready(self) -> bool:
        quiet = time.monotonic() - self._last > QUIET_SECONDS
        return bool(self._held) and (quiet or not self.steps)


def _listening(here: Path | None) -> socket.socket:
    if here is None:
        return socket.create_server(("127.0.0.1", 0))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(here))
    listener.listen(16)
    return listener


def _connected(target: Address) -> socket.socket:
    if isinstance(target, Path):
        end = socket.socket(socket.AF_UNIX)
        end.connect(str(target))
        return end
    end = socket.create_connection(target)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def through(trips: RoundTrips, peer: Peer) -> Peer:
    """The same host at the other end of it."""
    (line,) = [
        line
        for line in peer.known_hosts.read_text().splitlines()
        if line.startswith(f"[{peer.host}]:{peer.port} ")
    ]
    there = line.replace(f":{peer.port} ", f":{trips.port} ", 1)
    with peer.known_hosts.open("a") as file:
        file.write(there + "\n")
    return replace(peer, port=trips.port)
