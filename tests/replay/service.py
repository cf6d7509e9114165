# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A stateful HTTP service for tests, run as a program: `python service.py PORT [STATE_FILE]`."""

import os
import random
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    additions = 0
    state: Path | None = None

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        match self.path:
            case "/add":
                Handler.additions += 1
                if self.state:
                    self.state.write_text(f"{self.additions} {body!r}")
                self.answer(b"%d %b" % (self.additions, self.headers["X-Satchel-Seed"].encode()))
            case "/echo":
                self.answer(body)
            case "/die":
                os._exit(3)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        number = float(parse_qs(url.query).get("n", ["0"])[0])
        match url.path:
            case "/additions":
                self.answer(b"%d" % self.additions)
            case "/clock":
                self.answer(b"it is %d.%09d" % divmod(time.time_ns(), 10**9))
            case "/urandom":
                self.answer(os.urandom(16).hex().encode())
            case "/threads":
                self.answer(" ".join(race()).encode())
            case "/big":
                self.answer(bytes(range(256)) * int(number // 256))
            case "/slow":
                time.sleep(number)
                self.answer(b"slept")
            case "/until":
                self.wait_for(Path(parse_qs(url.query)["path"][0]))
            case "/endless":
                self.go_on()
            case "/reset":
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.rfile.close()
                self.wfile.close()
                self.connection.close()
                self.close_connection = True

    def go_on(self) -> None:
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(bytes(1 << 20))

    def wait_for(self, path: Path) -> None:
        while not path.exists():
            time.sleep(0.01)
        self.answer(b"there")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ValueError):
            self.close_connection = True

    def finish(self) -> None:
        if not self.wfile.closed:
            super().finish()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def race() -> list[str]:
    """Names of threads, in the order in which they came through."""
    through: list[str] = []

    def run(name: str) -> None:
        time.sleep(random.random() / 100)
        through.append(name)

    threads = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return through


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Handler.state = Path(sys.argv[2])
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
