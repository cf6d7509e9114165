# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a program with an open connection sees of moves: `python -m bench.carry_pings PORT`.

Every 10 ms it has Redis echo 64 bytes over the one connection that it has, and looks at what comes
back. For each line on standard input it prints one, in JSON: how many echoes there were since the
line before, and of the seconds that they took the median, the 99th percentile and the longest.
One that is not answered yet counts as what it has waited so far.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import threading
import time

PAUSE_SECONDS = 0.01
SIZE = 64


class Pings:
    """One connection, and what its echoes took. `failure`: the connection broke, or lied."""

    def __init__(self, port: int) -> None:
        self.failure = ""
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._waits_since = time.monotonic()
        self._port = port
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> dict[str, object]:
        """Since the last call."""
        with self._lock:
            waited = time.monotonic() - self._waits_since
            seconds, self._seconds = sorted([*self._seconds, waited]), []
        return {
            "count": len(seconds),
            "median": statistics.median(seconds),
            "p99": seconds[int(len(seconds) * 0.99)],
            "longest": seconds[-1],
            "failure": self.failure,
        }

    def _run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=300) as connection:
                number = 0
                while True:
                    number += 1
                    self._ping(connection, b"%0*d" % (SIZE, number))
                    time.sleep(PAUSE_SECONDS)
        except (OSError, ValueError) as error:
            self.failure = str(error) or repr(error)

    def _ping(self, connection: socket.socket, word: bytes) -> None:
        began = time.monotonic()
        with self._lock:
            self._waits_since = began
        connection.sendall(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (SIZE, word))
        wanted = b"$%d\r\n%s\r\n" % (SIZE, word)
        answer = b""
        while len(answer) < len(wanted):
            piece = connection.recv(len(wanted) - len(answer))
            if not piece:
                raise ValueError("the connection ended")
            answer += piece
        if answer != wanted:
            raise ValueError(f"{answer!r} came, and not {wanted!r}")
        with self._lock:
            self._waits_since = time.monotonic()
            self._seconds.append(self._waits_since - began)


def main() -> None:
    pings = Pings(int(sys.argv[1]))
    for _ in sys.stdin:
        print(json.dumps(pings.take()), flush=True)


if __name__ == "__main__":
    main()
