# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The network of a hotspot, whose operator sees the time and the size of each packet."""

import contextlib
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

from wire import Acceptor, Peer, listen_local


class Wiretap:
    """A relay to a port of this host. sent: of each packet to there, its time and its size."""

    def __init__(self, port: int, delay: float = 0.0) -> None:
        """delay: seconds that each packet takes to there."""
        self._target, self._delay = port, delay
        self.sent: list[tuple[float, int]] = []
        self._acceptor = Acceptor(listen_local(0), self._adopt, "wiretap")
        self.port = self._acceptor.port
        self._acceptor.start()

    def peer(self, peer: Peer, folder: Path) -> Peer:
        """The same peer, by way of here."""
        known = folder / "tapped_hosts"
        lines = peer.known_hosts.read_text()
        known.write_text(lines.replace(f":{self._target} ", f":{self.port} "))
        return replace(peer, port=self.port, known_hosts=known)

    def sent_since(self, moment: float) -> int:
        """Bytes that went there since then."""
        return sum(size for at, size in list(self.sent) if at >= moment)

    def close(self) -> None:
        self._acceptor.close()

    def _adopt(self, near: socket.socket) -> None:
        far = socket.create_connection(("127.0.0.1", self._target))
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(*ends, ends[1] is far), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, noted: bool) -> None:
        with contextlib.suppress(OSError):
            while packet := source.recv(1 << 16):
                if noted:
                    self.sent.append((time.monotonic(), len(packet)))
                    time.sleep(self._delay)
                sink.sendall(packet)
            sink.shutdown(socket.SHUT_WR)
